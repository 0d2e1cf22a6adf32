"""Statements of SQLAlchemy, compiled once for all databases of a process: most tests open their own.

Every statement that a test runs on SQLite is compiled for PostgreSQL as well.
"""

from typing import Any

from sqlalchemy import Connection, Dialect, event
from sqlalchemy.engine import Compiled, Engine, make_url
from sqlalchemy.sql import visitors
from sqlalchemy.sql.functions import Function

PORTABLE_FUNCTIONS = frozenset(
    {"aggregate_strings", "coalesce", "count", "length", "lower", "max", "min", "replace", "substr", "sum"}
)


class _CompiledStatements(dict[Any, Compiled]):
    """Compiled statements by what identifies them; fails for one that PostgreSQL cannot be told."""

    def __init__(self) -> None:
        super().__init__()
        self._postgresql = make_url("postgresql+psycopg://").get_dialect()()

    def __setitem__(self, key: Any, compiled: Compiled) -> None:
        if compiled.dialect.name == "sqlite" and compiled.statement is not None:
            compiled.statement.compile(dialect=self._postgresql)
            names = {part.name for part in visitors.iterate(compiled.statement) if isinstance(part, Function)}
            assert names <= PORTABLE_FUNCTIONS, names - PORTABLE_FUNCTIONS
        super().__setitem__(key, compiled)


def share_compiled_statements() -> None:
    """Let each connection use what those before it have compiled, which else each engine does for itself."""
    dialects: dict[type[Dialect], Dialect] = {}  # a statement is compiled for one
    compiled_cache = _CompiledStatements()

    def share(connection: Connection) -> None:
        connection.dialect = dialects.setdefault(type(connection.dialect), connection.dialect)
        connection.execution_options(compiled_cache=compiled_cache)

    event.listen(Engine, "engine_connect", share)
