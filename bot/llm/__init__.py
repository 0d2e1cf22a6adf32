"""The model endpoint: client, seats, stream, server routes."""
