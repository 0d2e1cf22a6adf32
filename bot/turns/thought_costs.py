"""What a thought costs here, and how sure of heavy work a turn must therefore be before it thinks.

A turn that thinks in vain wastes what its thoughts cost, so the threshold grows in proportion to that. It
stays within bounds: where nothing thinks any more, nothing would measure what thinking costs.
"""

from dataclasses import dataclass

from bot.canvases import CANVAS_TOKENS
from bot.db.transaction import Transaction
from bot.db.usage.thought_sums import sum_recent_thoughts

MIN_THOUGHTS = 12  # fewer say too little about the next ones
USUAL_SECONDS = 2.0  # of a thought, at which the shipped threshold holds: 300 tokens at 1.7 s a canvas
MIN_FACTOR = 0.7  # of the shipped threshold; however short thoughts are, the prompt is computed again
MAX_FACTOR = 1.3  # half of the heavy turns still think
MAX_THRESHOLD = 0.9
REFRESH_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ThoughtCost:
    """What a thought takes in the mean: its tokens, and the endpoint's seconds for a canvas."""

    tokens: float
    canvas_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of a thought; the canvas it ends in holds the answer's beginning as well."""
        return self.tokens / CANVAS_TOKENS * self.canvas_seconds


def measure_thoughts(count: int, tokens: int, canvases: int, seconds: float) -> ThoughtCost | None:
    """The cost by the sums over `count` calls that thought; None: they are too few.

    `tokens` are those of their thoughts, `canvases` and `seconds` those of the whole calls.
    """
    if count < MIN_THOUGHTS or not canvases:
        return None
    return ThoughtCost(tokens / count, seconds / canvases)


def adjust_threshold(threshold: float, cost: ThoughtCost | None) -> float:
    """The threshold at this cost; it stays as it is while the cost is unknown."""
    if cost is None:
        return threshold
    factor = min(max(cost.seconds / USUAL_SECONDS, MIN_FACTOR), MAX_FACTOR)
    return min(threshold * factor, max(threshold, MAX_THRESHOLD))


def explain_cost(chance: float, threshold: float, cost: ThoughtCost | None, *, thinking: bool) -> str | None:
    """Why the cost decided, in plain words; None: at the shipped `threshold` it would be the same.

    `chance`: that the work is heavy. `thinking`: what was decided, for whatever reason.
    """
    is_heavy = chance >= threshold
    if cost is None or thinking == is_heavy or thinking != (chance >= adjust_threshold(threshold, cost)):
        return None
    label = "cheap" if thinking else "slow"
    return f"thinking is {label} here: about {cost.tokens:.0f} tokens, {cost.seconds:.1f} s"


class ThoughtCosts:
    """What a thought costs, as the ledger says; read again from time to time."""

    def __init__(self) -> None:
        self._cost: ThoughtCost | None = None
        self._read_at: float | None = None

    async def load(self, tx: Transaction, now: float) -> ThoughtCost | None:
        """What a thought costs; None: too few calls have thought lately. `now` in epoch seconds."""
        # The clock may have been put back.
        if self._read_at is None or abs(now - self._read_at) >= REFRESH_SECONDS:
            sums = await sum_recent_thoughts(tx)
            self._cost = measure_thoughts(sums.count, sums.tokens, sums.canvases, sums.seconds)
            self._read_at = now
        return self._cost
