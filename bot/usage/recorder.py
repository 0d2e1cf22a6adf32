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
from bot.db.usage.breakdowns import StoredBreakdown, TurnTimestamps
from bot.domain import Lane
from bot.errors import StoreUnavailable
from bot.usage.breakdown import build_stored_breakdown, count_durations, unmeasured_seconds
from bot.usage.intervals import parse_spans, serialize_spans, to_exclusive_spans
from bot.usage.timers import TurnTimer, TurnTimers

HEARTBEAT_SECONDS = 1.0  # seconds between heartbeats while turns are measured
IDLE_HEARTBEAT_SECONDS = 60.0  # and while none is
SHUTDOWN_SECONDS = 1.0  # seconds to store the end of this process in
MAX_ROUNDING_SECONDS = 0.001  # seconds that may be missing in a sum

log = logging.getLogger(__name__)


class UsageRecorder:
    """Build one, `begin` before anything is taken or delivered, `run` it until `stop`."""

    def __init__(self, database: Database, timers: TurnTimers) -> None:
        self._database = database
        self._timers = timers
        self._stopped = asyncio.Event()
        self._life_id = 0

    async def start(self) -> None:
        """Say that this process lives, and take up the turns that earlier ones have left without an account."""
        async with self._database.transaction() as tx:
            self._life_id = await lives.begin(tx, began_at=self._timers.began_at)
            for one in await accounts.list_unaccounted(tx):
                lane = Lane.parse(one.lane)
                stored = parse_spans(one.spans)
                began = self._timers.began_at
                self._timers.add(
                    TurnTimer(one.item, lane, since=began, stored_spans=stored, has_ended=one.is_over)
                )

    async def run(self) -> None:
        """Beat until stopped, and once more then."""
        while not self._stopped.is_set():
            try:
                await self._beat()
            except StoreUnavailable as error:
                log.warning("%s", error, extra={"action": "keeper.away"})
            await self._wait_for_next_beat()
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self._beat(is_last=True)

    def stop(self) -> None:
        """Nothing is measured any more: store what there is, and let `run` return."""
        self._stopped.set()
        self._timers.close()

    async def _wait_for_next_beat(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_HEARTBEAT_SECONDS):
                await self._timers.wait_until_measuring()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._stopped.wait()

    async def _beat(self, *, is_last: bool = False) -> None:
        """Store that this process lives, the accounts that can be made, and what was measured of all other
        turns.
        """
        items = [watch.item for watch in self._timers]
        async with self._database.transaction() as tx:
            now = time.time()
            await (lives.end if is_last else lives.record_heartbeat)(tx, self._life_id, now=now)
            found = await accounts.load_timestamps(tx, items) if items else []
            kept = {course.item: await self._build_breakdown(tx, course, now) for course in found}
            await accounts.store_breakdowns(
                tx, kept, sum((count_durations(one, kept[one.item]) for one in found), Counter())
            )
            others = [watch for watch in self._timers if watch.item not in kept]
            await accounts.store_spans(tx, {one.item: self._serialize_measured(one, now) for one in others})
        for item in kept:
            self._timers.forget(item)

    async def _build_breakdown(
        self, tx: Transaction, timestamps: TurnTimestamps, now: float
    ) -> StoredBreakdown:
        watch = self._timers.find(timestamps.item)
        began_at = self._timers.began_at
        if timestamps.received_at < began_at:
            outages = await lives.list_outages(tx, timestamps.received_at)
        else:
            outages = []
        kept = build_stored_breakdown(timestamps, self._timers.spans(watch, now) if watch else (), outages)
        if (missing := unmeasured_seconds(kept)) > MAX_ROUNDING_SECONDS:
            found = {"action": "keeper.gap", "turn": kept.turn, "seconds": missing}
            log.warning("seconds of a turn were not measured", extra=found)
        return kept

    def _serialize_measured(self, timer: TurnTimer, now: float) -> str:
        return serialize_spans(to_exclusive_spans(0.0, now, self._timers.spans(timer, now)))
