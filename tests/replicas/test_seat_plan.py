"""The queue that replicas share gives seats in the same order as the one in memory."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from bot.db.queues.seat_requests import SeatRequest
from bot.domain import PEOPLE_PRIORITY, SUMMARIES_PRIORITY, TASKS_PRIORITY
from bot.llm.seats import SeatLimiter
from bot.replicas.seat_plan import (
    TAKE_SECONDS,
    OwnCall,
    ReplicaView,
    SeatPlan,
    list_waiting,
    may_keep_seats,
    plan_seats,
)

PRIORITIES = [PEOPLE_PRIORITY, PEOPLE_PRIORITY, TASKS_PRIORITY, SUMMARIES_PRIORITY]


@dataclass
class PlannedQueue:
    """Three replicas that plan whenever something changes, one after the other."""

    count: int
    now: float = 0.0
    requests: tuple[SeatRequest, ...] = ()
    calls: dict[int, dict[int, OwnCall]] = field(default_factory=lambda: {1: {}, 2: {}, 3: {}})
    gone: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)

    def add(self, life: int, number: int, lane: str, priority: int) -> None:
        self.calls[life][number] = OwnCall(number, lane, priority, self.now, has_seat=False)
        self.plan(life)

    def end(self, number: int) -> None:
        for life, calls in self.calls.items():
            if calls.pop(number, None):
                self.plan(life)

    def plan(self, life: int) -> None:
        to_plan = [life]
        while to_plan:
            life = to_plan.pop(0)
            view = ReplicaView(life, list(self.calls[life].values()), self.gone)
            plan = plan_seats(self.requests, view, self.count, now=self.now)
            self.requests = plan.requests
            told = {request.life for request in plan.granted_elsewhere}
            to_plan += sorted(told - self.paused)
            for number in self.list_holders():
                if number in self.calls[life]:
                    self.calls[life][number] = replace(self.calls[life][number], has_seat=True)

    def list_holders(self) -> list[int]:
        return sorted(request.number for request in self.requests if request.seat is not None)

    def list_waiting(self) -> list[int]:
        return [request.number for request in list_waiting(self.requests)]


class HeldCalls:
    """Calls of a SeatLimiter, each named by its number instead of what it holds."""

    def __init__(self, count: int, tasks: asyncio.TaskGroup) -> None:
        self.limiter = SeatLimiter(count)
        self.tasks = tasks
        self.running: dict[int, asyncio.Task[None]] = {}
        self.holders: set[int] = set()

    async def add(self, number: int, lane: str, priority: int) -> None:
        self.running[number] = self.tasks.create_task(self._hold(number, lane, priority))
        await self._settle()

    async def end(self, number: int) -> None:
        self.running.pop(number).cancel()
        await self._settle()

    async def _hold(self, number: int, lane: str, priority: int) -> None:
        with suppress(asyncio.CancelledError):
            async with self.limiter.hold(lane, priority):
                self.holders.add(number)
                try:
                    await asyncio.Event().wait()
                finally:
                    self.holders.discard(number)

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(25))
async def test_the_order_is_that_of_the_queue_in_memory(seed: int):
    choices = random.Random(seed)
    count = choices.randint(1, 4)
    planned = PlannedQueue(count)
    async with asyncio.TaskGroup() as tasks:
        held = HeldCalls(count, tasks)
        lanes: dict[int, str] = {}
        for number in range(1, 81):
            lane = choices.choice("AAAABCDEF")
            priority = choices.choice(PRIORITIES)
            lanes[number] = lane
            planned.add("ABCDEF".index(lane) % 3 + 1, number, lane, priority)
            await held.add(number, lane, priority)
            while held.running and choices.random() < 0.5:
                ended = choices.choice(list(held.running))
                planned.end(ended)
                await held.end(ended)
                assert planned.list_holders() == sorted(held.holders)
            waiting = [call.lane for call in held.limiter.list_waiting()]
            assert [lanes[number] for number in planned.list_waiting()] == waiting
            assert planned.list_holders() == sorted(held.holders)
            seats = [request.seat for request in planned.requests if request.seat is not None]
            assert len(set(seats)) == len(seats)
            assert max(seats, default=0) <= count
        for number in list(held.running):
            await held.end(number)
            planned.end(number)
    assert planned.requests == ()


def test_a_seat_that_a_paused_replica_does_not_take_goes_to_the_next_one():
    planned = PlannedQueue(count=1, paused={2})
    planned.add(1, 1, "A", PEOPLE_PRIORITY)
    planned.add(2, 2, "B", PEOPLE_PRIORITY)
    planned.add(2, 3, "C", PEOPLE_PRIORITY)
    planned.add(1, 4, "D", PEOPLE_PRIORITY)
    planned.end(1)
    assert planned.list_holders() == [2]
    planned.now = TAKE_SECONDS / 2
    planned.plan(1)
    assert planned.list_holders() == [2]
    planned.now = TAKE_SECONDS + 1
    planned.plan(1)
    assert (planned.list_holders(), planned.list_waiting()) == ([4], [2, 3])
    planned.paused = set()
    planned.plan(2)
    planned.end(4)
    assert (planned.list_holders(), planned.list_waiting()) == ([2], [3])


def test_the_seats_of_a_replica_that_is_gone_come_back_and_its_calls_wait_no_longer():
    planned = PlannedQueue(count=2)
    planned.add(2, 1, "A", PEOPLE_PRIORITY)
    planned.add(2, 2, "B", PEOPLE_PRIORITY)
    planned.add(2, 3, "C", PEOPLE_PRIORITY)
    planned.add(1, 4, "D", PEOPLE_PRIORITY)
    assert planned.list_holders() == [1, 2]
    planned.gone = {2}
    planned.plan(1)
    assert (planned.list_holders(), planned.list_waiting()) == ([4], [])


def test_a_seat_that_the_server_lost_in_a_crash_is_stored_again():
    planned = PlannedQueue(count=2)
    planned.add(1, 1, "A", PEOPLE_PRIORITY)
    planned.add(2, 2, "B", PEOPLE_PRIORITY)
    planned.requests = ()
    planned.plan(1)
    planned.add(3, 3, "C", PEOPLE_PRIORITY)
    planned.plan(2)
    assert planned.list_holders() == [1, 2, 3]
    planned.add(1, 4, "D", PEOPLE_PRIORITY)
    planned.end(1)
    assert (planned.list_holders(), planned.list_waiting()) == ([2, 3], [4])
    planned.end(2)
    assert planned.list_holders() == [3, 4]


def plan_call(planned: PlannedQueue, life: int, number: int) -> SeatPlan:
    """Plan one more call of a person."""
    call = OwnCall(number, "A", PEOPLE_PRIORITY, planned.now, has_seat=False)
    view = ReplicaView(life, [*planned.calls[life].values(), call])
    return plan_seats(planned.requests, view, planned.count, now=planned.now)


def test_kept_seats_are_wanted_when_the_first_call_begins_to_wait_and_another_replica_may_have_one():
    planned = PlannedQueue(count=2)
    planned.add(1, 1, "A", PEOPLE_PRIORITY)
    assert not plan_call(planned, 1, 9).wants_kept_seats
    planned.add(1, 2, "B", PEOPLE_PRIORITY)
    assert not plan_call(planned, 1, 9).wants_kept_seats
    assert plan_call(planned, 2, 9).wants_kept_seats
    planned.add(2, 3, "C", PEOPLE_PRIORITY)
    assert not plan_call(planned, 3, 9).wants_kept_seats


def test_seats_are_kept_while_nobody_waits_and_the_next_call_elsewhere_would_not():
    planned = PlannedQueue(count=2)
    planned.add(1, 1, "A", PEOPLE_PRIORITY)
    assert may_keep_seats(planned.requests, 1, 2)
    planned.add(1, 2, "B", PEOPLE_PRIORITY)
    assert may_keep_seats(planned.requests, 1, 2)
    planned.add(1, 3, "C", PEOPLE_PRIORITY)
    assert not may_keep_seats(planned.requests, 1, 2)
    planned.end(3)
    planned.end(1)
    planned.add(2, 4, "D", PEOPLE_PRIORITY)
    assert not may_keep_seats(planned.requests, 1, 2)
    assert may_keep_seats(planned.requests, 1, 3)


def test_a_call_that_took_a_kept_seat_is_stored_in_place_of_the_one_before_it():
    planned = PlannedQueue(count=1)
    planned.add(1, 1, "A", PEOPLE_PRIORITY)
    [before] = planned.requests
    planned.calls[1][1] = OwnCall(1, "B", PEOPLE_PRIORITY, 7.0, has_seat=True, took_kept_seat=True)
    planned.plan(1)
    assert planned.requests == (replace(before, lane="B", since=7.0),)
