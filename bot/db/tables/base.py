"""The metadata that all tables belong to, the naming of constraints, and column types for both databases.

Integers have 64 bits and texts are ordered by code points, as SQLite has it; so PostgreSQL is told to.
"""

from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, Dialect, MetaData, TypeDecorator, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# A character that no text holds ("noncharacter"), so that nearly every text is stored as it is.
_ESCAPE = "\ufdd0"
_ESCAPED_NUL = _ESCAPE + "0"
_ESCAPED_ESCAPE = _ESCAPE + "1"


class EscapedText(TypeDecorator[str]):
    """Text of PostgreSQL, which holds no NUL: it is escaped as it is stored, and is there again when read."""

    impl = sqlalchemy.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape NUL, and the escape itself."""
        if value is None or ("\0" not in value and _ESCAPE not in value):
            return value
        return value.replace(_ESCAPE, _ESCAPED_ESCAPE).replace("\0", _ESCAPED_NUL)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo what `process_bind_param` has done."""
        if value is None or _ESCAPE not in value:
            return value
        return value.replace(_ESCAPED_NUL, "\0").replace(_ESCAPED_ESCAPE, _ESCAPE)


Integer = BigInteger().with_variant(sqlalchemy.Integer(), "sqlite")
Id = Integer
"""SQLite generates ids only for columns of type INTEGER."""

Text = sqlalchemy.Text().with_variant(EscapedText(collation="C"), "postgresql")


def filter_rows(condition: str) -> dict[str, Any]:
    """The options of an Index that holds only the rows that meet this SQL condition.

    Only those of SQLite, since an index is made by a migration, which names both: an option of PostgreSQL
    imports its dialect into every process.
    """
    return {"sqlite_where": text(condition)}
