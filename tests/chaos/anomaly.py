"""What a judge finds odd: a breach of a promise, or something that keeps the promises and has a reason."""

from dataclasses import dataclass
from typing import Literal, get_args

BreachKind = Literal[
    "lost",
    "doubled",
    "out of order",
    "half shown",
    "tool repeated",
    "tool without approval",
    "unknown not said",
    "not finished",
    "failed without a cause",
    "answered without request",
    "ended by itself",
    "left behind",
]
ExplainedKind = Literal[
    "unknown, said",
    "unknown, said, had arrived",
    "twice after a doubt",
    "lower after Send again",
    "half shown, said",
    "notice of unknown outcome",
    "status line left",
    "failed, said",
    "set aside, said",
    "refused by Telegram",
]
BREACHES: tuple[BreachKind, ...] = get_args(BreachKind)
EXPLAINED: tuple[ExplainedKind, ...] = get_args(ExplainedKind)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something odd: its kind, the chat (0: all), which message, what was seen, what was near, and why."""

    kind: BreachKind | ExplainedKind
    chat: int
    text: str

    @property
    def is_breach(self) -> bool:
        return self.kind in BREACHES

    def __str__(self) -> str:
        verdict = "BREACH" if self.is_breach else "explained"
        return f"{verdict}: {self.kind}: chat {self.chat}: {self.text}"
