"""Runs work on hostile input in a process of its own that can be killed, since nothing else stops a busy
processor.

Owns that process from start to reaping. The work is a module's function `(body: bytes, **arguments) -> JSON`,
named to tools/sandbox/child.py, which runs it; its module should import quickly and whatever is slow inside
the function.
"""

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CELL = Path(__file__).with_name("child.py")


class Stopped(Exception):
    """The work did not end by itself: out of time, memory or room for its answer, or it failed. The text says
    which.
    """


@dataclass(frozen=True, slots=True)
class Limits:
    """Wall and processor seconds, bytes of address space, bytes of the answer."""

    seconds: float = 5.0
    processor: int = 4
    memory: int = 768 * 1024 * 1024
    answer: int = 1024 * 1024


async def run_apart(
    function: Callable[..., Any], body: bytes = b"", limits: Limits = Limits(), **arguments: Any
) -> Any:
    """What `function(body, **arguments)` gives in a process of its own; arguments and result travel as JSON.

    Raises Stopped. Cancelling kills the process; in every case it is gone and reaped when this returns.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-B", str(CELL)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limits.seconds):
            answer = await _ask(process, _letter(function, limits, arguments) + body, limits.answer)
    except TimeoutError:
        raise Stopped(f"it took longer than {limits.seconds:g} seconds") from None
    finally:
        await _end(process)
    return _result(answer, process.returncode, limits)


def _letter(function: Callable[..., Any], limits: Limits, arguments: dict[str, Any]) -> bytes:
    asked = {
        "limits": {
            "seconds": math.ceil(limits.seconds) + 1,
            "processor": limits.processor,
            "memory": limits.memory,
        },
        "path": sys.path,
        "module": function.__module__,
        "function": function.__name__,
        "arguments": arguments,
    }
    return json.dumps(asked).encode() + b"\n"


async def _ask(process: asyncio.subprocess.Process, letter: bytes, most: int) -> bytes:
    """Send everything, then read up to one byte more than `most`."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # it may end before it has read all
        process.stdin.write(letter)
        await process.stdin.drain()
    process.stdin.close()
    answer = bytearray()
    while len(answer) <= most and (piece := await process.stdout.read(most + 1 - len(answer))):
        answer += piece
    return bytes(answer)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    while await process.stdout.read(65536):  # a pipe that is not read to its end keeps wait() waiting
        pass
    await process.wait()


def _result(answer: bytes, status: int | None, limits: Limits) -> Any:
    if len(answer) > limits.answer:
        raise Stopped(f"its answer was longer than {limits.answer} bytes")
    if status == -signal.SIGXCPU:
        raise Stopped(f"it took longer than {limits.processor} seconds of the processor")
    try:
        told = json.loads(answer)
    except ValueError:
        raise Stopped(f"it ended without an answer (status {status})") from None
    if "error" in told:
        raise Stopped(f"it failed: {told['error']}")
    return told["result"]
