"""Waits until Telegram may be called; every wait ends at once when the sender stops.

Owns the clock of the budget. Calls that must arrive queue in the order they came; progress never queues.
"""

import asyncio
import time
from collections.abc import Callable

from bot.telegram.delivery.rate_budget import RateBudget, RateLimits

_CONFIRMATION_SECONDS = 0.1  # between looks while it is not certain whose the chats are


class SenderStopped(Exception):
    """The sender stops: what waits is left for the next start."""


class RateQueue:
    """One budget that many lanes wait for.

    `is_confirmed`: whether the chats are certainly still this process's own; no call is made while not.
    """

    def __init__(self, limits: RateLimits, is_confirmed: Callable[[], bool] = lambda: True) -> None:
        self.limits = limits
        self._is_confirmed = is_confirmed
        self._budget = RateBudget(limits)
        self._lock = asyncio.Lock()
        self._stopped = asyncio.Event()

    @property
    def now(self) -> float:
        """Seconds of the monotonic clock by which all waits are measured."""
        return time.monotonic()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def divide_overall(self, replicas: int) -> None:
        """Use an equal part of the overall limit, which so many replicas have together."""
        self._budget.divide_overall(replicas)

    def stop(self) -> None:
        """End all waits with SenderStopped, now and from now on."""
        self._stopped.set()

    async def acquire(self, chat: int) -> None:
        """Wait until a call that must arrive may be made, and count it."""
        while True:
            while wait := self._budget.get_chat_wait_seconds(chat, self.now):
                await self.sleep(wait)
            async with self._lock:
                while wait := self._budget.get_overall_wait_seconds(self.now):
                    await self.sleep(wait)
                if not self._budget.get_chat_wait_seconds(chat, self.now):
                    self._budget.spend(chat, self.now)
                    return

    def try_acquire(self, chat: int) -> bool:
        """Count a call that must arrive; False if it would have to wait."""
        if self._lock.locked() or self.is_stopped or not self._is_confirmed():
            return False
        now = self.now
        if self._budget.get_chat_wait_seconds(chat, now) or self._budget.get_overall_wait_seconds(now):
            return False
        self._budget.spend(chat, now)
        return True

    async def wait_until_stopped(self) -> None:
        """Wait until the sender stops."""
        await self._stopped.wait()

    def refund(self, chat: int) -> None:
        """Give back a call that was not made after all."""
        self._budget.refund(chat, self.now)

    async def wait_until_confirmed(self) -> None:
        """Wait until the chats are certainly still this process's own.

        A process that was paused may have lost them without having noticed yet.
        """
        while not self._is_confirmed():
            await self.sleep(_CONFIRMATION_SECONDS)

    def try_spend_progress(self, chat: int) -> float:
        """Count a call that only shows progress and return 0, or the seconds until it may be tried again."""
        if not self._is_confirmed():
            return _CONFIRMATION_SECONDS
        now = self.now
        wait = max(
            self._budget.get_chat_wait_seconds(chat, now, is_progress=True),
            self._budget.get_overall_wait_seconds(now, is_progress=True),
        )
        if not wait:
            self._budget.spend(chat, now, is_progress=True)
        return wait

    def spend(self, chat: int) -> None:
        """Count a call that follows another without a wait."""
        self._budget.spend(chat, self.now)

    def back_off(self, chat: int, seconds: float) -> None:
        """Block this chat; chats refused at the same time do not come back at the same time."""
        self._budget.back_off(chat, seconds + 0.2 + (chat * 40503 % 1000) / 1250, self.now)

    async def sleep(self, seconds: float) -> None:
        """Wait; raises SenderStopped when the sender stops meanwhile."""
        if not seconds:
            return
        if not self.is_stopped:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()
            except TimeoutError:
                return
        raise SenderStopped
