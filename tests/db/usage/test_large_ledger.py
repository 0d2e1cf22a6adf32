"""The large ledger for measurements is consistent: its counted durations agree with its turns."""

from pathlib import Path

import pytest

from bot.db.readonly import open_readonly
from bot.db.usage.usage_sums import Scope
from bot.usage import queries
from bot.usage.histogram import MAX_RELATIVE_ERROR
from bot.usage.queries import load_report
from bot.usage.report import ReportQuery, UsageReport
from tests.support.large_ledger import fill_database

CALLS = 600
EVERYTHING = Scope()
SAMPLED_TURNS = 100  # of some 190


async def build_report(file: Path, scope: Scope = EVERYTHING) -> UsageReport:
    async with open_readonly(f"sqlite+aiosqlite:///{file}") as database:
        return await load_report(database, ReportQuery(scope))


async def test_percentiles_from_counts_and_from_a_sample_are_near_the_exact_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "crowded.db"
    fill_database(file, CALLS)
    exact = await build_report(file)
    monkeypatch.setattr(queries, "MAX_EXACT_TURNS", 0)
    counted = await build_report(file)
    assert (exact.percentile_method, counted.percentile_method) == ("exact", "buckets")
    assert exact.total.calls == counted.total.calls
    assert exact.total.calls is not None
    assert exact.total.calls.calls == CALLS
    assert set(exact.total.percentiles) == set(counted.total.percentiles)
    for kind, exact_values in exact.total.percentiles.items():
        counted_values = counted.total.percentiles[kind]
        assert counted_values.count == exact_values.count
        for share in ("p50", "p95", "p99"):
            expected = pytest.approx(getattr(exact_values, share), rel=MAX_RELATIVE_ERROR * 1.001)
            assert getattr(counted_values, share) == expected

    monkeypatch.undo()
    scope = Scope(thinking=False)
    exact = await build_report(file, scope)
    monkeypatch.setattr(queries, "MAX_EXACT_TURNS", 0)
    monkeypatch.setattr(queries, "SAMPLED_TURNS", SAMPLED_TURNS)
    sampled = await build_report(file, scope)
    assert (exact.percentile_method, sampled.percentile_method) == ("exact", "sample")
    assert sampled == await build_report(file, scope)
    assert SAMPLED_TURNS * 0.9 < sampled.total.percentiles["whole"].count < SAMPLED_TURNS * 1.1
    assert sampled.total.percentiles["whole"].p50 == pytest.approx(
        exact.total.percentiles["whole"].p50, rel=0.25
    )
