"""Keeps the accounts of turns: the heartbeat of this process, what is measured of running turns, accounts
once they can be made. One small transaction a second while turns are measured, and next to none while nobody
writes.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter

from bot.db.engine import Database, Transaction
from bot.db.usage import breakdowns as accounts
from bot.db.usage import process_lives as lives
from bot.db.usage.breakdowns import Course, Kept
from bot.domain import Lane
from bot.errors import StoreUnavailable
from bot.usage.breakdown import counted, gap, made
from bot.usage.intervals import divided, read, written
from bot.usage.timers import Watch, Watches

BEAT = 1.0  # seconds between heartbeats while turns are measured
IDLE = 60.0  # and while none is
LAST_WORDS = 1.0  # seconds to store the end of this process in
ROUNDED = 0.001  # seconds that may be missing in a sum

log = logging.getLogger(__name__)


class Keeper:
    """Build one, `begin` before anything is taken or delivered, `run` it until `stop`."""

    def __init__(self, database: Database, watches: Watches) -> None:
        self._database = database
        self._watches = watches
        self._stopped = asyncio.Event()
        self._life = 0

    async def begin(self) -> None:
        """Say that this process lives, and take up the turns that earlier ones have left without an account."""
        async with self._database.transaction() as tx:
            self._life = await lives.begin(tx, began_at=self._watches.began_at)
            for one in await accounts.unaccounted(tx):
                lane = Lane.parse(one.lane)
                stored = read(one.spans)
                began = self._watches.began_at
                self._watches.keep(Watch(one.item, lane, since=began, stored=stored, over=one.over))

    async def run(self) -> None:
        """Beat until stopped, and once more then."""
        while not self._stopped.is_set():
            try:
                await self._beat()
            except StoreUnavailable as error:
                log.warning("%s", error, extra={"action": "keeper.away"})
            await self._pause()
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._beat(last=True)

    def stop(self) -> None:
        """Nothing is measured any more: store what there is, and let `run` return."""
        self._stopped.set()
        self._watches.close()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE):
                await self._watches.stirred()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEAT):
                await self._stopped.wait()

    async def _beat(self, *, last: bool = False) -> None:
        """Store that this process lives, the accounts that can be made, and what was measured of all other
        turns.
        """
        items = [watch.item for watch in self._watches]
        async with self._database.transaction() as tx:
            now = time.time()
            await (lives.end if last else lives.beat)(tx, self._life, now=now)
            found = await accounts.courses(tx, items) if items else []
            kept = {course.item: await self._made(tx, course, now) for course in found}
            await accounts.keep(tx, kept, sum((counted(one, kept[one.item]) for one in found), Counter()))
            others = [watch for watch in self._watches if watch.item not in kept]
            await accounts.measured(tx, {one.item: self._so_far(one, now) for one in others})
        for item in kept:
            self._watches.forget(item)

    async def _made(self, tx: Transaction, course: Course, now: float) -> Kept:
        watch = self._watches.find(course.item)
        began_at = self._watches.began_at
        if course.received_at < began_at:
            outages = await lives.outages(tx, course.received_at)
        else:
            outages = []
        kept = made(course, self._watches.spans(watch, now) if watch else (), outages)
        if (missing := gap(kept)) > ROUNDED:
            found = {"action": "keeper.gap", "turn": kept.turn, "seconds": missing}
            log.warning("seconds of a turn were not measured", extra=found)
        return kept

    def _so_far(self, watch: Watch, now: float) -> str:
        return written(divided(0.0, now, self._watches.spans(watch, now)))
