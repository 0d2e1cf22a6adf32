"""What was measured of an endpoint, directly or through the gateway: calls, rows, and their figures. Pure.

Tokens are the server's own counts, None where it sent none. Canvases are an estimate, ceil(output / 256) a
call. A rate holds for the lengths it was measured at, and an answer of one canvas has none: its seconds say
everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from bot.bench.harness.statistics import median
from bot.canvases import count_canvases

STOPPED_BY_HAND = "It was stopped by hand."

CallPath = Literal["direct", "gateway", "limited"]
Warmth = Literal["cold", "warm", "unknown"]


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """One answer.

    `seconds` from sending to its end; `first` and `last` block are counted from there, too (streamed only).
    `estimated` are the canvases of all model calls it took, where there were several.
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
        """The number of canvases it took, estimated."""
        if self.estimated is not None:
            return self.estimated
        if self.output is None:
            return None
        return max(1, count_canvases(self.output))

    @property
    def seconds_after_first_block(self) -> float | None:
        """Seconds from the first to the last canvas.

        None unless there are two or more and each came as a block of its own.
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
    """What the server itself counted meanwhile, for all clients: canvases, and denoising steps for each."""

    canvases: float | None
    steps: float | None


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One row: `calls` of the `wanted` that a protocol asks for, under the conditions that a rate needs.

    `wall` is from the first sending to the last end; `thinking` is in words.
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
        """Whether no call is missing."""
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
        """The median of the seconds an answer."""
        return median(call.seconds for call in self.calls)

    @property
    def first_block_seconds(self) -> float | None:
        """The median of the seconds to the first block."""
        return median(call.first for call in self.calls if call.first is not None)

    @property
    def seconds_per_canvas(self) -> float | None:
        """Seconds of the calls divided by their canvases.

        The time before the first and after the last canvas is included.
        """
        canvases = self.canvases
        if canvases:
            return sum(call.seconds for call in self.calls) / canvases
        return None

    @property
    def seconds_per_further_canvas(self) -> float | None:
        """Seconds from one canvas to the next, over all calls that show it."""
        return _seconds_per_further_canvas(self.calls)

    @property
    def tokens_per_second(self) -> float | None:
        """The average of the tokens a second of one answer.

        None if one answer has none, or if their lengths differ on purpose.
        """
        rates = [call.tokens_per_second for call in self.calls]
        known = [rate for rate in rates if rate is not None]
        if not known or len(known) < len(rates) or self.key == "lengths":
            return None
        return fmean(known)

    @property
    def total_tokens_per_second(self) -> float | None:
        """Tokens a second of answers that came at once, together.

        None if one answer has no rate, or one is missing.
        """
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
    """Calls that each need one tool: `right` as they came, `mended` once the gateway had repaired them."""

    thinking: str
    tried: int
    right: int
    mended: int
    calls: tuple[MeasuredCall, ...]


@dataclass(frozen=True, slots=True)
class IntervalSeconds:
    """The average seconds an answer in one kind of interval of the gateway's breakdown."""

    kind: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GatewayDifference:
    """One protocol both ways, in average seconds an answer.

    `gateway` is the sum of `model`, the canvases of the turn, and `intervals`, everything else.
    `tokens` are (prompt, output) an answer, direct and through the gateway.
    """

    label: str
    direct: float
    gateway: float
    intervals: tuple[IntervalSeconds, ...]
    model: float
    tokens: tuple[tuple[float | None, float | None], tuple[float | None, float | None]]

    @property
    def beside_model(self) -> float:
        """What the gateway's turn took in addition to its canvases."""
        return self.gateway - self.model

    @property
    def longer_model(self) -> float:
        """What the model took more than directly: another prompt, another answer, another moment."""
        return self.model - self.direct


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A whole run. `ended` says why it stopped early, in words; None: it ran to its end.

    `sentences` say what follows from it.
    """

    rows: tuple[MeasuredRow, ...]
    conditions: tuple[tuple[str, str], ...]
    tools: tuple[ToolCallScore, ...] = field(default_factory=tuple)
    differences: tuple[GatewayDifference, ...] = field(default_factory=tuple)
    ended: str | None = None
    sentences: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: all was measured; 1: the endpoint failed; 130: stopped by hand."""
        if self.ended is None:
            return 0
        if self.ended == STOPPED_BY_HAND:
            return 130
        return 1

    def find_row(self, way: CallPath, key: str, *, streamed: bool = True) -> MeasuredRow | None:
        """The row of a protocol, streamed or whole, if it was measured."""
        wanted = (way, key, streamed)
        return next((row for row in self.rows if (row.way, row.key, row.streamed) == wanted), None)

    @property
    def has_canvases(self) -> bool:
        """Whether no answer came in more blocks than it has canvases, as they do token by token."""
        calls = [call for row in self.rows for call in row.calls if call.output]
        return not any(call.blocks > (call.canvases or 0) for call in calls)

    @property
    def canvas_seconds(self) -> float | None:
        """Seconds from one canvas to the next with one call at a time, over all that show it."""
        return _seconds_per_further_canvas(
            [call for row in self.rows if row.at_once == 1 and row.way == "direct" for call in row.calls]
        )


def _sum_known(counts: Sequence[int | None]) -> int | None:
    known_counts = [count for count in counts if count is not None]
    if known_counts and len(known_counts) == len(counts):
        return sum(known_counts)
    return None


def _seconds_per_further_canvas(calls: Sequence[MeasuredCall]) -> float | None:
    spans = [(call.seconds_after_first_block, call.blocks - 1) for call in calls]
    canvases = sum(count for seconds, count in spans if seconds is not None)
    if canvases:
        return sum(seconds for seconds, _ in spans if seconds is not None) / canvases
    return None
