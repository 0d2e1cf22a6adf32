"""A simulated Bot API."""
