"""Bounds on what a server may write: size and parts of a message, and how much comes in a while. Pure."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_MESSAGE_BYTES = 4 * 1024 * 1024  # a picture of 3 MB fits
# Reading so many values takes some 0.2 s, during which the event loop is blocked.
MAX_MESSAGE_VALUES = 30_000
TOO_LARGE_TEXT = "is larger than 4 MiB, has too many values or is packed, and was not read"
_HEAD_BYTES = 300  # kept of a message that is too long: enough for its id
_ID_PATTERN = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*,')

_MAX_QUOTES = 100_000  # beyond so many, strings are not separated from the rest of a message
_STRING_PATTERN = re.compile(rb'"(?:[^"\\]|\\.)*"')

# The cost of reading is mostly that of the message and its values, little that of the length of its strings.
# The weight of one second takes a tenth of a second to read.
_MESSAGE_WEIGHT = 4096
_VALUE_WEIGHT = 64
_BYTES_PER_WEIGHT = 16
_BURST_WEIGHT = 4 * 1024 * 1024.0  # may come at once
_WEIGHT_PER_SECOND = 256 * 1024.0  # may come after that

_FREE_CHANGES = 5  # are handled before the delays grow

UNREAD_MESSAGE_WEIGHT = MAX_MESSAGE_BYTES // _BYTES_PER_WEIGHT
"""The weight of a message that was not read."""


@dataclass(frozen=True, slots=True)
class OversizedMessage:
    """A message that was dropped unread.

    `id` is that of the request it answers, where the message states it early.
    """

    id: int | None


class LineSplitter:
    """Splits what comes into lines; of a line longer than `max_bytes` only the head is ever kept."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | OversizedMessage]:
        """The lines that end in this chunk, without their line ends and without empty ones."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            line = bytes(self._buffer)
            skipped = self._is_skipping
            self._buffer.clear()
            self._is_skipping = False
            if skipped or count_values(line) > MAX_MESSAGE_VALUES:
                yield OversizedMessage(find_answered_id(line))
            elif line.strip():
                yield line
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if not self._is_skipping:
            self._buffer += part
            if len(self._buffer) > self._max_bytes:
                self._is_skipping = True
                del self._buffer[_HEAD_BYTES:]


def count_values(message: bytes | bytearray) -> int:
    """The approximate number of values in a message.

    What stands in its strings is not counted, unless there are very many of them.
    """
    count = _count_separators(message)
    if count <= MAX_MESSAGE_VALUES or message.count(b'"') > _MAX_QUOTES:
        return count
    return _count_separators(_STRING_PATTERN.sub(b"", message))


def _count_separators(message: bytes | bytearray) -> int:
    return sum(message.count(mark) for mark in (b",", b"[", b"{"))


def weigh_message(message: bytes | bytearray) -> int:
    """The cost of reading a message."""
    return len(message) // _BYTES_PER_WEIGHT + _MESSAGE_WEIGHT + _VALUE_WEIGHT * count_values(message)


def find_answered_id(message: bytes) -> int | None:
    """The id of the request that a message answers, where it stands before the result.

    An id further on might be another one.
    """
    before = re.split(rb'"(?:result|error|params|method)"', message[:_HEAD_BYTES], maxsplit=1)[0]
    match = _ID_PATTERN.search(before)
    if match:
        return int(match[1])
    return None


class ReadThrottle:
    """How long to wait before reading more, so that a server that floods us costs little; in seconds."""

    def __init__(self) -> None:
        self._weight_left = _BURST_WEIGHT
        self._last_time: float | None = None

    def next_delay(self, weight: int, now: float) -> float:
        """Count what has come and return how long to read nothing more; 0 in all usual cases."""
        if self._last_time is not None:
            self._weight_left = min(
                _BURST_WEIGHT, self._weight_left + (now - self._last_time) * _WEIGHT_PER_SECOND
            )
        self._last_time = now
        self._weight_left -= weight
        return max(0.0, -self._weight_left / _WEIGHT_PER_SECOND)


class ChangeBackoff:
    """How long a server is ignored after it reported a change; times in seconds.

    At first `min_seconds`; when it reports changes often, twice as long each time, up to `max_seconds`.
    One change is forgiven every `max_seconds`.
    """

    def __init__(self, min_seconds: float, max_seconds: float) -> None:
        self._min_seconds = min_seconds
        self._max_seconds = max_seconds
        self._change_count = 0.0
        self._last_time: float | None = None

    def next_delay(self, now: float) -> float:
        """Count a change that was reported just now and return the delay."""
        if self._last_time is not None:
            self._change_count = max(0.0, self._change_count - (now - self._last_time) / self._max_seconds)
        self._last_time = now
        self._change_count += 1
        return min(
            self._max_seconds, self._min_seconds * math.exp2(max(0.0, self._change_count - _FREE_CHANGES))
        )
