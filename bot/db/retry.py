"""Retries an operation until the database can be used; what it is to write stays in memory meanwhile."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import StoreUnavailable

RETRY_SECONDS = 1.0

T = TypeVar("T")

log = logging.getLogger(__name__)


async def retry_until_available(operation: Callable[[], Awaitable[T]]) -> T:
    """Run `operation` every RETRY_SECONDS until it no longer raises StoreUnavailable; returns its result."""
    while True:
        try:
            return await operation()
        except StoreUnavailable as error:
            log.warning("%s", error, extra={"action": "store.away"})
            await asyncio.sleep(RETRY_SECONDS)
