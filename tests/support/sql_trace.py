"""What SQLite is asked in the event loop: statements, commits, and which of these are synced to the disk."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "SELECT 1 FROM sqlite_schema")


@dataclass(frozen=True, slots=True)
class TracedCommit:
    """A commit, with the last statement that its connection ran before it."""

    last_statement: str
    is_synced: bool


class SqlTrace:
    """Everything that was run since the last `clear`, and how many connections with a thread were opened.

    `statements` holds neither what begins and ends transactions nor what sets connections up.
    """

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.commits: list[TracedCommit] = []
        self.thread_count = 0

    def clear(self) -> None:
        """Forget what was run so far."""
        self.statements.clear()
        self.commits.clear()
        self.thread_count = 0

    def watch(self, connection: Any, _record: object) -> None:
        """Trace a connection that was just opened."""
        if not isinstance(connection, sqlite3.Connection):
            self.thread_count += 1
            return
        is_synced = True
        last_statement = ""  # of this connection: while it commits in a thread, others read

        def record(sql: str) -> None:
            nonlocal is_synced, last_statement
            if sql.startswith("PRAGMA synchronous="):
                is_synced = sql.endswith("FULL")
            if sql == "COMMIT":
                self.commits.append(TracedCommit(last_statement, is_synced))
            if not sql.startswith(CONTROL):
                last_statement = sql
                self.statements.append(sql)

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
