"""What is asked of the ledger and the sums it answers with, as frozen values.

A sum stands beside how many were known, so that unknown never becomes nought.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

DAY_SECONDS = 86_400  # seconds; days are UTC
GroupKey: TypeAlias = str | int | None
GroupBy = Literal["day", "chat", "user", "model", "purpose"]
BreakdownColumn = Literal[
    "whole",
    "intake",
    "lane_wait",
    "seat_wait",
    "first_canvas",
    "further_canvases",
    "tools",
    "approval_wait",
    "telegram",
    "back_off",
    "down",
    "own",
]
"""The columns of an account: the whole, then the intervals that add up to it, in the order of a turn."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at. `since` and `until` (not included) are epoch seconds; `chat` is a lane's key, or a
    chat with all its topics; None: everything."""

    since: float | None = None
    until: float | None = None
    chat: str | None = None
    user: int | None = None
    model: str | None = None

    @property
    def is_everything(self) -> bool:
        return self == Scope()

    @property
    def is_turns_only(self) -> bool:
        """Whether only calls of turns can be meant."""
        return self.chat is not None or self.user is not None

    @property
    def is_whole_days(self) -> bool:
        """Whether it is whole days of everybody, for which durations are kept counted."""
        borders = [one for one in (self.since, self.until) if one is not None]
        return (
            not self.is_turns_only and self.model is None and all(one % DAY_SECONDS == 0 for one in borders)
        )


@dataclass(frozen=True, slots=True)
class CallSums:
    """Model calls of a group. Each sum of tokens is over the `…_known` calls whose count the server told.

    `cached_of` is the input of the calls that told what was cached, `reasoning_of` the output of those that
    told how much was thought. `canvases` is estimated over the `canvases_known` of those calls that cost any
    (`costing`). `partial` calls told only a running count. A `cut` one met its length, the turn's time or the
    brake of its thinking. `busy` and `waited` are seconds with and for a seat.
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
    cut: int
    cancelled: int
    failed: int


@dataclass(frozen=True, slots=True)
class TurnSums:
    """Turns of a group: how many, how many of them thought, ended empty or cut, and have an account
    (`settled`).

    `seconds` are sums over accounts, in the order of `Seconds`; `thinking_seconds` the whole of those that
    thought.
    """

    key: GroupKey
    turns: int
    thinking: int
    empty: int
    cut: int
    settled: int
    thinking_settled: int
    thinking_seconds: float
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ToolSums:
    """Tool calls of one outcome (None: not ended) in a group; `seconds` are over the `timed` ones."""

    key: GroupKey
    outcome: str | None
    calls: int
    timed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ApprovalSums:
    """Tool calls of a group about which a person was asked, by the answer (None: not given yet).

    `waited` are the seconds until then, of those that were answered.
    """

    key: GroupKey
    answer: str | None
    calls: int
    waited: float


@dataclass(frozen=True, slots=True)
class RetrySums:
    """How many calls of a group were made for this reason, which would not have been needed otherwise."""

    key: GroupKey
    again: str
    calls: int


@dataclass(frozen=True, slots=True)
class ServerSums:
    """What the endpoints' own counters grew by, whoever asked them; None where a server does not tell.

    `steps` are denoising steps with one commit a canvas, `committed` tokens of whole canvases, `gap` the
    tokens counted beyond ours.
    """

    readings: int
    steps: int | None
    committed: int | None
    gap: int | None
