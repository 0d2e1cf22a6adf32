"""A turn can be cut at any moment, and its seconds are counted once."""

import asyncio

import pytest

from bot.errors import StoreUnavailable
from bot.turns.handle import Running


async def nothing() -> str:
    return "done"


async def for_ever() -> None:
    await asyncio.Event().wait()


async def used_up(running: Running) -> bool:
    try:
        async with running.clocked() as begin:
            begin()
            begin()
            await for_ever()
    except TimeoutError:
        return True
    return False


async def test_work_gives_its_result_or_none_once_the_turn_is_stopped():
    running = Running(1, 10.0)
    assert await running.work(nothing()) == "done"
    asyncio.get_running_loop().call_soon(running.stop)
    assert await running.work(asyncio.Event().wait()) is None
    assert await running.work(nothing()) is None
    assert running.over == "stopped"


async def test_work_raises_what_was_raised_and_not_a_group():
    async def fail() -> None:
        raise StoreUnavailable("full")

    running = Running(1, 10.0)
    with pytest.raises(StoreUnavailable, match="full"):
        await running.work(fail())
    running.stop()  # nothing is left that could be cut
    assert running.over == "stopped"


async def test_being_cancelled_from_outside_is_no_stop():
    running = Running(1, 10.0)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(running.work(for_ever()))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert not running.stopped


async def test_only_the_time_between_begin_and_end_is_counted():
    running = Running(1, 0.05)
    async with running.clocked():
        await asyncio.sleep(0.06)
    assert running.left == 0.05
    assert await used_up(running)
    assert running.left == 0.0
    assert running.over == "seconds"


async def test_time_that_was_not_used_is_left():
    running = Running(1, 10.0)
    async with running.clocked() as begin:
        begin()
        await asyncio.sleep(0.01)
    assert 9.0 < running.left < 10.0
    assert running.over is None


async def test_a_pause_ends_when_something_has_changed_or_the_turn_is_stopped():
    running = Running(1, 10.0)
    await running.pause(0.01)
    asyncio.get_running_loop().call_soon(running.go_on)
    await running.pause(3600)
    running.go_on()
    await running.pause(3600)
    asyncio.get_running_loop().call_soon(running.stop)
    await running.pause(3600)
    assert running.over == "stopped"
