"""What was measured of an endpoint, directly or through the gateway: calls, rows of them, what they amount
to. Pure.

Tokens are the server's own counts, None where it sent none. Canvases are an estimate, ceil(output / 256) a
call. A rate belongs to the lengths it was made at, and an answer of one canvas has none: its seconds say all
there is to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from bot.domain import CANVAS_TOKENS

STOPPED_BY_HAND = "It was stopped by hand."

CallPath = Literal["direct", "gateway"]
Warmth = Literal["cold", "warm", "unknown"]


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """One answer. `seconds` from its sending to its end; `first` and `last` block count from there, too
    (streamed).

    `estimated` are the canvases of all model calls it took, where they were several.
    """

    seconds: float
    output: int | None
    first: float | None = None
    last: float | None = None
    blocks: int = 0
    prompt: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    finish: str | None = None
    estimated: int | None = None

    @property
    def canvases(self) -> int | None:
        """How many canvases it took, estimated."""
        if self.estimated is not None:
            return self.estimated
        if self.output is None:
            return None
        return max(1, -(-self.output // CANVAS_TOKENS))

    @property
    def seconds_after_first_block(self) -> float | None:
        """Seconds from the first to the last canvas; None unless each of two or more came as a block of its
        own.
        """
        if self.first is None or self.last is None or self.blocks < 2 or self.blocks != self.canvases:
            return None
        return self.last - self.first

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second; None for one canvas, or where the server did not count."""
        if self.output is None or (self.canvases or 0) < 2 or self.seconds <= 0:
            return None
        return self.output / self.seconds


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What the server itself counted meanwhile, whoever asked: canvases, and denoising steps for each."""

    canvases: float | None
    steps: float | None


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One row: `calls` of the `wanted` that one protocol asks for, under the conditions a rate needs beside
    it.

    `wall` is from the first sending to the last end, `thinking` in words.
    """

    key: str
    label: str
    way: CallPath
    streamed: bool
    thinking: str
    at_once: int
    warm: Warmth
    wanted: int
    calls: tuple[MeasuredCall, ...]
    wall: float
    counted: ServerCounts | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return len(self.calls) == self.wanted

    @property
    def output_tokens(self) -> int | None:
        """Tokens of all answers; None if one was not counted."""
        return _sum_known([call.output for call in self.calls])

    @property
    def canvases(self) -> int | None:
        """Canvases of all answers, estimated; None if one was not counted."""
        return _sum_known([call.canvases for call in self.calls])

    @property
    def median_seconds(self) -> float | None:
        """Seconds an answer, the middle one."""
        if self.calls:
            return median([call.seconds for call in self.calls])
        return None

    @property
    def first_block_seconds(self) -> float | None:
        """Seconds to the first block, the middle one."""
        return _median_of_known([call.first for call in self.calls])

    @property
    def seconds_per_canvas(self) -> float | None:
        """Seconds of the calls over their canvases: all in, with what comes before the first and after the
        last.
        """
        canvases = self.canvases
        if canvases:
            return sum(call.seconds for call in self.calls) / canvases
        return None

    @property
    def seconds_per_further_canvas(self) -> float | None:
        """Seconds from one canvas to the next, over all that show it."""
        return _seconds_per_further_canvas(self.calls)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second of one answer, on average; None if one has none, or their lengths are no one
        length.
        """
        rates = [call.tokens_per_second for call in self.calls]
        known = [rate for rate in rates if rate is not None]
        if not known or len(known) < len(rates) or self.key == "lengths":
            return None
        return fmean(known)

    @property
    def total_tokens_per_second(self) -> float | None:
        """Tokens a second of answers that came at once, together; None if one has no rate, or one is missing."""
        if (
            self.at_once < 2
            or not self.is_complete
            or self.tokens_per_second is None
            or self.output_tokens is None
            or self.wall <= 0
        ):
            return None
        return self.output_tokens / self.wall


@dataclass(frozen=True, slots=True)
class ToolCallScore:
    """Calls that one tool was asked for: `right` as they came, `mended` once the house had repaired them."""

    thinking: str
    tried: int
    right: int
    mended: int
    calls: tuple[MeasuredCall, ...]


@dataclass(frozen=True, slots=True)
class IntervalSeconds:
    """Seconds an answer, on average, that went into one kind of interval of the gateway's account."""

    kind: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GatewayDifference:
    """One protocol both ways, in seconds an answer on average: what `intervals` of the gateway's turn add up
    to.

    `model` is what of them were canvases; `tokens` are (prompt, output) an answer, direct and through the
    gateway.
    """

    label: str
    direct: float
    gateway: float
    intervals: tuple[IntervalSeconds, ...]
    model: float
    tokens: tuple[tuple[float | None, float | None], tuple[float | None, float | None]]

    @property
    def beside_model(self) -> float:
        """What the gateway's turn took beside its canvases."""
        return self.gateway - self.model

    @property
    def longer_model(self) -> float:
        """What the model itself took more than directly: another prompt, another answer, another moment."""
        return self.model - self.direct


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All of a run. `ended` says why it stopped early, in words; None: it came to its end."""

    rows: tuple[MeasuredRow, ...]
    conditions: tuple[tuple[str, str], ...]
    tools: tuple[ToolCallScore, ...] = field(default_factory=tuple)
    differences: tuple[GatewayDifference, ...] = field(default_factory=tuple)
    ended: str | None = None

    @property
    def exit_code(self) -> int:
        """0: all was measured; 1: the endpoint failed; 130: stopped by hand."""
        if self.ended is None:
            return 0
        if self.ended == STOPPED_BY_HAND:
            return 130
        return 1

    def find_row(self, way: CallPath, key: str) -> MeasuredRow | None:
        """The streamed row of a protocol, if it was measured."""
        fitting = (row for row in self.rows if row.way == way and row.key == key and row.streamed)
        return next(fitting, None)

    @property
    def canvas_seconds(self) -> float | None:
        """Seconds from one canvas to the next with one call at a time, over all that show it."""
        return _seconds_per_further_canvas(
            [call for row in self.rows if row.at_once == 1 and row.way == "direct" for call in row.calls]
        )


def _sum_known(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    if known and len(known) == len(counts):
        return sum(known)
    return None


def _seconds_per_further_canvas(calls: Sequence[MeasuredCall]) -> float | None:
    shown = [(call.seconds_after_first_block, call.blocks - 1) for call in calls]
    canvases = sum(count for seconds, count in shown if seconds is not None)
    if canvases:
        return sum(seconds for seconds, _ in shown if seconds is not None) / canvases
    return None


def _median_of_known(seconds: Sequence[float | None]) -> float | None:
    known = [one for one in seconds if one is not None]
    if known:
        return median(known)
    return None
