"""Whether the model server writes canvases: by the newest counters, else by the newest long calls."""

from typing import Any

import pytest

from bot.canvases import OutputUnit
from bot.db.engine import Database
from bot.db.usage import counter_readings
from bot.db.usage.counter_readings import CounterReading
from tests.support.usage_rows import NOON, UsageRows

DIFFUSION = {"generated_tokens": 9, "committed": 256}
TOKENS = {"generated_tokens": 9, "committed": None}
NO_TOKENS = {"prompt_tokens": 9}  # of an earlier version, or of another server


async def find_output_unit(database: Database) -> OutputUnit:
    async with database.read_transaction() as tx:
        return await counter_readings.find_output_unit(tx)


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ([], True),
        ([{"a": DIFFUSION}], True),
        ([{"a": TOKENS}], False),
        ([{"a": TOKENS, "b": DIFFUSION}], True),
        ([{"a": NO_TOKENS}], True),
        ([{"a": DIFFUSION}, {"a": TOKENS}], False),
        ([{"a": TOKENS}, {}], False),
    ],
)
async def test_the_newest_counters_tell(database: Database, totals: list[Any], expected: bool):
    async with database.transaction() as tx:
        for number, total in enumerate(totals):
            await counter_readings.store(
                tx, CounterReading("http://a", NOON + number, None, total, 0, "first")
            )
    assert (await find_output_unit(database)).has_canvases is expected


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([(300, 290)], False),
        ([(300, 2)], True),
        ([(300, 100)], False),  # several tokens at once, some of them guessed ahead
        ([(5, 5)], True),
        ([(300, 2), (300, 290)], True),
        ([(None, 0), (300, 290)], False),
    ],
)
async def test_without_counters_long_calls_tell(
    database: Database, calls: list[tuple[int | None, int]], expected: bool
):
    ledger = UsageRows(database)
    for tokens, blocks in calls:
        await ledger.add_call(None, completion_tokens=tokens, blocks=blocks)
    assert (await find_output_unit(database)).has_canvases is expected
