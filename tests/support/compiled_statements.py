"""Statements of SQLAlchemy, compiled once for all databases of a process: most tests open their own."""

from typing import Any

from sqlalchemy import Connection, Dialect, event
from sqlalchemy.engine import Engine


def share_compiled_statements() -> None:
    """Let each connection use what those before it have compiled, which else each engine does for itself."""
    dialects: dict[type[Dialect], Dialect] = {}  # a statement is compiled for one
    compiled_cache: dict[Any, Any] = {}

    def share(connection: Connection) -> None:
        connection.dialect = dialects.setdefault(type(connection.dialect), connection.dialect)
        connection.execution_options(compiled_cache=compiled_cache)

    event.listen(Engine, "engine_connect", share)
