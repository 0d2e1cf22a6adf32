"""Everything the gateway stores, in SQLite; no other package speaks SQL."""
