"""How long a server may take: to start, to answer a call, and how a call's progress prolongs it.

Times are seconds of the event loop's clock. Knows nothing of the SDK.
"""

import asyncio
import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tools.base import QUESTION_SECONDS
from tools.mcp.elicitation import MAX_QUESTIONS

PROGRESS_FACTOR = 10  # a call that reports progress may take so many times as long as a silent one
MAX_PROGRESS_CHARS = 500  # of what a server says about it
INSTALL_SECONDS = 300.0  # to start, for a program that may download itself first
_GRACE_SECONDS = 1.0  # beyond our own limits, which say what happened


@dataclass(frozen=True, slots=True)
class McpServerLimits:
    """Seconds: of a silent call, of starting, of listing, and of the pauses between attempts to connect.

    The pauses double from `retry_seconds` up to `max_retry_seconds`.
    """

    call_seconds: float = 30.0
    connect_seconds: float = 60.0
    list_seconds: float = 20.0
    relist_seconds: float = 600.0
    min_relist_pause_seconds: float = 1.0
    retry_seconds: float = 0.5
    max_retry_seconds: float = 60.0

    @property
    def max_call_seconds(self) -> float:
        """The longest call, however much progress it reports."""
        return PROGRESS_FACTOR * self.call_seconds

    @property
    def tool_seconds(self) -> float:
        """The longest that a tool may take, with the start of its server, and with what that asks."""
        asked_seconds = MAX_QUESTIONS * QUESTION_SECONDS
        return self.connect_seconds + self.max_call_seconds + asked_seconds + _GRACE_SECONDS


DEFAULT_LIMITS = McpServerLimits()


class CallDeadline:
    """Limits the time of one call: its `timeout` is entered, and raises TimeoutError at its end."""

    def __init__(self, limits: McpServerLimits) -> None:
        self.timeout = asyncio.timeout(limits.call_seconds)
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._ends_at = self._clock() + limits.max_call_seconds
        self._is_paused = False

    def extend(self) -> None:
        """Note that the call has made progress; nothing while it is paused, and once it is over."""
        if not self._is_paused:
            self._reschedule(min(self._clock() + self._limits.call_seconds, self._ends_at))

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Let no time pass while the block runs: the server waits for a person."""
        began_at = self._clock()
        self._reschedule(None)
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False
            self._ends_at += self._clock() - began_at
            self.extend()

    def _reschedule(self, when: float | None) -> None:
        with contextlib.suppress(RuntimeError):  # it has not begun, or is over
            self.timeout.reschedule(when)

    @property
    def is_used_up(self) -> bool:
        """Whether progress has given the call all the time that it can: a silent one ends before that."""
        ends_at = self.timeout.when()
        return ends_at is not None and ends_at >= self._ends_at


def format_progress(progress: float, total: float | None, message: str | None) -> str:
    """What a server reports of a call, such as "2 of 10: downloading"; its words may be anything."""
    count = f"{progress:g}" if math.isfinite(progress) else ""
    if count and total is not None and math.isfinite(total) and total > 0:
        count = f"{count} of {total:g}"
    return ": ".join(filter(None, (count, (message or "")[:MAX_PROGRESS_CHARS].strip())))
