"""Assembles the reply of a model call from the chunks of its stream. Does no I/O.

Chunks are the endpoint's JSON. Owns what has arrived so far, so that a cut call keeps its text and its usage.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from bot.agent.sanitize import to_sendable
from bot.domain import MAX_BLOCK_TIMES, CallTimes, Reply, ToolCall, Usage

NO_USAGE = "the server sent no usage"
CALL_ENDED_EARLY = "the call ended before the server counted"
MAX_MODEL_CHARS = 200  # of a model's name: it is indexed, and PostgreSQL indexes nothing beyond 2.7 KB
_CHARS_PER_TOKEN = 4
MAX_COUNT = 2**53  # tokens; a larger number is no count, and counts as unknown

Clock = Callable[[], float]


def make_epoch_clock() -> Clock:
    """A clock of seconds since the epoch that never jumps: the wall clock read once, then a monotonic one."""
    anchor = time.time() - time.monotonic()
    return lambda: anchor + time.monotonic()


class StreamAccumulator:
    """A reply as it arrives; `build_reply` can be called at any time.

    A reply of more than `max_chars` is cut there, and ends as one that reached its limit of tokens: some
    servers do not keep to it.
    """

    def __init__(self, clock: Clock, max_chars: int = sys.maxsize) -> None:
        self._clock = clock
        self._chars_left = max_chars
        self._created = clock()
        self._seat: float | None = None
        self._first_block: float | None = None
        self._last_block: float | None = None
        self._block_times: list[float] = []
        self._blocks = 0
        self._text = ""
        self._reasoning = ""
        self._calls: dict[int, dict[str, str]] = {}
        self._running_usage: Mapping[str, Any] | None = None
        self._final_usage: Mapping[str, Any] | None = None
        self._server_timings: dict[str, float] | None = None
        self._fingerprint: str | None = None
        self._request_id: str | None = None
        self._model: str | None = None
        self.finish_reason: str | None = None

    def mark_seat(self) -> None:
        """Record when the call got its seat."""
        self._seat = self._clock()

    @property
    def text(self) -> str:
        """All text so far."""
        return to_sendable(self._text)

    @property
    def is_full(self) -> bool:
        """Whether it was cut, so that nothing more of it is to be read."""
        return self._chars_left <= 0

    @property
    def block_count(self) -> int:
        """How many chunks with a part of the reply have come."""
        return self._blocks

    def add_chunk(self, chunk: object) -> bool:
        """Add one chunk, or a whole reply. Returns whether it carried text and more is to come.

        Raises ValueError when it is no chunk.
        """
        try:
            return self._merge_chunk(chunk)
        except (AttributeError, TypeError, OverflowError) as error:
            raise ValueError("no chunk of a reply") from error

    def _merge_chunk(self, chunk: Any) -> bool:
        self._request_id = self._request_id or _read_text(chunk.get("id"))
        self._model = self._model or (_read_text(chunk.get("model")) or "")[:MAX_MODEL_CHARS] or None
        self._fingerprint = self._fingerprint or _read_text(chunk.get("system_fingerprint"))
        self._store_usage(chunk)
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}  # a message: it came whole
            self.finish_reason = _read_text(choice.get("finish_reason")) or self.finish_reason
            self._append_delta(delta)
            if self.is_full:
                self.finish_reason = "length"
            if delta.get("content") and self.finish_reason is None:
                return True
        return False

    def has_only_thought(self, min_tokens: int) -> bool:
        """Whether at least `min_tokens` have arrived, all of them thought, and more is to come.

        Where the server counts only at the end, they are estimated from the characters.
        """
        if self._text or self._calls or not self._reasoning or self.finish_reason is not None:
            return False
        tokens = parse_count(self._running_usage, "completion_tokens")
        if tokens is None:
            tokens = len(self._reasoning) // _CHARS_PER_TOKEN
        return tokens >= min_tokens

    def build_reply(self, *, is_ended: bool = True) -> Reply:
        """What has arrived so far; `is_ended` False marks the usage as partial."""
        calls = [call for _, call in sorted(self._calls.items())]
        return Reply(
            text=self.text,
            reasoning=to_sendable(self._reasoning),
            calls=tuple(
                ToolCall(call["id"], to_sendable(call["name"]), to_sendable(call["arguments"]))
                for call in calls
            ),
            finish_reason=self.finish_reason,
            usage=self._build_usage(is_ended),
            times=CallTimes(
                self._created,
                self._seat,
                self._first_block,
                self._last_block,
                self._clock(),
                tuple(self._block_times),
            ),
            blocks=self._blocks,
            request_id=self._request_id,
            server_timings=self._server_timings,
            fingerprint=self._fingerprint,
            model=self._model,
        )

    def _store_usage(self, chunk: Mapping[str, Any]) -> None:
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            if chunk.get("choices"):
                self._running_usage = usage
            else:
                self._final_usage = usage
        metrics = chunk.get("metrics")
        if isinstance(metrics, Mapping):
            self._server_timings = {
                name: float(value) for name, value in metrics.items() if isinstance(value, int | float)
            }

    def _append_delta(self, delta: Mapping[str, Any]) -> None:
        """Add what the delta carries of the reply; an empty one is no block."""
        content = delta.get("content")
        reasoning = delta.get("reasoning") or delta.get("reasoning_content")
        calls = delta.get("tool_calls")
        if not (content or reasoning or calls):
            return
        self._text += self._take(content or "")
        self._reasoning += self._take(reasoning or "")
        for position, fragment in enumerate(calls or ()):
            self._append_call_fragment(fragment, position)
        self._last_block = self._clock()
        self._first_block = self._first_block or self._last_block
        self._blocks += 1
        if self._blocks <= MAX_BLOCK_TIMES:
            self._block_times.append(self._last_block)

    def _append_call_fragment(self, fragment: Mapping[str, Any], position: int) -> None:
        """Add a piece of a tool call to the call with its index, or of its position where it has none."""
        index = fragment.get("index")
        number = position if index is None else index
        call = self._calls.setdefault(number, {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or _read_text(fragment.get("id")) or ""
        function = fragment.get("function") or {}
        call["name"] += self._take(function.get("name") or "")
        call["arguments"] += self._take(function.get("arguments") or "")

    def _take(self, text: str) -> str:
        """The part of a text that the reply may still have."""
        taken = text[: max(0, self._chars_left)]
        self._chars_left -= len(text)
        return taken

    def _build_usage(self, is_ended: bool) -> Usage:
        usage = self._final_usage or self._running_usage
        if usage is None and is_ended:
            return Usage(missing_reason=NO_USAGE)
        if usage is None:
            return Usage(partial=True, missing_reason=CALL_ENDED_EARLY)
        return Usage(
            prompt_tokens=parse_count(usage, "prompt_tokens"),
            cached_tokens=parse_count(usage.get("prompt_tokens_details"), "cached_tokens"),
            completion_tokens=parse_count(usage, "completion_tokens"),
            reasoning_tokens=parse_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
            partial=not is_ended and self._final_usage is None,
        )


def parse_count(counts: object, name: str) -> int | None:
    """The count of this name in what the endpoint sent; None if there is none, or no count."""
    if not isinstance(counts, Mapping):
        return None
    value = counts.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT:
        return value
    return None


def _read_text(value: object) -> str | None:
    if isinstance(value, str):
        return to_sendable(value)
    return None
