"""bench load."""
