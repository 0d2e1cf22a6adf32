import asyncio
import random
from collections import Counter

import pytest

from bot.domain import PEOPLE_PRIORITY, SUMMARIES_PRIORITY, TASKS_PRIORITY, WARMUP_PRIORITY
from bot.llm.seats import SeatLimiter


class HeldCall:
    """A call that holds its seat until `done` is set."""

    def __init__(self, seats: SeatLimiter, lane: str, order: list[str], priority: int = 0) -> None:
        self.seats = seats
        self.lane = lane
        self.order = order
        self.priority = priority
        self.done = asyncio.Event()

    async def run(self) -> None:
        async with self.seats.hold(self.lane, self.priority):
            self.order.append(self.lane)
            await self.done.wait()


async def run_pending_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def record_order(*requested: tuple[str, int]) -> str:
    """The order in which calls (lane, priority) get the only seat, which the first keeps until all wait."""
    seats = SeatLimiter(1)
    order: list[str] = []
    calls = [HeldCall(seats, lane, order, priority) for lane, priority in requested]
    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(call.run())
        await run_pending_tasks()
        foretold = [call.lane for call in (*seats.holders.values(), *seats.list_waiting())]
        for call in calls:
            call.done.set()
    assert foretold == order
    return "".join(order)


async def test_lanes_take_turns_however_much_one_of_them_queued():
    assert await record_order(*((lane, 0) for lane in "AAAAABBC")) == "AABCABAA"


async def test_a_lower_priority_number_goes_first_and_equal_ones_keep_their_order():
    assert await record_order(("A", 0), ("B", 5), ("C", 0), ("D", -1), ("E", 5)) == "ADCBE"


async def test_of_several_seats_one_is_reserved_for_users():
    seats = SeatLimiter(3)
    order: list[str] = []
    tasks = [HeldCall(seats, lane, order, TASKS_PRIORITY) for lane in "ABC"]
    summary = HeldCall(seats, "S", order, SUMMARIES_PRIORITY)
    user = HeldCall(seats, "P", order)
    second_user = HeldCall(seats, "Q", order)
    async with asyncio.TaskGroup() as group:
        for call in (*tasks, summary):
            group.create_task(call.run())
        await run_pending_tasks()
        assert (order, seats.has_free_seat) == (["A", "B"], True)
        group.create_task(user.run())
        await run_pending_tasks()
        assert (order, seats.has_free_seat) == (["A", "B", "P"], False)
        group.create_task(second_user.run())
        await run_pending_tasks()
        assert [seats.queue_position(lane) for lane in "QCS"] == [0, 1, 2]
        tasks[0].done.set()
        await run_pending_tasks()
        assert order == ["A", "B", "P", "Q"]
        user.done.set()
        await run_pending_tasks()
        assert order[4:] == ["C"]
        second_user.done.set()
        await run_pending_tasks()
        assert order[4:] == ["C"]
        tasks[1].done.set()
        await run_pending_tasks()
        assert order[4:] == ["C", "S"]
        for call in (*tasks, summary):
            call.done.set()
    assert seats.has_free_seat


async def test_a_single_seat_is_for_all_calls_if_no_user_waits():
    assert (
        await record_order(
            ("A", TASKS_PRIORITY),
            ("B", WARMUP_PRIORITY),
            ("C", SUMMARIES_PRIORITY),
            ("D", PEOPLE_PRIORITY),
            ("E", TASKS_PRIORITY),
        )
        == "ADECB"
    )


async def test_a_waiting_lane_knows_how_many_are_ahead():
    seats = SeatLimiter(1)
    order: list[str] = []
    calls = [HeldCall(seats, lane, order) for lane in "ABBC"]
    low = HeldCall(seats, "D", order, priority=1)
    async with asyncio.TaskGroup() as tasks:
        for call in (*calls, low):
            tasks.create_task(call.run())
        await run_pending_tasks()
        assert [seats.queue_position(lane) for lane in "ABCDE"] == [None, 0, 1, 3, None]
        for call in (*calls, low):
            call.done.set()
    assert seats.queue_position("B") is None


async def test_a_seat_granted_to_a_cancelled_call_is_passed_on():
    seats = SeatLimiter(1)
    order: list[str] = []
    first, second, third = (HeldCall(seats, lane, order) for lane in "ABC")
    third.done.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        granted = tasks.create_task(second.run())
        tasks.create_task(third.run())
        await run_pending_tasks()
        first.done.set()
        await asyncio.sleep(0)
        assert seats.queue_position("B") is None
        granted.cancel()
    assert order == ["A", "C"]


async def test_a_waiter_cancelled_in_the_tick_a_seat_is_freed_gives_up_its_place():
    seats = SeatLimiter(1)
    order: list[str] = []
    first, second, third = (HeldCall(seats, lane, order) for lane in "ABC")
    third.done.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        waiter = tasks.create_task(second.run())
        tasks.create_task(third.run())
        await run_pending_tasks()
        first.done.set()
        waiter.cancel()
    assert order == ["A", "C"]


class SeatInvariants:
    """Checks the invariants of seats: users wait only if all are taken, other calls leave them one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seats = SeatLimiter(count)
        self.held = Counter[bool]()
        self.finished = Counter[str]()

    async def call(self, lane: str, ticks: int, priority: int) -> None:
        async with self.seats.hold(lane, priority):
            self.held[priority == PEOPLE_PRIORITY] += 1
            self.check()
            try:
                for _ in range(ticks):
                    await asyncio.sleep(0)
            finally:
                self.held[priority == PEOPLE_PRIORITY] -= 1
        self.check()
        self.finished[lane] += 1

    def check(self) -> None:
        assert self.held.total() <= self.count
        assert self.held[False] <= max(1, self.count - 1)
        assert not (self.seats.has_free_seat and PEOPLE_PRIORITY in self.seats._rings)


@pytest.mark.parametrize("seed", range(20))
async def test_seats_are_never_exceeded_or_lost_and_no_lane_starves(seed):
    rng = random.Random(seed)
    invariants = SeatInvariants(rng.randint(1, 4))
    cancelled = 0
    async with asyncio.TaskGroup() as tasks:
        running = []
        for _ in range(80):
            priority = rng.choice([PEOPLE_PRIORITY, PEOPLE_PRIORITY, TASKS_PRIORITY, SUMMARIES_PRIORITY])
            running.append(
                tasks.create_task(invariants.call(rng.choice("AAAABCD"), rng.randint(0, 5), priority))
            )
            for _ in range(rng.randint(0, 2)):
                await asyncio.sleep(0)
            if rng.random() < 0.3:
                cancelled += rng.choice(running).cancel()
    assert invariants.held.total() == 0
    assert invariants.finished.total() >= 80 - cancelled
    assert all(invariants.seats.queue_position(lane) is None for lane in "ABCD")
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for _ in range(invariants.count):
            tasks.create_task(invariants.call("Z", 1, PEOPLE_PRIORITY))
            tasks.create_task(invariants.call("Z", 1, WARMUP_PRIORITY))
    assert invariants.finished["Z"] == 2 * invariants.count


async def test_a_lane_with_endless_calls_lets_others_in():
    seats = SeatLimiter(1)
    order: list[str] = []

    async def call_often() -> None:
        for _ in range(20):
            async with seats.hold("A"):
                order.append("A")
                await asyncio.sleep(0)

    async def call_once() -> None:
        async with seats.hold("B"):
            order.append("B")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(call_often())
        await run_pending_tasks()
        before = len(order)
        tasks.create_task(call_once())
    assert order.index("B") <= before + 2
    assert len(order) == 61
