"""How sure a turn must be that its work is heavy before it thinks, by what a thought costs here. Pure.

A turn that thinks in vain wastes what its thoughts cost, so the threshold grows in proportion to that. It
stays within bounds: where nothing thinks any more, nothing would measure what thinking costs.
"""

from dataclasses import dataclass

from bot.canvases import CANVAS_TOKENS

MIN_THOUGHTS = 12  # fewer say too little about the next ones
USUAL_SECONDS = 2.0  # of a thought, at which the shipped threshold holds: 300 tokens at 1.7 s a canvas
MIN_FACTOR = 0.7  # of the shipped threshold; however short thoughts are, the prompt is computed again
MAX_FACTOR = 1.3  # half of the heavy turns still think
MAX_THRESHOLD = 0.9


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
