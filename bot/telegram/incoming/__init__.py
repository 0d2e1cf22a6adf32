"""Updates fetched, stored and read."""
