"""`bench direct` and `bench gateway`: an endpoint measured with and without the gateway."""
