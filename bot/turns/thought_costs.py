"""Keeps in memory what a thought costs here, as the ledger says, and reads it again from time to time."""

from bot.agent.thinking_threshold import ThoughtCost, measure_thoughts
from bot.db.transaction import Transaction
from bot.db.usage.thought_sums import sum_recent_thoughts

REFRESH_SECONDS = 300.0


class ThoughtCosts:
    """Nearly every turn is told what an earlier one has read."""

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
