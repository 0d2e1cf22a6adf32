"""Puts the reply of a model call together from the chunks of its stream. Does no I/O.

Chunks are the endpoint's JSON. Owns what has come so far, so that a cut call keeps its text and its usage.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from bot.agent.sanitize import sendable
from bot.domain import CANVAS, CallTimes, Reply, ToolCall, Usage

NO_USAGE = "the server sent no usage"
MOST = 2**53  # tokens; what is no count of anything is unknown

Clock = Callable[[], float]


def epoch_clock() -> Clock:
    """Seconds since the epoch that never jump: the wall clock is read once, then a steady clock goes on from
    there.
    """
    anchor = time.time() - time.monotonic()
    return lambda: anchor + time.monotonic()


class Reading:
    """A reply as it comes in; `reply` can be asked for at any time."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._created = now()
        self._seat: float | None = None
        self._first_block: float | None = None
        self._last_block: float | None = None
        self._blocks = 0
        self._text = ""
        self._reasoning = ""
        self._calls: dict[int, dict[str, str]] = {}
        self._running: Mapping[str, Any] | None = None
        self._final: Mapping[str, Any] | None = None
        self._server: dict[str, float] | None = None
        self._fingerprint: str | None = None
        self._id: str | None = None
        self._model: str | None = None
        self.finish_reason: str | None = None

    def seated(self) -> None:
        """The call has its seat."""
        self._seat = self._now()

    def take(self, chunk: object) -> str | None:
        """Take one chunk in. Gives all text so far if it carried text and more is to come.

        Raises ValueError when it is no chunk.
        """
        try:
            return self._taken(chunk)
        except (AttributeError, TypeError, OverflowError) as error:
            raise ValueError("no chunk of a reply") from error

    def _taken(self, chunk: Any) -> str | None:
        self._id = _word(chunk.get("id")) or self._id
        self._model = _word(chunk.get("model")) or self._model
        self._fingerprint = _word(chunk.get("system_fingerprint")) or self._fingerprint
        self._count(chunk)
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            self.finish_reason = _word(choice.get("finish_reason")) or self.finish_reason
            if self._append(delta) and self.finish_reason is None and delta.get("content"):
                return sendable(self._text)
        return None

    def only_thought(self, tokens: int) -> bool:
        """Whether so many tokens have come, or as many whole canvases, all of them thought, and more is to
        come.
        """
        if self._text or self._calls or not self._reasoning or self.finish_reason is not None:
            return False
        counted = _count(self._running, "completion_tokens")
        return (self._blocks * CANVAS if counted is None else counted) >= tokens

    def reply(self, *, ended: bool = True) -> Reply:
        """What has come so far; `ended` False marks the usage as partial."""
        return Reply(
            text=sendable(self._text),
            reasoning=sendable(self._reasoning),
            calls=tuple(
                ToolCall(call["id"], sendable(call["name"]), sendable(call["arguments"]))
                for _, call in sorted(self._calls.items())
            ),
            finish_reason=self.finish_reason,
            usage=self._usage(ended),
            times=CallTimes(self._created, self._seat, self._first_block, self._last_block, self._now()),
            blocks=self._blocks,
            request_id=self._id,
            server=self._server,
            fingerprint=self._fingerprint,
            model=self._model,
        )

    def _count(self, chunk: Mapping[str, Any]) -> None:
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            if chunk.get("choices"):
                self._running = usage
            else:
                self._final = usage
        metrics = chunk.get("metrics")
        if isinstance(metrics, Mapping):
            self._server = {
                name: float(value) for name, value in metrics.items() if isinstance(value, int | float)
            }

    def _append(self, delta: Mapping[str, Any]) -> bool:
        """Whether the delta carried anything of the reply."""
        content = delta.get("content")
        reasoning = delta.get("reasoning")
        calls = delta.get("tool_calls")
        if not (content or reasoning or calls):
            return False
        self._text += content or ""
        self._reasoning += reasoning or ""
        for piece in calls or ():
            call = self._calls.setdefault(piece.get("index") or 0, {"id": "", "name": "", "arguments": ""})
            call["id"] = call["id"] or _word(piece.get("id")) or ""
            function = piece.get("function") or {}
            call["name"] += function.get("name") or ""
            call["arguments"] += function.get("arguments") or ""
        self._last_block = self._now()
        self._first_block = self._first_block or self._last_block
        self._blocks += 1
        return True

    def _usage(self, ended: bool) -> Usage:
        usage = self._final or self._running
        if usage is None:
            return Usage(
                partial=not ended, missing=NO_USAGE if ended else "the call ended before the server counted"
            )
        return Usage(
            prompt_tokens=_count(usage, "prompt_tokens"),
            cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
            reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
            partial=not ended and self._final is None,
        )


def _count(counts: object, name: str) -> int | None:
    value = counts.get(name) if isinstance(counts, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST:
        return value
    return None


def _word(value: object) -> str | None:
    if isinstance(value, str):
        return sendable(value)
    return None
