import asyncio
import random
from collections import Counter

import pytest

from bot.domain import PEOPLE_PRIORITY, SUMMARIES_PRIORITY, TASKS_PRIORITY, WARMUP_PRIORITY
from bot.llm.seats import SeatLimiter


class HeldCall:
    """A call that holds its seat until it is let go."""

    def __init__(self, seats: SeatLimiter, lane: str, order: list[str], priority: int = 0) -> None:
        self.seats, self.lane, self.order, self.priority = seats, lane, order, priority
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
    seats, order = SeatLimiter(1), list[str]()
    calls = [HeldCall(seats, lane, order, priority) for lane, priority in requested]
    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(call.run())
        await run_pending_tasks()
        for call in calls:
            call.done.set()
    return "".join(order)


async def test_lanes_take_turns_however_much_one_of_them_queued():
    assert await record_order(*((lane, 0) for lane in "AAAAABBC")) == "AABCABAA"


async def test_a_lower_number_goes_first_and_equals_keep_their_order():
    assert await record_order(("A", 0), ("B", 5), ("C", 0), ("D", -1), ("E", 5)) == "ADCBE"


async def test_of_several_seats_one_is_never_taken_by_others_than_people():
    seats, order = SeatLimiter(3), list[str]()
    tasks_ = [HeldCall(seats, lane, order, TASKS_PRIORITY) for lane in "ABC"]
    summary, person, other = (
        HeldCall(seats, "S", order, SUMMARIES_PRIORITY),
        HeldCall(seats, "P", order),
        HeldCall(seats, "Q", order),
    )
    async with asyncio.TaskGroup() as group:
        for call in (*tasks_, summary):
            group.create_task(call.run())
        await run_pending_tasks()
        assert (order, seats.has_free_seat) == (["A", "B"], True)
        group.create_task(person.run())
        await run_pending_tasks()
        assert (order, seats.has_free_seat) == (["A", "B", "P"], False)
        group.create_task(other.run())
        await run_pending_tasks()
        assert [seats.queue_position(lane) for lane in "QCS"] == [0, 1, 2]
        tasks_[0].done.set()
        await run_pending_tasks()
        assert order == ["A", "B", "P", "Q"]
        person.done.set()
        await run_pending_tasks()
        assert order[4:] == ["C"]
        other.done.set()
        await run_pending_tasks()
        assert order[4:] == ["C"]
        tasks_[1].done.set()
        await run_pending_tasks()
        assert order[4:] == ["C", "S"]
        for call in (*tasks_, summary):
            call.done.set()
    assert seats.has_free_seat


async def test_a_single_seat_is_for_others_when_no_person_waits():
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


async def test_a_waiting_lane_knows_how_many_go_before_it():
    seats, order = SeatLimiter(1), list[str]()
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
    seats, order = SeatLimiter(1), list[str]()
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


async def test_a_cancelled_waiter_gives_up_its_place_even_in_the_tick_in_which_a_seat_frees():
    seats, order = SeatLimiter(1), list[str]()
    first, second, third = (HeldCall(seats, lane, order) for lane in "ABC")
    third.done.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        waiting = tasks.create_task(second.run())
        tasks.create_task(third.run())
        await run_pending_tasks()
        first.done.set()
        waiting.cancel()
    assert order == ["A", "C"]


class SeatInvariants:
    """Holds what is true of seats at any moment: people wait only where all are taken, the others leave them
    one.
    """

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


@pytest.mark.parametrize("seed", range(60))
async def test_never_more_than_the_seats_are_held_none_is_lost_and_nobody_starves(seed):
    chance = random.Random(seed)
    watch, cancelled = SeatInvariants(chance.randint(1, 4)), 0
    async with asyncio.TaskGroup() as tasks:
        running = []
        for _ in range(80):
            priority = chance.choice([PEOPLE_PRIORITY, PEOPLE_PRIORITY, TASKS_PRIORITY, SUMMARIES_PRIORITY])
            running.append(
                tasks.create_task(watch.call(chance.choice("AAAABCD"), chance.randint(0, 5), priority))
            )
            for _ in range(chance.randint(0, 2)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                cancelled += chance.choice(running).cancel()
    assert watch.held.total() == 0
    assert watch.finished.total() >= 80 - cancelled
    assert all(watch.seats.queue_position(lane) is None for lane in "ABCD")
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for _ in range(watch.count):
            tasks.create_task(watch.call("Z", 1, PEOPLE_PRIORITY))
            tasks.create_task(watch.call("Z", 1, WARMUP_PRIORITY))
    assert watch.finished["Z"] == 2 * watch.count


async def test_a_lane_that_never_stops_asking_lets_others_in():
    seats, order = SeatLimiter(1), list[str]()

    async def greedy() -> None:
        for _ in range(20):
            async with seats.hold("A"):
                order.append("A")
                await asyncio.sleep(0)

    async def other() -> None:
        async with seats.hold("B"):
            order.append("B")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(greedy())
        await run_pending_tasks()
        before = len(order)
        tasks.create_task(other())
    assert order.index("B") <= before + 2
    assert len(order) == 61
