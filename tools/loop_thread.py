"""Runs tools on an event loop of another thread, so that one that computes does not stop the gateway's.

A thread, not a process: tools share objects of their module between calls, and use notes and history through
their context, whose methods run on the caller's loop. What holds the interpreter's lock, such as a pattern
that never ends, still stops everything.
"""

import asyncio
import contextlib
import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tools.base import ToolContext, ToolFunction

GRACE_SECONDS = 2.0


class _BrokenOff(BaseException):
    """Raised in the midst of a tool that goes on after it was cancelled; no `except Exception` takes it."""


@dataclass(slots=True, eq=False)
class _Call:
    """A call on a loop. `is_running` is set on its thread, `is_cancelled` on the caller's."""

    is_running: bool = False
    is_cancelled: bool = False


class LoopThread:
    """An event loop on a thread: begun with the first call, and again when a cancelled call has not ended.

    It ends when nothing refers to this object any more. A cancelled call has `grace_seconds` to clean up,
    then it is broken off.
    """

    def __init__(self, name: str, grace_seconds: float = GRACE_SECONDS) -> None:
        self._name = name
        self._grace_seconds = grace_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._calls: set[_Call] = set()

    def wrap(self, function: ToolFunction) -> ToolFunction:
        """The function, run here. Of what it raises, all but ToolError and the like become RuntimeError."""

        async def run(arguments: Mapping[str, Any], context: ToolContext) -> object:
            return await self.run(function, arguments, context)

        return run

    async def run(self, function: ToolFunction, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """The function's result; raises what it raises."""
        if any(call.is_running and call.is_cancelled for call in self._calls):
            self._abandon()
        caller_loop = asyncio.get_running_loop()
        call = _Call()
        self._calls = {other for other in self._calls if other.is_running} | {call}
        started = _run_call(call, function(arguments, _bind_context(context, caller_loop)))
        outcome = asyncio.run_coroutine_threadsafe(started, self._get_loop())
        try:
            return await asyncio.wrap_future(outcome)
        except asyncio.CancelledError:
            call.is_cancelled = True
            caller_loop.call_later(self._grace_seconds, self._break_off, call)
            raise

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            weakref.finalize(self, _stop, self._loop)
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name=f"tools:{self._name}"[:60], daemon=True
            )
            self._thread.start()
        return self._loop

    def _break_off(self, call: _Call) -> None:
        if call.is_running and call in self._calls:
            self._abandon()

    def _abandon(self) -> None:
        """Leave the loop to itself, and break off what runs on it."""
        assert self._thread is not None
        assert self._loop is not None
        raise_in_thread(self._thread, _BrokenOff)
        _stop(self._loop)
        self._loop = None
        self._calls = set()


def raise_in_thread(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raise an error in another thread, at its next step of Python; one that waits in C raises it later."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(error))


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    with contextlib.suppress(_BrokenOff):  # it may come when nothing runs any more
        loop.run_forever()
    with contextlib.suppress(_BrokenOff):
        loop.run_until_complete(_cancel_all())
    loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE_SECONDS)


async def _run_call(call: _Call, running: Any) -> object:
    call.is_running = True
    try:
        return await running
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("it cancelled itself") from None
    except Exception:
        raise
    except BaseException as error:  # SystemExit and the like would end the loop
        description = f"{type(error).__name__} {error}".rstrip()
        raise RuntimeError(description).with_traceback(error.__traceback__) from error
    finally:
        call.is_running = False


def _bind_context(context: ToolContext, loop: asyncio.AbstractEventLoop) -> ToolContext:
    """The context with what it does done on the loop that it belongs to."""
    return replace(
        context,
        notes=_Remote(context.notes, loop),
        past=_Remote(context.past, loop),
        see=context.see and _run_on(context.see, loop),
        schedules=context.schedules and _Remote(context.schedules, loop),
        show_progress=context.show_progress and _call_on(context.show_progress, loop),
        ask=context.ask and _run_on(context.ask, loop),
    )


class _Remote:
    """Has the methods of an object, which run on another loop."""

    def __init__(self, target: object, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return _run_on(getattr(self._target, name), self._loop)


def _call_on(function: Callable[[str], None], loop: asyncio.AbstractEventLoop) -> Callable[[str], None]:
    def call(text: str) -> None:
        loop.call_soon_threadsafe(function, text)

    return call


def _run_on(method: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> Any:
    async def invoke(*args: Any, **kwargs: Any) -> Any:
        return await method(*args, **kwargs)

    async def run(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(invoke(*args, **kwargs), loop))

    return run
