"""Stores heartbeats of this process, measured spans of running turns, and breakdowns of delivered ones.

One small transaction a second while turns are measured, and next to none while nobody writes.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Mapping

from bot.db import share_holds
from bot.db.engine import Database
from bot.db.shares import ShareHold
from bot.db.transaction import Transaction
from bot.db.usage import breakdowns, process_lives
from bot.db.usage.breakdowns import StoredBreakdown, TurnTimestamps, UnaccountedTurn
from bot.domain import Lane
from bot.errors import StoreUnavailable
from bot.usage.breakdown import (
    build_stored_breakdown,
    get_waiting_since,
    unmeasured_seconds,
)
from bot.usage.intervals import parse_spans, serialize_spans, to_exclusive_spans
from bot.usage.timers import NO_LANE, TurnTimer, TurnTimers

HEARTBEAT_SECONDS = 1.0  # seconds between heartbeats while turns are measured
IDLE_HEARTBEAT_SECONDS = 60.0  # and while none is
REPLICA_IDLE_HEARTBEAT_SECONDS = 5.0  # where other replicas end turns for which this one makes the accounts
MAX_ROUNDING_SECONDS = 0.001  # seconds that may be missing in a sum

log = logging.getLogger(__name__)


class UsageRecorder:
    """Call `start` before anything is taken or delivered, then `run` until `stop`.

    `shutdown_seconds`: to store the end of this process. `holds`: the shares of the chats it measures, by
    their numbers; None: all, for there is no other replica.
    """

    def __init__(
        self,
        database: Database,
        timers: TurnTimers,
        *,
        shutdown_seconds: float,
        holds: Mapping[int, ShareHold] | None = None,
    ) -> None:
        self._database = database
        self._timers = timers
        self._shutdown_seconds = shutdown_seconds
        self._holds = holds
        self._stopped = asyncio.Event()
        self._life_id = 0

    @property
    def life(self) -> int:
        """The id of this process's life, once it has started."""
        return self._life_id

    async def start(self) -> None:
        """Store that this process lives; where it is the only one, take over what earlier ones left."""
        began_at = self._timers.began_at
        unaccounted: list[UnaccountedTurn] = []
        async with self._database.transaction() as tx:
            self._life_id = await process_lives.begin(tx, began_at=began_at)
            if self._holds is None:
                unaccounted = await breakdowns.list_unaccounted(tx)
        for turn in unaccounted:
            self._continue(turn, began_at)

    async def take_over(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        """Take over turns that another replica left without a breakdown; it held these shares until `now`."""
        self._timers.abandon(numbers)
        self._timers.take_over(numbers, now=now)
        for turn in await breakdowns.list_unaccounted(tx):
            if Lane.parse(turn.lane).share in numbers:
                self._continue(turn, now)

    async def give_away(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        """Store what was measured until `now` for the chats of these shares; the next holder goes on."""
        given = [timer for timer in self._timers if timer.lane.share in numbers]
        spans = {timer.item: self._serialize_measured(timer, now) for timer in given}
        await breakdowns.store_spans(tx, spans)

    def abandon(self, numbers: Collection[int]) -> None:
        """Measure nothing more for the chats of these shares, which another replica has."""
        self._timers.abandon(numbers)

    def _continue(self, turn: UnaccountedTurn, since: float) -> None:
        stored_spans = parse_spans(turn.spans)
        lane = Lane.parse(turn.lane)
        has_ended = turn.ended_at is not None
        timer = TurnTimer(turn.item, lane, since=since, stored_spans=stored_spans, has_ended=has_ended)
        self._timers.add(timer)

    async def run(self) -> None:
        """Store heartbeats until stopped, and once more then."""
        while not self._stopped.is_set():
            with contextlib.suppress(StoreUnavailable):  # the next beat stores it all
                await self._beat()
            await self._wait_for_next_beat()
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(self._shutdown_seconds):
                await self._beat(is_last=True)

    def stop(self) -> None:
        """Nothing more will be measured: let `run` store what there is and return."""
        self._stopped.set()
        self._timers.close()

    async def _wait_for_next_beat(self) -> None:
        idle_seconds = IDLE_HEARTBEAT_SECONDS if self._holds is None else REPLICA_IDLE_HEARTBEAT_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(idle_seconds):
                await self._timers.wait_until_measuring()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._stopped.wait()

    async def _beat(self, *, is_last: bool = False) -> None:
        """Store a heartbeat, the breakdowns that can be built, and the spans of all other turns."""
        async with self._database.transaction() as tx:
            now = time.time()
            timers = await self._list_own_timers(tx)
            items = [timer.item for timer in timers]
            if is_last:
                await process_lives.end(tx, self._life_id, now=now)
            else:
                await process_lives.record_heartbeat(tx, self._life_id, now=now)
            delivered: list[TurnTimestamps] = []
            if items:
                delivered = await breakdowns.load_timestamps(tx, items)
            finished: dict[int, StoredBreakdown] = {}
            for timestamps in delivered:
                finished[timestamps.item] = await self._build_breakdown(tx, timestamps, now)
            await breakdowns.store_breakdowns(tx, finished)
            running = [timer for timer in timers if timer.item not in finished]
            spans = {timer.item: self._serialize_measured(timer, now) for timer in running}
            await breakdowns.store_spans(tx, spans)
        for item in finished:
            self._timers.forget(item)

    async def _list_own_timers(self, tx: Transaction) -> list[TurnTimer]:
        """The timers of turns whose chats stay this process's own until `tx` ends."""
        if self._holds is None:
            return list(self._timers)
        standing = {hold.share for hold in await share_holds.lock_standing(tx, self._holds.values())}
        await self._adopt_ended(tx, standing)
        return [timer for timer in self._timers if timer.lane.share in standing]

    async def _adopt_ended(self, tx: Transaction, standing: Collection[int]) -> None:
        """Measure on what another replica has ended in these shares, as by removing somebody's access.

        So it is with the turn of a supergroup that joined its group: who holds the share of that one goes on.
        What is measured for a share that is just being given away is stored with that.
        """
        for turn in await breakdowns.list_unaccounted(tx):
            if turn.ended_at is None:
                continue
            timer = self._timers.find(turn.item)
            lane = Lane.parse(turn.lane)
            is_own = lane.share in standing
            if timer is None and is_own:
                self._continue(turn, turn.ended_at)
            elif timer is not None and timer.lane != lane and not is_own:
                self._timers.forget(turn.item)

    async def _build_breakdown(
        self, tx: Transaction, timestamps: TurnTimestamps, now: float
    ) -> StoredBreakdown:
        timer = self._timers.find(timestamps.item)
        measured_spans = []
        if timer is not None:
            measured_spans = self._timers.spans(timer, now)
        outages = []
        lane = timer.lane if timer is not None else NO_LANE
        waiting_since = get_waiting_since(timestamps)
        if waiting_since < self._timers.get_begin(lane):
            outages = await self._list_outages(tx, lane, waiting_since)
        breakdown = build_stored_breakdown(timestamps, measured_spans, outages)
        missing = unmeasured_seconds(breakdown)
        if missing > MAX_ROUNDING_SECONDS:
            details = {"action": "keeper.gap", "turn": breakdown.turn, "seconds": missing}
            log.warning("seconds of a turn were not measured", extra=details)
        return breakdown

    async def _list_outages(self, tx: Transaction, lane: Lane, since: float) -> list[tuple[float, float]]:
        if self._holds is None:
            return await process_lives.list_outages(tx, since)
        return await share_holds.list_gaps(tx, lane.share, since)

    def _serialize_measured(self, timer: TurnTimer, now: float) -> str:
        return serialize_spans(to_exclusive_spans(0.0, now, self._timers.spans(timer, now)))
