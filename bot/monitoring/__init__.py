"""What the house shows over HTTP: whether it lives, and figures for Prometheus."""
