"""Retries an operation until the database can be used; what it is to write stays in memory meanwhile."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import StoreUnavailable

RETRY_SECONDS = 1.0

T = TypeVar("T")

log = logging.getLogger(__name__)


class OutageLog:
    """Logs when the database cannot be used any more, and when it can again; not each attempt."""

    def __init__(self) -> None:
        self._began_at: float | None = None  # monotonic

    def record_failure(self, error: StoreUnavailable) -> None:
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


async def retry_until_available(
    operation: Callable[[], Awaitable[T]], outage_log: OutageLog | None = None
) -> T:
    """Run `operation` every RETRY_SECONDS until it no longer raises StoreUnavailable; returns its result.

    `outage_log`: for operations without an open database, which logs by itself.
    """
    while True:
        try:
            result = await operation()
        except StoreUnavailable as error:
            if outage_log is not None:
                outage_log.record_failure(error)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        if outage_log is not None:
            outage_log.record_success()
        return result
