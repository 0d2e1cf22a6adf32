"""The time of a call: silence ends it, progress prolongs it, up to a bound. The clock is moved by hand."""

import asyncio
import math
from pathlib import Path

import pytest

from tools.mcp.errors import describe_start, explain_slow_start
from tools.mcp.location import ServerProgram, ServerUrl
from tools.mcp.time_limits import CallDeadline, McpServerLimits, format_progress

LIMITS = McpServerLimits(call_seconds=30.0, connect_seconds=60.0)


class HandClock:
    """The clock of the running loop, which moves only when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self._now)

    async def move(self, seconds: float) -> None:
        self._now += seconds
        for _ in range(3):  # the timer fires, cancels the task, and the task is cancelled
            await asyncio.sleep(0)


@pytest.mark.parametrize("last_seconds", [2, LIMITS.max_call_seconds])
async def test_silence_ends_a_call_however_late_the_loop_notices_it(
    monkeypatch: pytest.MonkeyPatch, last_seconds: float
):
    clock = HandClock(monkeypatch)
    deadline = CallDeadline(LIMITS)

    async def call() -> None:
        async with deadline.timeout:
            await clock.move(29)
            await clock.move(last_seconds)

    with pytest.raises(TimeoutError):
        await call()
    assert not deadline.is_used_up


async def test_progress_prolongs_a_call_up_to_a_bound(monkeypatch: pytest.MonkeyPatch):
    clock = HandClock(monkeypatch)
    deadline = CallDeadline(LIMITS)
    moves = 0

    async def call() -> None:
        nonlocal moves
        async with deadline.timeout:
            while True:
                await clock.move(25)
                moves += 1
                deadline.extend()

    with pytest.raises(TimeoutError):
        await call()
    assert moves * 25 == LIMITS.max_call_seconds - 25 == 275
    assert deadline.is_used_up
    assert LIMITS.tool_seconds > LIMITS.connect_seconds + LIMITS.max_call_seconds


async def test_progress_of_a_call_that_waits_for_a_person_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    clock = HandClock(monkeypatch)
    deadline = CallDeadline(LIMITS)
    async with deadline.timeout:
        with deadline.pause():
            deadline.extend()
            await clock.move(200)
        await clock.move(29)


async def test_progress_after_the_end_changes_nothing():
    deadline = CallDeadline(LIMITS)
    deadline.extend()
    async with deadline.timeout:
        deadline.extend()
    deadline.extend()


@pytest.mark.parametrize(
    ("progress", "total", "message", "expected"),
    [
        (2, 10, "downloading", "2 of 10: downloading"),
        (0.5, 1, None, "0.5 of 1"),
        (7, None, " rows ", "7: rows"),
        (7, 0, "", "7"),
        (math.nan, 3, "lost count", "lost count"),
        (3, math.inf, None, "3"),
        (1, None, "x" * 600, "1: " + "x" * 500),
    ],
)
def test_progress_in_words(progress: float, total: float | None, message: str | None, expected: str):
    assert format_progress(progress, total, message) == expected


@pytest.mark.parametrize(
    ("command", "may_install"),
    [
        (("npx", "-y", "@playwright/mcp"), True),
        (("/usr/local/bin/uvx", "mcp-server-time"), True),
        (("uv", "tool", "run", "x"), True),
        (("docker", "run", "-i", "mcp/fetch"), True),
        (("uv", "--version"), False),
        (("npm",), False),
        (("python3", "run"), False),
        (("./run",), False),
    ],
)
def test_a_command_that_may_install_is_named_as_such(command: tuple[str, ...], may_install: bool):
    program = ServerProgram(command, Path("/"))
    assert program.may_install == may_install
    assert ("installing" in describe_start(program)) == may_install
    assert ("installed" in explain_slow_start(program)) == may_install
    assert "install" not in explain_slow_start(ServerUrl("https://docs.example/mcp"))
