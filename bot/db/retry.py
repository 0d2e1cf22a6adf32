"""Retries an operation until the database can be used; what it is to write stays in memory meanwhile."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from bot.errors import StoreReplaced, StoreUnavailable

RETRY_SECONDS = 1.0

T = TypeVar("T")

log = logging.getLogger(__name__)


class OutageLog:
    """Logs when the database cannot be used any more, and when it can again; not each attempt."""

    def __init__(self) -> None:
        self._began_at: float | None = None  # monotonic
        self._replaced = asyncio.Event()

    @property
    def is_away(self) -> bool:
        """Whether nothing can be stored now, as far as anything was tried."""
        return self._began_at is not None

    async def wait_until_replaced(self) -> None:
        """Return once the file of the database was found to be another one, or none."""
        await self._replaced.wait()

    def record_failure(self, error: StoreUnavailable) -> None:
        if isinstance(error, StoreReplaced):
            self._replaced.set()
        if self._began_at is None:
            self._began_at = time.monotonic()
            log.warning("%s; waiting until it can", error, extra={"action": "store.away"})

    def record_success(self) -> None:
        if self._began_at is not None:
            seconds = time.monotonic() - self._began_at
            self._began_at = None
            log.warning(
                "the database can be used again, after %.0f s", seconds, extra={"action": "store.back"}
            )


def report_failure(outage_log: OutageLog | None, error: StoreUnavailable) -> None:
    """Note that the database cannot be used."""
    if outage_log is not None:
        outage_log.record_failure(error)


@contextlib.contextmanager
def report_failures(outage_log: OutageLog | None) -> Iterator[None]:
    """Note that the database cannot be used, if the block says so."""
    try:
        yield
    except StoreUnavailable as error:
        report_failure(outage_log, error)
        raise


def report_success(outage_log: OutageLog | None) -> None:
    """Note that the database can be used."""
    if outage_log is not None:
        outage_log.record_success()


async def retry_until_available(operation: Callable[[], Awaitable[T]]) -> T:
    """Run `operation` every RETRY_SECONDS until it no longer raises StoreUnavailable; returns its result."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            return await operation()
        await asyncio.sleep(RETRY_SECONDS)
