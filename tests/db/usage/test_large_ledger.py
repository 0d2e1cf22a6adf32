"""The large ledger that reading is measured on is a sound one: its counted durations tell what its turns do."""

from pathlib import Path

import pytest

from bot.db.readonly import looked_at
from bot.usage import queries as answers
from bot.usage.histogram import ERROR
from bot.usage.queries import answered
from bot.usage.report import Question, Report
from tests.support.large_ledger import fill

CALLS = 600


async def asked(file: Path) -> Report:
    async with looked_at(f"sqlite+aiosqlite:///{file}") as database:
        return await answered(database, Question())


async def test_percentiles_from_counts_are_within_their_error_of_the_exact_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "crowded.db"
    fill(file, CALLS)
    exact = await asked(file)
    monkeypatch.setattr(answers, "EXACT", 0)
    counted = await asked(file)
    assert (exact.method, counted.method) == ("exact", "buckets")
    assert exact.whole.calls == counted.whole.calls
    assert exact.whole.calls is not None
    assert exact.whole.calls.calls == CALLS
    assert set(exact.whole.spreads) == set(counted.whole.spreads)
    for kind, spread in exact.whole.spreads.items():
        other = counted.whole.spreads[kind]
        assert other.count == spread.count
        for share in ("p50", "p95", "p99"):
            assert getattr(other, share) == pytest.approx(getattr(spread, share), rel=ERROR * 1.001)
