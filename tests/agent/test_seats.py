import asyncio
import random
from collections import Counter

import pytest

from bot.agent.seats import Seats


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


@pytest.mark.parametrize("seed", range(60))
async def test_never_more_than_the_seats_are_held_none_is_lost_and_nobody_starves(seed):
    chance = random.Random(seed)
    count = chance.randint(1, 4)
    seats = Seats(count)
    held, most, finished = 0, 0, Counter[str]()

    async def one(lane: str, ticks: int, priority: int) -> None:
        nonlocal held, most
        async with seats.held(lane, priority):
            held += 1
            most = max(most, held)
            try:
                for _ in range(ticks):
                    await asyncio.sleep(0)
            finally:
                held -= 1
        finished[lane] += 1

    cancelled = 0
    async with asyncio.TaskGroup() as tasks:
        running = []
        for _ in range(80):
            lane = chance.choice("AAAABCD")
            running.append(tasks.create_task(one(lane, chance.randint(0, 5), chance.choice([0, 0, 0, 1]))))
            for _ in range(chance.randint(0, 2)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                cancelled += chance.choice(running).cancel()
    assert most <= count
    assert held == 0
    assert sum(finished.values()) >= 80 - cancelled
    assert all(seats.waiting(lane) is None for lane in "ABCD")
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(one("Z", 1, 0))
    assert finished["Z"] == count


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
