"""Bounds on what a server may write: the length and parts of one message, and how much comes in a while.
Pure.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

LARGEST = 4 * 1024 * 1024  # bytes of one message: a picture of 3 MB fits
PARTS = 30_000  # values of one message: reading so many takes some 0.2 s, in which nothing else is done
_HEAD = 300  # bytes of a message that is too long: enough for its id
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*,')

_QUOTES = 100_000  # of a message, beyond which its texts are not told from the rest
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')

# Reading costs by the message and its values, and by the length of its texts little. Weighed so that a
# second's worth takes a tenth of a second.
_MESSAGE = 4096
_PART = 64
_TEXT_BYTES = 16  # of one weight
_BURST = 4 * 1024 * 1024.0  # weight that may come at once
_RATE = 256 * 1024.0  # and after that, a second

_FREE = 5  # changes that are heard without waiting longer for the next

HEAVY = LARGEST // _TEXT_BYTES
"""The weight of a message that was not read."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A message that was thrown away unread. `id` is that of the request it answers, where it says so early."""

    id: int | None


class Lines:
    """Cuts what comes into lines; of a line longer than `most` bytes only its head is ever kept."""

    def __init__(self, most: int = LARGEST) -> None:
        self._most = most
        self._line = bytearray()
        self._skips = False

    def feed(self, piece: bytes) -> Iterator[bytes | TooLong]:
        """The lines that end in this piece, without their ends and without empty ones."""
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._add(part)
            line = bytes(self._line)
            skipped = self._skips
            self._line.clear()
            self._skips = False
            if skipped or parts(line) > PARTS:
                yield TooLong(answered(line))
            elif line.strip():
                yield line
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if not self._skips:
            self._line += part
            if len(self._line) > self._most:
                self._skips = True
                del self._line[_HEAD:]


def parts(message: bytes | bytearray) -> int:
    """About how many values a message has; what stands in its texts is not counted, unless it has very many."""
    count = _marks(message)
    if count <= PARTS or message.count(b'"') > _QUOTES:
        return count
    return _marks(_TEXT.sub(b"", message))


def _marks(message: bytes | bytearray) -> int:
    return sum(message.count(mark) for mark in (b",", b"[", b"{"))


def weight(message: bytes | bytearray) -> int:
    """What reading a message costs."""
    return len(message) // _TEXT_BYTES + _MESSAGE + _PART * parts(message)


def answered(message: bytes) -> int | None:
    """The id of the request that a message answers, where it stands before the result: elsewhere might be
    another.
    """
    before = re.split(rb'"(?:result|error|params|method)"', message[:_HEAD], maxsplit=1)[0]
    match = _ID.search(before)
    if match:
        return int(match[1])
    return None


class Pace:
    """How long to wait before more is read, so that a server that floods us keeps nobody busy. Times in
    seconds.
    """

    def __init__(self) -> None:
        self._left = _BURST
        self._at: float | None = None

    def wait(self, weight: int, now: float) -> float:
        """Count what has come, and say for how long nothing more should be read; 0 in all usual cases."""
        if self._at is not None:
            self._left = min(_BURST, self._left + (now - self._at) * _RATE)
        self._at = now
        self._left -= weight
        return max(0.0, -self._left / _RATE)


class Calm:
    """How long a server is not heard after it told of a change: `least`, and when it does so often twice as
    long each time, `most` at last. One change is forgiven each `most`. Times in seconds.
    """

    def __init__(self, least: float, most: float) -> None:
        self._least = least
        self._most = most
        self._count = 0.0
        self._at: float | None = None

    def wait(self, now: float) -> float:
        """Count a change that was told just now."""
        if self._at is not None:
            self._count = max(0.0, self._count - (now - self._at) / self._most)
        self._at = now
        self._count += 1
        return min(self._most, self._least * math.exp2(max(0.0, self._count - _FREE)))
