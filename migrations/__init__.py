"""The history of the database schema, for Alembic (configured in pyproject.toml).

One history for SQLite and PostgreSQL: what they call differently has one name here.
"""

from typing import Any

import sqlalchemy as sa

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""64 bits; SQLite generates ids only for a column of type INTEGER."""

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Compared and ordered by code points, as SQLite does: ranges of lane keys rely on it."""


def filter_rows(condition: str) -> dict[str, Any]:
    """The options of an index that holds only the rows that meet this SQL condition."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
