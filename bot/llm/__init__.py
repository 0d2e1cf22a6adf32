"""The model endpoint: client, seats, stream, the server's other routes, and diagnostics."""
