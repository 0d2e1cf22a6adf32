"""What the gateway serves over HTTP for operators: its health, and metrics for Prometheus."""
