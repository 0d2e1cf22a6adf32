import asyncio
import random
from collections import Counter

import pytest

from bot.domain import PEOPLE, SUMMARIES, TASKS, WARMUP
from bot.llm.seats import Seats


class Call:
    """A call that holds its seat until it is let go."""

    def __init__(self, seats: Seats, lane: str, order: list[str], priority: int = 0) -> None:
        self.seats, self.lane, self.order, self.priority = seats, lane, order, priority
        self.done = asyncio.Event()

    async def run(self) -> None:
        async with self.seats.held(self.lane, self.priority):
            self.order.append(self.lane)
            await self.done.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def order_of(*wanted: tuple[str, int]) -> str:
    """The order in which calls (lane, priority) get the only seat, which the first keeps until all wait."""
    seats, order = Seats(1), list[str]()
    calls = [Call(seats, lane, order, priority) for lane, priority in wanted]
    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(call.run())
        await settle()
        for call in calls:
            call.done.set()
    return "".join(order)


async def test_lanes_take_turns_however_much_one_of_them_queued():
    assert await order_of(*((lane, 0) for lane in "AAAAABBC")) == "AABCABAA"


async def test_a_lower_number_goes_first_and_equals_keep_their_order():
    assert await order_of(("A", 0), ("B", 5), ("C", 0), ("D", -1), ("E", 5)) == "ADCBE"


async def test_of_several_seats_one_is_never_taken_by_others_than_people():
    seats, order = Seats(3), list[str]()
    tasks_ = [Call(seats, lane, order, TASKS) for lane in "ABC"]
    summary, person, other = (
        Call(seats, "S", order, SUMMARIES),
        Call(seats, "P", order),
        Call(seats, "Q", order),
    )
    async with asyncio.TaskGroup() as group:
        for call in (*tasks_, summary):
            group.create_task(call.run())
        await settle()
        assert (order, seats.idle) == (["A", "B"], True)
        group.create_task(person.run())
        await settle()
        assert (order, seats.idle) == (["A", "B", "P"], False)
        group.create_task(other.run())
        await settle()
        assert [seats.waiting(lane) for lane in "QCS"] == [0, 1, 2]
        tasks_[0].done.set()
        await settle()
        assert order == ["A", "B", "P", "Q"]
        person.done.set()
        await settle()
        assert order[4:] == ["C"]
        other.done.set()
        await settle()
        assert order[4:] == ["C"]
        tasks_[1].done.set()
        await settle()
        assert order[4:] == ["C", "S"]
        for call in (*tasks_, summary):
            call.done.set()
    assert seats.idle


async def test_a_single_seat_is_for_others_when_no_person_waits():
    assert (
        await order_of(("A", TASKS), ("B", WARMUP), ("C", SUMMARIES), ("D", PEOPLE), ("E", TASKS)) == "ADECB"
    )


async def test_a_waiting_lane_knows_how_many_go_before_it():
    seats, order = Seats(1), list[str]()
    calls = [Call(seats, lane, order) for lane in "ABBC"]
    low = Call(seats, "D", order, priority=1)
    async with asyncio.TaskGroup() as tasks:
        for call in (*calls, low):
            tasks.create_task(call.run())
        await settle()
        assert [seats.waiting(lane) for lane in "ABCDE"] == [None, 0, 1, 3, None]
        for call in (*calls, low):
            call.done.set()
    assert seats.waiting("B") is None


async def test_a_seat_granted_to_a_cancelled_call_is_passed_on():
    seats, order = Seats(1), list[str]()
    first, second, third = (Call(seats, lane, order) for lane in "ABC")
    third.done.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        granted = tasks.create_task(second.run())
        tasks.create_task(third.run())
        await settle()
        first.done.set()
        await asyncio.sleep(0)
        assert seats.waiting("B") is None
        granted.cancel()
    assert order == ["A", "C"]


async def test_a_cancelled_waiter_gives_up_its_place_even_in_the_tick_in_which_a_seat_frees():
    seats, order = Seats(1), list[str]()
    first, second, third = (Call(seats, lane, order) for lane in "ABC")
    third.done.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        waiting = tasks.create_task(second.run())
        tasks.create_task(third.run())
        await settle()
        first.done.set()
        waiting.cancel()
    assert order == ["A", "C"]


class Watch:
    """Holds what is true of seats at any moment: people wait only where all are taken, the others leave them
    one.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.seats = Seats(count)
        self.held = Counter[bool]()
        self.finished = Counter[str]()

    async def call(self, lane: str, ticks: int, priority: int) -> None:
        async with self.seats.held(lane, priority):
            self.held[priority == PEOPLE] += 1
            self.look()
            try:
                for _ in range(ticks):
                    await asyncio.sleep(0)
            finally:
                self.held[priority == PEOPLE] -= 1
        self.look()
        self.finished[lane] += 1

    def look(self) -> None:
        assert self.held.total() <= self.count
        assert self.held[False] <= max(1, self.count - 1)
        assert not (self.seats.idle and PEOPLE in self.seats._rings)


@pytest.mark.parametrize("seed", range(60))
async def test_never_more_than_the_seats_are_held_none_is_lost_and_nobody_starves(seed):
    chance = random.Random(seed)
    watch, cancelled = Watch(chance.randint(1, 4)), 0
    async with asyncio.TaskGroup() as tasks:
        running = []
        for _ in range(80):
            priority = chance.choice([PEOPLE, PEOPLE, TASKS, SUMMARIES])
            running.append(
                tasks.create_task(watch.call(chance.choice("AAAABCD"), chance.randint(0, 5), priority))
            )
            for _ in range(chance.randint(0, 2)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                cancelled += chance.choice(running).cancel()
    assert watch.held.total() == 0
    assert watch.finished.total() >= 80 - cancelled
    assert all(watch.seats.waiting(lane) is None for lane in "ABCD")
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for _ in range(watch.count):
            tasks.create_task(watch.call("Z", 1, PEOPLE))
            tasks.create_task(watch.call("Z", 1, WARMUP))
    assert watch.finished["Z"] == 2 * watch.count


async def test_a_lane_that_never_stops_asking_lets_others_in():
    seats, order = Seats(1), list[str]()

    async def greedy() -> None:
        for _ in range(20):
            async with seats.held("A"):
                order.append("A")
                await asyncio.sleep(0)

    async def other() -> None:
        async with seats.held("B"):
            order.append("B")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(greedy())
        await settle()
        before = len(order)
        tasks.create_task(other())
    assert order.index("B") <= before + 2
    assert len(order) == 61
