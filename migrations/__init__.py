"""The schema's history, for Alembic (configured in pyproject.toml)."""
