"""What a thought costs is read from the newest calls that thought, and kept in memory."""

from bot.db.engine import Database
from bot.db.usage.thought_sums import MAX_CALLS, MAX_THOUGHTS, ThoughtSums, sum_recent_thoughts
from bot.turns.thought_costs import MIN_THOUGHTS, REFRESH_SECONDS, ThoughtCost, ThoughtCosts
from tests.support.usage_rows import NOON, UsageRows


async def load_sums(database: Database) -> ThoughtSums:
    async with database.read_transaction() as tx:
        return await sum_recent_thoughts(tx)


async def test_calls_that_thought_are_summed_up_and_no_others(database: Database) -> None:
    assert await load_sums(database) == ThoughtSums(0, 0, 0, 0.0)
    ledger = UsageRows(database)
    thought = {"thinking": True, "reasoning_tokens": 100, "completion_tokens": 300}
    await ledger.add_call(1, **thought)
    await ledger.add_call(1, thinking=True, reasoning_tokens=0)  # it answered without a thought
    await ledger.add_call(1, thinking=True, reasoning_tokens=None)
    await ledger.add_call(1, **thought | {"outcome": "failed"})
    await ledger.add_call(1, **thought | {"purpose": "warmup"})
    await ledger.add_call(1, **thought | {"ended_at": None, "outcome": None})
    cut = {"outcome": "cut", "finish_reason": "brake", "completion_tokens": 1024, "reasoning_tokens": None}
    await ledger.add_call(1, thinking=True, **cut)
    assert await load_sums(database) == ThoughtSums(2, 1124, 6, 6.0)


async def test_only_the_newest_thoughts_count(database: Database) -> None:
    ledger = UsageRows(database)
    for tokens in (5000, *[10] * MAX_THOUGHTS):
        await ledger.add_call(1, thinking=True, reasoning_tokens=tokens)
    assert await load_sums(database) == ThoughtSums(
        MAX_THOUGHTS, 10 * MAX_THOUGHTS, 2 * MAX_THOUGHTS, 3.0 * MAX_THOUGHTS
    )
    await ledger.add_call(1, id=10 * MAX_CALLS)
    assert (await load_sums(database)).count == 0


async def test_the_ledger_is_read_again_after_some_minutes(database: Database) -> None:
    ledger = UsageRows(database)
    costs = ThoughtCosts()

    async def load(now: float) -> ThoughtCost | None:
        async with database.read_transaction() as tx:
            return await costs.load(tx, now)

    assert await load(NOON) is None
    for _ in range(MIN_THOUGHTS):
        await ledger.add_call(1, thinking=True, reasoning_tokens=120)
    assert await load(NOON + REFRESH_SECONDS - 1) is None
    assert await load(NOON + REFRESH_SECONDS) == ThoughtCost(120.0, 1.5)
