"""Small writes of many callers, kept in order and committed together.

One task writes; a caller enqueues what to do inside the transaction and may wait for the commit.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from bot.db import share_holds, shares
from bot.db.engine import Database
from bot.db.shares import ShareHold
from bot.db.transaction import Transaction
from bot.errors import ShareLost, StoreUnavailable

T = TypeVar("T")
WriteOperation = Callable[[Transaction], Awaitable[T]]

_log = logging.getLogger(__name__)
_FIRST_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _PendingWrite:
    operation: WriteOperation[Any]
    is_durable: bool
    result: asyncio.Future[Any]
    hold: ShareHold | None


class WriteQueue:
    """Write operations in their order; while the database cannot be written (locked, disk full) they wait.

    None is dropped before the queue is closed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[_PendingWrite] = []
        self._work_available = asyncio.Event()
        self._closed = asyncio.Event()

    def enqueue(self, operation: WriteOperation[Any], *, durable: bool = True) -> asyncio.Future[Any]:
        """Run `operation` after all enqueued before it; the future gets its result after the commit.

        A power cut may undo a commit of which nothing is `durable`. The future gets ShareLost if the caller's
        share is another replica's by then.
        """
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append(_PendingWrite(operation, durable, result, shares.find_current_hold()))
        self._work_available.set()
        return result

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
        batch: list[_PendingWrite] = []
        results: list[Any] = []
        durable = any(write.is_durable for write in self._pending)
        first_hold = self._pending[0].hold
        try:
            # A transaction requires one hold as it begins, which takes no trip of its own.
            with shares.work_under(first_hold):
                async with self._database.transaction(durable=durable) as tx:
                    batch = self._take_pending(durable=durable)
                    batch = await self._drop_lost(tx, batch, first_hold)
                    for write in batch:
                        results.append(await write.operation(tx))  # noqa: PERF401  # an error counts them
        except ShareLost:
            self._pending = _fail_writes(batch + self._pending, {first_hold})
            return
        except (StoreUnavailable, SQLAlchemyError) as error:
            self._pending = batch + self._pending  # nothing was written
            if isinstance(error, StoreUnavailable) or len(results) == len(batch):
                raise
            failed = self._pending.pop(len(results))  # it is wrong and can never be written
            if not failed.result.cancelled():
                failed.result.set_exception(error)
            return
        for write, result in zip(batch, results, strict=True):
            if not write.result.cancelled():
                write.result.set_result(result)

    async def _drop_lost(
        self, tx: Transaction, batch: list[_PendingWrite], standing: ShareHold | None
    ) -> list[_PendingWrite]:
        """Return the writes but those for shares that another replica has; these fail."""
        holds = {write.hold for write in batch if write.hold is not None and write.hold != standing}
        return _fail_writes(batch, holds - await share_holds.lock_standing(tx, holds))

    def _take_pending(self, *, durable: bool) -> list[_PendingWrite]:
        """What one commit may hold: everything, or if it is not durable all up to what has to be."""
        batch = self._pending
        if not durable:
            batch = list(itertools.takewhile(lambda write: not write.is_durable, self._pending))
        self._pending = self._pending[len(batch) :]
        return batch


def _fail_writes(writes: list[_PendingWrite], lost: Collection[ShareHold | None]) -> list[_PendingWrite]:
    """Fail the writes under these holds; returns the others."""
    for write in writes:
        if write.hold in lost and not write.result.done():
            write.result.set_exception(ShareLost())
            write.result.exception()  # not everybody waits for it
    return [write for write in writes if write.hold not in lost]
