"""A connection that looks at its socket for a moment before it has the event loop wait for it.

A server on the same machine answers most statements in a tenth of a millisecond. To have the event loop wait
for that takes the processor longer than the statement itself.
"""

import ipaddress
import select
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

T = TypeVar("T")

_PATIENCE_MILLISECONDS = 1  # the event loop does nothing else meanwhile


class LocalConnection(psycopg.AsyncConnection[Any]):
    """A connection to a server, which may be on the same machine."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._poll: select.poll | None = None
        if _is_local(self.info):
            self._poll = select.poll()
            self._poll.register(self.fileno(), select.POLLIN)

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:  # noqa: ASYNC109  # the driver's
        """Run what the driver does with the connection."""
        if self._poll is None:
            return await super().wait(gen, interval, timeout)
        return await super().wait(_poll_first(gen, self._poll), interval, timeout)


def _poll_first(gen: PQGen[T], poll: select.poll) -> PQGen[T]:
    """Run `gen`, and yield what it waits for only where it does not come at once."""
    try:
        awaited = next(gen)
        while True:
            if awaited == Wait.R and poll.poll(_PATIENCE_MILLISECONDS):
                awaited = gen.send(Ready.R)
            else:
                awaited = gen.send((yield awaited))
    except StopIteration as end:
        result: T = end.value
        return result


def _is_local(info: psycopg.ConnectionInfo) -> bool:
    """Whether the server is reached by a socket of the file system, or by the loopback interface."""
    return not info.hostaddr or ipaddress.ip_address(info.hostaddr).is_loopback
