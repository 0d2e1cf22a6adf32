"""Tools on the loop of another thread: what they do there stops nothing here, and what they use is here."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.tools.conftest import build_context
from tools.base import Note, ToolContext, ToolError, ToolFunction
from tools.loop_thread import LoopThread


def build_tool(run: Callable[[ToolContext], Awaitable[object]]) -> ToolFunction:
    async def function(arguments: Mapping[str, Any], context: ToolContext) -> object:
        return await run(context)

    return function


async def spin(context: ToolContext) -> None:
    while True:
        pass


async def get_thread(context: ToolContext) -> threading.Thread:
    return threading.current_thread()


async def find_thread(loop_thread: LoopThread) -> threading.Thread:
    """The thread that runs calls now."""
    thread = await loop_thread.run(build_tool(get_thread), {}, build_context())
    assert isinstance(thread, threading.Thread)
    return thread


async def cancel_midway(loop_thread: LoopThread, run: Callable[[ToolContext], Awaitable[object]]) -> None:
    """Cancel a call once it has begun."""
    begun = threading.Event()

    async def begin_and_run(context: ToolContext) -> None:
        begun.set()
        await run(context)

    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(loop_thread.run(build_tool(begin_and_run), {}, build_context()))
        await asyncio.to_thread(begun.wait)
        call.cancel()
    assert call.cancelled()


async def test_calls_share_a_loop_that_is_not_the_callers_and_use_what_is_on_it():
    here = asyncio.get_running_loop()
    context = build_context()

    async def keep(context: ToolContext) -> list[Note]:
        assert asyncio.get_running_loop() is not here
        await context.notes.add("tea")
        return await context.notes.all()

    loop_thread = LoopThread("bells.py")
    thread = await find_thread(loop_thread)
    assert (thread is await find_thread(loop_thread), thread.name) == (True, "tools:bells.py")
    assert len(await loop_thread.run(build_tool(keep), {}, context)) == 1
    assert len(await loop_thread.run(build_tool(keep), {}, context)) == 2
    with pytest.raises(ToolError, match="no room"):
        await loop_thread.run(build_tool(keep), {}, context)


async def test_all_that_a_context_does_is_done_on_the_callers_loop():
    here = asyncio.get_running_loop()
    shown = []

    def show(text: str) -> None:
        assert asyncio.get_running_loop() is here
        shown.append(text)

    async def answer(asked: object) -> object:
        assert asyncio.get_running_loop() is here
        return asked

    async def use(context: ToolContext) -> object:
        doing: Any = context
        doing.show_progress("1 of 2")
        return [await doing.see("picture"), await doing.ask("question"), await doing.schedules.remove(7)]

    class Schedules:
        async def remove(self, number: int) -> str:
            assert asyncio.get_running_loop() is here
            return f"{number} is removed"

    doing: Any = answer
    schedules: Any = Schedules()
    context = replace(build_context(), see=doing, ask=doing, schedules=schedules, show_progress=show)
    result = await LoopThread("a").run(build_tool(use), {}, context)
    assert (result, shown) == (["picture", "question", "7 is removed"], ["1 of 2"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
async def test_what_would_end_a_loop_ends_the_call_only(error: type[BaseException]):
    async def fail(context: ToolContext) -> None:
        raise error

    loop_thread = LoopThread("a")
    thread = await find_thread(loop_thread)
    with pytest.raises(RuntimeError):
        await loop_thread.run(build_tool(fail), {}, build_context())
    assert await find_thread(loop_thread) is thread


@pytest.mark.parametrize("is_called_again", [True, False])
async def test_one_that_computes_stops_neither_the_caller_nor_the_next_call_and_is_broken_off(
    is_called_again: bool,
):
    loop_thread = LoopThread("a", grace_seconds=0.05)
    thread = await find_thread(loop_thread)
    await cancel_midway(loop_thread, spin)
    if is_called_again:
        assert await find_thread(loop_thread) is not thread
    await asyncio.to_thread(thread.join)


async def test_a_cancelled_call_cleans_up_and_the_loop_stays():
    cleaned = threading.Event()
    loops = []

    async def wait(context: ToolContext) -> None:
        loops.append(asyncio.get_running_loop())
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    loop_thread = LoopThread("a", grace_seconds=300)
    thread = await find_thread(loop_thread)
    await cancel_midway(loop_thread, wait)
    await asyncio.to_thread(cleaned.wait)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loops[0]))
    assert await find_thread(loop_thread) is thread


async def test_a_thread_ends_with_what_refers_to_it():
    loop_thread = LoopThread("a")
    thread = await find_thread(loop_thread)
    del loop_thread
    gc.collect()
    await asyncio.to_thread(thread.join)
