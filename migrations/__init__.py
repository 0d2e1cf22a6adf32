"""The history of the database schema, for Alembic (configured in pyproject.toml)."""
