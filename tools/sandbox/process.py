"""Runs work on hostile input in a process that can be killed, since nothing else stops a busy processor.

Owns that process from start to reaping. The work is a module's function `(body: bytes, **arguments) -> JSON`,
named to tools/sandbox/child.py, which runs it; its module should import quickly, and slow imports belong into
the function.
"""

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PIECE_BYTES = 1024 * 1024
CHILD_SCRIPT = Path(__file__).with_name("child.py")


class SandboxStopped(Exception):
    """The work did not end by itself; the text says why.

    Out of time or memory, the answer was too long, or it failed.
    """


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Bounds on the work: wall and processor seconds, bytes of address space, bytes of the answer."""

    wall_seconds: float = 5.0
    cpu_seconds: int = 4
    memory_bytes: int = 768 * 1024 * 1024
    max_result_bytes: int = 1024 * 1024


async def run_in_sandbox(
    function: Callable[..., Any], body: bytes = b"", limits: SandboxLimits = SandboxLimits(), **arguments: Any
) -> Any:
    """Run `function(body, **arguments)` in a process of its own and return its result.

    Arguments and result travel as JSON. Raises SandboxStopped.
    Cancelling kills the process; in every case it is gone and reaped when this returns.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-B", str(CHILD_SCRIPT)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
    request = _encode_request(function, limits, arguments)
    try:
        async with asyncio.timeout(limits.wall_seconds):
            output = await _exchange(process, (request, body), limits.max_result_bytes)
    except TimeoutError:
        raise SandboxStopped(f"it took longer than {limits.wall_seconds:g} seconds") from None
    finally:
        await _kill_and_reap(process)
    return _decode_result(output, process.returncode, limits)


def _encode_request(function: Callable[..., Any], limits: SandboxLimits, arguments: dict[str, Any]) -> bytes:
    request = {
        "limits": {
            "seconds": math.ceil(limits.wall_seconds) + 1,
            "processor": limits.cpu_seconds,
            "memory": limits.memory_bytes,
        },
        "path": sys.path,
        "module": function.__module__,
        "function": function.__name__,
        "arguments": arguments,
    }
    return json.dumps(request).encode() + b"\n"


async def _exchange(process: asyncio.subprocess.Process, request: Iterable[bytes], max_bytes: int) -> bytes:
    """Send everything, then read up to one byte more than `max_bytes`."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # it may end before it has read everything
        for part in request:
            for start in range(0, len(part), PIECE_BYTES):  # the whole at once would be copied
                process.stdin.write(part[start : start + PIECE_BYTES])
                await process.stdin.drain()
    process.stdin.close()
    answer = bytearray()
    while len(answer) <= max_bytes and (piece := await process.stdout.read(max_bytes + 1 - len(answer))):
        answer += piece
    return bytes(answer)


async def _kill_and_reap(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    while await process.stdout.read(65536):  # wait() blocks until the pipe is read to its end
        pass
    await process.wait()


def _decode_result(output: bytes, return_code: int | None, limits: SandboxLimits) -> Any:
    if len(output) > limits.max_result_bytes:
        raise SandboxStopped(f"its answer was longer than {limits.max_result_bytes} bytes")
    if return_code == -signal.SIGXCPU:
        raise SandboxStopped(f"it took longer than {limits.cpu_seconds} seconds of the processor")
    try:
        answer = json.loads(output)
    except ValueError:
        raise SandboxStopped(f"it ended without an answer (status {return_code})") from None
    if "error" in answer:
        raise SandboxStopped(f"it failed: {answer['error']}")
    return answer["result"]
