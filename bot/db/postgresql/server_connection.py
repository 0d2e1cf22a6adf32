"""A connection that SQLAlchemy uses as if it blocked; meanwhile the event loop goes on.

Two connections of the driver share one session at the server. The blocking one runs the statements, which
takes less time than in coroutines. The other one connects, and waits in the event loop for what does not come
at once.

A server on the same machine answers most statements in a tenth of a millisecond. To have the event loop wait
for that takes the processor longer than the statement itself.
"""

import ipaddress
import select
from typing import Any, Self, TypeVar

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.waiting import Ready, Wait
from sqlalchemy.util import await_

T = TypeVar("T")

_PATIENCE_MILLISECONDS = 1  # the event loop does nothing else meanwhile


class _ServerCursor(psycopg.Cursor[Any]):
    """A cursor that tells of a column only what SQLAlchemy reads; to tell all takes 2 µs a column."""

    @property
    def description(self) -> Any:
        result = self.pgresult
        if result is None or result.status != ExecStatus.TUPLES_OK:
            return None
        return [((result.fname(i) or b"").decode(), result.ftype(i)) for i in range(result.nfields)]


class ServerConnection(psycopg.Connection[Any]):
    """A connection for functions that `greenlet_spawn` runs; `open` builds it."""

    def __init__(self, loop_connection: psycopg.AsyncConnection[Any]) -> None:
        super().__init__(loop_connection.pgconn)
        self.cursor_factory = _ServerCursor
        self._loop_connection = loop_connection
        self._poll: select.poll | None = None
        if _is_local(self.info):
            self._poll = select.poll()
            self._poll.register(self.fileno(), select.POLLIN)

    @classmethod
    def open(cls, *arguments: Any, **options: Any) -> Self:
        """Connect to the server; the caller's greenlet waits."""
        return cls(await_(psycopg.AsyncConnection.connect(*arguments, **options)))

    def run_statements(self, statements: bytes) -> list[str]:
        """Run statements in one trip, without a cursor; returns the first value of each row they return."""
        self.pgconn.send_query(statements)
        values: list[str] = []
        for result in self.wait(generators.execute(self.pgconn)):
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
            values += [(result.get_value(row, 0) or b"").decode() for row in range(result.ntuples)]
        return values

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Run what the driver does with the session; the caller's greenlet waits.

        If its task is cancelled, the server is asked to cancel the statement, and its end is waited for.
        """
        try:
            awaited = next(gen)
            while awaited == Wait.R and self._poll is not None and self._poll.poll(_PATIENCE_MILLISECONDS):
                awaited = gen.send(Ready.R)
        except StopIteration as end:
            result: T = end.value
            return result
        return await_(self._loop_connection.wait(_continue(gen, awaited), interval, timeout))


def _continue(gen: PQGen[T], awaited: Wait) -> PQGen[T]:
    """The rest of `gen`, which waits for `awaited`."""
    try:
        while True:
            awaited = gen.send((yield awaited))
    except StopIteration as end:
        result: T = end.value
        return result


def _is_local(info: psycopg.ConnectionInfo) -> bool:
    """Whether the server is reached by a socket of the file system, or by the loopback interface."""
    return not info.hostaddr or ipaddress.ip_address(info.hostaddr).is_loopback
