"""Runs quick blocking functions beside the event loop, each on its own daemon thread.

Owns nothing that outlives the call. The loop's own executor is not used because the process waits for it at
exit: one hung name lookup would hold up a stop.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def run_in_thread(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of `function(*args, **kwargs)`; raises what it raises.

    Cancelling stops the waiting, not the thread: only for work that ends by itself.
    """
    outcome: Future[R] = Future()
    outcome.set_running_or_notify_cancel()
    call = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
    name = f"tools:{function!r}"[:60]
    threading.Thread(target=_run_into_future, args=(outcome, call), name=name, daemon=True).start()
    return await asyncio.wrap_future(outcome)


def _run_into_future(future: "Future[R]", call: Callable[[], R]) -> None:
    try:
        future.set_result(call())
    except StopIteration as error:  # a future refuses it, and the caller would wait forever
        future.set_exception(RuntimeError(f"StopIteration: {error}"))
    except BaseException as error:  # noqa: BLE001 - the caller handles it, in its own task
        future.set_exception(error)
