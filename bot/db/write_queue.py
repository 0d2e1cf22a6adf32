"""Small writes of many callers, kept in order and committed together.

One task writes; a caller enqueues what to do inside the transaction and may wait for the commit.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from bot.db.engine import Database
from bot.db.transaction import Transaction
from bot.errors import StoreUnavailable

T = TypeVar("T")
WriteOperation = Callable[[Transaction], Awaitable[T]]

_log = logging.getLogger(__name__)
_FIRST_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 10.0


class WriteQueue:
    """Write operations in their order; while the database cannot be written (locked, disk full) they wait.

    None is dropped before the queue is closed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[tuple[WriteOperation[Any], asyncio.Future[Any]]] = []
        self._work_available = asyncio.Event()
        self._closed = asyncio.Event()

    def enqueue(self, operation: WriteOperation[Any]) -> asyncio.Future[Any]:
        """Run `operation` after all enqueued before it; the future gets its result after the commit."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append((operation, done))
        self._work_available.set()
        return done

    async def write(self, operation: WriteOperation[T]) -> T:
        """Enqueue `operation` and wait until it is committed; returns its result."""
        result: T = await self.enqueue(operation)
        return result

    def close(self) -> None:
        """Let `run` return once everything enqueued is written, or cannot be written now."""
        self._closed.set()
        self._work_available.set()

    async def run(self) -> None:
        """Write until closed."""
        pause = _FIRST_BACKOFF_SECONDS
        while self._pending or not self._closed.is_set():
            await self._work_available.wait()
            self._work_available.clear()
            while self._pending:
                try:
                    await self._commit_pending()
                    pause = _FIRST_BACKOFF_SECONDS
                except (StoreUnavailable, SQLAlchemyError) as error:
                    if not isinstance(error, StoreUnavailable):  # else the database says so, once
                        _log.warning(
                            "the outbox cannot be written; trying again", extra={"action": "ledger.again"}
                        )
                    if self._closed.is_set():
                        return  # the next start recovers from the rows as they are
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await self._closed.wait()
                    pause = min(pause * 2, _MAX_BACKOFF_SECONDS)

    async def _commit_pending(self) -> None:
        batch: list[tuple[WriteOperation[Any], asyncio.Future[Any]]] = []
        results: list[Any] = []
        try:
            async with self._database.transaction() as tx:
                batch = self._pending
                self._pending = []
                for operation, _ in batch:
                    results.append(await operation(tx))
        except (StoreUnavailable, SQLAlchemyError) as error:
            self._pending = batch + self._pending  # nothing was written
            if isinstance(error, StoreUnavailable) or len(results) == len(batch):
                raise
            _, failed = self._pending.pop(len(results))  # this operation is wrong and can never be written
            if not failed.cancelled():
                failed.set_exception(error)
            return
        for (_, done), result in zip(batch, results, strict=True):
            if not done.cancelled():
                done.set_result(result)
