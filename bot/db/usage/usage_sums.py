"""Scopes of queries to the ledger and the sums they return, as frozen values.

Each sum comes with the number of values that were known, so that unknown is never taken for zero.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from bot.canvases import CANVAS_TOKENS
from bot.domain import CallPurpose, EndpointRole

HOUR_SECONDS = 3_600
GroupKey: TypeAlias = str | int | None
GroupBy = Literal["day", "hour", "chat", "user", "thinking", "model", "purpose", "user-model"]
BreakdownColumn = Literal[
    "whole",
    "intake",
    "lane_wait",
    "starting",
    "preflight",
    "seat_wait",
    "server_queue",
    "first_canvas",
    "further_canvases",
    "failed_calls",
    "tools",
    "approval_wait",
    "telegram",
    "back_off",
    "down",
    "own",
]
"""The columns of an account: the total, then the intervals that add up to it, in the order of a turn."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a report covers; a field that is None does not restrict it.

    `since` and `until` (exclusive) are epoch seconds; `chat` is a lane's key, a chat with all its
    topics, or with OUTSIDE_TOPICS (of scope_filters) without them.
    Days are those of `zone`, an IANA name. `endpoint` and `thinking` are those of turns, `tool` is one that a
    turn called; `model` and `purpose` are those of calls.
    """

    since: float | None = None
    until: float | None = None
    chat: str | None = None
    user: int | None = None
    model: str | None = None
    zone: str = "UTC"
    endpoint: EndpointRole | None = None
    tool: str | None = None
    purpose: CallPurpose | None = None
    thinking: bool | None = None

    @property
    def is_everything(self) -> bool:
        return self == Scope(zone=self.zone)

    @property
    def is_turns_only(self) -> bool:
        """Whether calls without a turn cannot belong to it."""
        of_turns = (self.chat, self.user, self.endpoint, self.tool, self.thinking)
        return any(value is not None for value in of_turns)

    @property
    def is_everybody(self) -> bool:
        """Whether nothing but the time restricts it."""
        return not self.is_turns_only and self.model is None and self.purpose is None


@dataclass(frozen=True, slots=True)
class CallSums:
    """Model calls of a group. Each sum of tokens is over the `…_known` calls whose count the server reported.

    `cached_of` is the input of the calls with a known cached count, `reasoning_of` the output of those with a
    known reasoning count. `canvases` is estimated over `canvases_known` calls, of the `costing` ones that use
    any canvas. `partial` calls reported only a running count. `cut` calls met their length, the turn's time
    or the brake of their thinking. `busy` and `waited` are seconds with and for a seat. `timed` calls ended
    by themselves with a known count: only they say how long a canvas takes, over `timed_canvases` in
    `timed_seconds`.
    """

    key: GroupKey
    calls: int
    input: int
    input_known: int
    cached: int
    cached_known: int
    cached_of: int
    output: int
    output_known: int
    partial: int
    reasoning: int
    reasoning_known: int
    reasoning_of: int
    canvases: int
    canvases_known: int
    costing: int
    thinking: int
    thinking_canvases: int
    busy: float
    waited: float
    timed: int
    timed_canvases: int
    timed_seconds: float
    cut: int
    cancelled: int
    failed: int

    @property
    def seconds_per_canvas(self) -> float | None:
        """How long a canvas takes, over the `timed` calls; None if there is none."""
        return self.timed_seconds / self.timed_canvases if self.timed_canvases else None


@dataclass(frozen=True, slots=True)
class TurnCounts:
    """Turns of a group: how many, how many of them failed, and how many are `settled`: have an account.

    `failed` ended without an answer, or had no time or steps left, but neither were they stopped nor was a
    limit used up.
    """

    key: GroupKey
    turns: int
    failed: int
    settled: int


@dataclass(frozen=True, slots=True)
class TurnSums(TurnCounts):
    """The same with sums: how many turns were thinking, ended empty or cut, or were answered.

    `answered` ended with an answer, also one cut at its length.
    `thinking_settled` turns are the settled ones that were thinking, and `thinking_seconds` is the total of
    these. All calls of thinking turns that use any canvas are `thinking_calls`: of `…_known` the output is
    known, of `…_partial` ones only a running count. `thinking_canvases` is estimated over those known.
    `seconds` are sums over accounts, in the order of BreakdownColumn.
    """

    thinking: int
    empty: int
    cut: int
    answered: int
    thinking_settled: int
    thinking_seconds: float
    thinking_calls: int
    thinking_calls_known: int
    thinking_calls_partial: int
    thinking_canvases: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ToolSums:
    """Tool calls of one outcome (None: not ended) in a group; `seconds` is over the `timed` ones.

    `refusal`: why they were refused, if they were; None: unknown.
    """

    key: GroupKey
    outcome: str | None
    calls: int
    timed: int
    seconds: float
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalSums:
    """Tool calls of a group that a person was asked about, by the answer (None: not given yet).

    `waited` is the sum of seconds until the answers that were given.
    """

    key: GroupKey
    answer: str | None
    calls: int
    waited: float


@dataclass(frozen=True, slots=True)
class RetrySums:
    """How many calls of a group repeated another one for this reason."""

    key: GroupKey
    again: str
    calls: int


@dataclass(frozen=True, slots=True)
class ServerSums:
    """What the endpoints' own counters grew by, for all their clients; None where a server lacks a counter.

    `steps` are denoising steps, with one commit for each canvas. `committed` are tokens of whole canvases,
    `gap` tokens that were counted beyond ours.
    """

    readings: int
    steps: int | None
    committed: int | None
    gap: int | None

    @property
    def canvases(self) -> float | None:
        """Whole canvases; None where the server does not count them."""
        return self.committed / CANVAS_TOKENS if self.committed else None

    @property
    def steps_per_canvas(self) -> float | None:
        """Denoising steps a canvas on average, without the one that commits it."""
        if self.steps is None or self.canvases is None:
            return None
        return self.steps / self.canvases - 1


@dataclass(frozen=True, slots=True)
class UnknownUsage:
    """Calls whose usage is not wholly known, for one reason; of each count those that lack it.

    `partial` calls have only a running count from before their end.
    """

    reason: str
    calls: int
    input: int
    cached: int
    output: int
    reasoning: int
    partial: int
