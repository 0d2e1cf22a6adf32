"""What a canvas is, and which calls of the model cost some; bot.db.usage.ledger_columns says it in SQL.

The model denoises CANVAS_TOKENS tokens together, so that a reply costs whole canvases. What a reply took is
an estimate from its output tokens: no server tells the number.
"""

from dataclasses import dataclass
from typing import Final

CANVAS_TOKENS: Final = 256
THINKING_CANVASES: Final = 4  # of the longest thought without an answer
MAX_CALL_CANVASES: Final = 12  # of a tool call that was cut before: some 12,000 characters
TYPED_READ_PURPOSES: Final = ("decision", "address")
"""The purposes of calls that read probabilities in one step, and denoise nothing."""


@dataclass(frozen=True, slots=True)
class OutputUnit:
    """What the output of models is counted in for people: canvases, or tokens where the server has none.

    `column`: of the sums of calls.
    """

    has_canvases: bool
    name: str
    column: str

    def convert(self, canvases: int) -> int:
        """An amount of canvases in this unit."""
        return canvases if self.has_canvases else canvases * CANVAS_TOKENS


CANVASES: Final = OutputUnit(True, "canvases", "canvases")
TOKENS: Final = OutputUnit(False, "tokens", "output")


def count_canvases(tokens: int, width: int = CANVAS_TOKENS) -> int:
    """How many canvases of `width` tokens so many output tokens take."""
    return -(-tokens // width)


def costs_canvases(purpose: str) -> bool:
    """Whether calls for this purpose cost canvases."""
    return purpose not in TYPED_READ_PURPOSES
