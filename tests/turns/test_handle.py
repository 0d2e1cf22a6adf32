"""A turn can be stopped at any moment, and its seconds are counted once."""

import asyncio

import pytest

from bot.errors import StoreUnavailable
from bot.turns.handle import TurnHandle


async def return_done() -> str:
    return "done"


async def wait_forever() -> None:
    await asyncio.Event().wait()


async def is_time_up(handle: TurnHandle) -> bool:
    try:
        async with handle.deadline() as start_clock:
            start_clock()
            start_clock()
            await wait_forever()
    except TimeoutError:
        return True
    return False


async def test_a_coroutine_gives_its_result_or_none_once_the_turn_is_stopped():
    handle = TurnHandle(1, 10.0)
    assert await handle.run_cancellable(return_done()) == "done"
    asyncio.get_running_loop().call_soon(handle.stop)
    assert await handle.run_cancellable(asyncio.Event().wait()) is None
    assert await handle.run_cancellable(return_done()) is None
    assert handle.stop_reason == "stopped"


async def test_a_coroutine_raises_its_own_exception_and_not_a_group():
    async def fail() -> None:
        raise StoreUnavailable("full")

    handle = TurnHandle(1, 10.0)
    with pytest.raises(StoreUnavailable, match="full"):
        await handle.run_cancellable(fail())
    handle.stop()  # nothing is left to cancel
    assert handle.stop_reason == "stopped"


async def test_being_cancelled_from_outside_is_no_stop():
    handle = TurnHandle(1, 10.0)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(handle.run_cancellable(wait_forever()))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert not handle.is_stopped


async def test_only_the_time_from_the_start_of_the_clock_is_counted():
    handle = TurnHandle(1, 0.05)
    async with handle.deadline():
        await asyncio.sleep(0.06)
    assert handle.seconds_left == 0.05
    assert await is_time_up(handle)
    assert handle.seconds_left == 0.0
    assert handle.stop_reason == "seconds"


async def test_time_that_was_not_used_is_left():
    handle = TurnHandle(1, 1000.0)
    async with handle.deadline() as start_clock:
        start_clock()
        await asyncio.sleep(0.01)
    assert 900.0 < handle.seconds_left < 1000.0
    assert handle.stop_reason is None


async def test_a_pause_ends_when_something_has_changed_or_the_turn_is_stopped():
    handle = TurnHandle(1, 10.0)
    await handle.pause(0.01)
    asyncio.get_running_loop().call_soon(handle.wake)
    await handle.pause(3600)
    handle.wake()
    await handle.pause(3600)
    asyncio.get_running_loop().call_soon(handle.stop)
    await handle.pause(3600)
    assert handle.stop_reason == "stopped"
