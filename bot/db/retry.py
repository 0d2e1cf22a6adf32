"""Waits for a database that cannot be used now: what was to be written is held in memory until it can be."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import StoreUnavailable

RETRY_SECONDS = 1.0

T = TypeVar("T")

log = logging.getLogger(__name__)


async def retry_until_available(operation: Callable[[], Awaitable[T]]) -> T:
    """What `work` gives, tried again every second for as long as it raises StoreUnavailable."""
    while True:
        try:
            return await operation()
        except StoreUnavailable as error:
            log.warning("%s", error, extra={"action": "store.away"})
            await asyncio.sleep(RETRY_SECONDS)
