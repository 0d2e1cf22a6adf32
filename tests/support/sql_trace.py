"""What SQLite is asked in the event loop: statements, commits, and which of these are synced to the disk."""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "SELECT 1 FROM sqlite_schema")


class SqlTrace:
    """Everything that was run since the last `clear`, and how many connections with a thread were opened.

    `statements` holds neither what begins and ends transactions nor what sets connections up.
    """

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.commits: list[str] = []
        self.sync_count = 0
        self.thread_count = 0

    def clear(self) -> None:
        """Forget what was run so far."""
        self.statements.clear()
        self.commits.clear()
        self.sync_count = 0
        self.thread_count = 0

    def watch(self, connection: Any, _record: object) -> None:
        """Trace a connection that was just opened."""
        if not isinstance(connection, sqlite3.Connection):
            self.thread_count += 1
            return
        is_synced = True
        last_statement = ""

        def record(sql: str) -> None:
            nonlocal is_synced, last_statement
            if sql.startswith("PRAGMA synchronous="):
                is_synced = sql.endswith("FULL")
            if not sql.startswith(CONTROL):
                self.statements.append(sql)
                last_statement = sql
            if sql == "COMMIT":
                self.commits.append(last_statement)
                self.sync_count += is_synced

        connection.set_trace_callback(record)


@contextlib.contextmanager
def trace_sql() -> Iterator[SqlTrace]:
    """Trace every connection that is opened while the block runs."""
    trace = SqlTrace()
    event.listen(Engine, "connect", trace.watch)
    try:
        yield trace
    finally:
        event.remove(Engine, "connect", trace.watch)
