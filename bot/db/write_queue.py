"""Small writes of many callers, kept in their order and committed together.

Owns one task that writes; a caller hands in what to do inside the transaction and may wait for the commit.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.engine import Database
from bot.errors import StoreUnavailable

T = TypeVar("T")
Entry = Callable[[AsyncConnection], Awaitable[T]]

_log = logging.getLogger(__name__)
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0


class Ledger:
    """While the database cannot be written (locked, disk full) entries wait; none is dropped before it is
    closed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[Entry[Any], asyncio.Future[Any]]] = []
        self._arrived = asyncio.Event()
        self._closed = asyncio.Event()

    def post(self, entry: Entry[Any]) -> asyncio.Future[Any]:
        """Have `entry` written after all that was handed in before; the future tells what it returned."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, done))
        self._arrived.set()
        return done

    async def write(self, entry: Entry[T]) -> T:
        """The same, and wait until it is committed."""
        result: T = await self.post(entry)
        return result

    def close(self) -> None:
        """Let `run` return once everything handed in is written, or cannot be written now."""
        self._closed.set()
        self._arrived.set()

    async def run(self) -> None:
        """Write until closed."""
        pause = _FIRST_PAUSE
        while self._waiting or not self._closed.is_set():
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                try:
                    await self._commit()
                    pause = _FIRST_PAUSE
                except (StoreUnavailable, SQLAlchemyError):
                    _log.warning(
                        "the outbox cannot be written; trying again", extra={"action": "ledger.again"}
                    )
                    if self._closed.is_set():
                        return  # the rows as they stand are what the next start goes by
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await self._closed.wait()
                    pause = min(pause * 2, _LONGEST_PAUSE)

    async def _commit(self) -> None:
        taken: list[tuple[Entry[Any], asyncio.Future[Any]]] = []
        results: list[Any] = []
        try:
            async with self._database.transaction() as tx:
                taken = self._waiting
                self._waiting = []
                for entry, _ in taken:
                    results.append(await entry(tx))
        except (StoreUnavailable, SQLAlchemyError) as error:
            self._waiting = taken + self._waiting  # nothing was written
            if isinstance(error, StoreUnavailable) or len(results) == len(taken):
                raise
            _, refused = self._waiting.pop(len(results))  # this one can never be written
            if not refused.cancelled():
                refused.set_exception(error)
            return
        for (_, done), result in zip(taken, results, strict=True):
            if not done.cancelled():
                done.set_result(result)
