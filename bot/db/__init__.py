"""Everything the gateway stores, in SQLite or PostgreSQL; no other package speaks SQL."""
