"""bench thinking and bench tools."""
