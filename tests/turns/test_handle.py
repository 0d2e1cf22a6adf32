"""A turn can be cut at any moment, and its seconds are counted once."""

import asyncio

import pytest

from bot.errors import StoreUnavailable
from bot.turns.handle import TurnHandle


async def nothing() -> str:
    return "done"


async def for_ever() -> None:
    await asyncio.Event().wait()


async def used_up(running: TurnHandle) -> bool:
    try:
        async with running.deadline() as begin:
            begin()
            begin()
            await for_ever()
    except TimeoutError:
        return True
    return False


async def test_work_gives_its_result_or_none_once_the_turn_is_stopped():
    running = TurnHandle(1, 10.0)
    assert await running.run_cancellable(nothing()) == "done"
    asyncio.get_running_loop().call_soon(running.stop)
    assert await running.run_cancellable(asyncio.Event().wait()) is None
    assert await running.run_cancellable(nothing()) is None
    assert running.stop_reason == "stopped"


async def test_work_raises_what_was_raised_and_not_a_group():
    async def fail() -> None:
        raise StoreUnavailable("full")

    running = TurnHandle(1, 10.0)
    with pytest.raises(StoreUnavailable, match="full"):
        await running.run_cancellable(fail())
    running.stop()  # nothing is left that could be cut
    assert running.stop_reason == "stopped"


async def test_being_cancelled_from_outside_is_no_stop():
    running = TurnHandle(1, 10.0)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(running.run_cancellable(for_ever()))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert not running.is_stopped


async def test_only_the_time_between_begin_and_end_is_counted():
    running = TurnHandle(1, 0.05)
    async with running.deadline():
        await asyncio.sleep(0.06)
    assert running.seconds_left == 0.05
    assert await used_up(running)
    assert running.seconds_left == 0.0
    assert running.stop_reason == "seconds"


async def test_time_that_was_not_used_is_left():
    running = TurnHandle(1, 10.0)
    async with running.deadline() as begin:
        begin()
        await asyncio.sleep(0.01)
    assert 9.0 < running.seconds_left < 10.0
    assert running.stop_reason is None


async def test_a_pause_ends_when_something_has_changed_or_the_turn_is_stopped():
    running = TurnHandle(1, 10.0)
    await running.pause(0.01)
    asyncio.get_running_loop().call_soon(running.wake)
    await running.pause(3600)
    running.wake()
    await running.pause(3600)
    asyncio.get_running_loop().call_soon(running.stop)
    await running.pause(3600)
    assert running.stop_reason == "stopped"
