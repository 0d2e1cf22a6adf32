"""Percentiles of a sample of the large ledger for measurements are near those of all its turns."""

from pathlib import Path

import pytest

from bot.db.readonly import open_readonly
from bot.db.usage.usage_sums import Scope
from bot.usage import queries
from bot.usage.queries import load_report
from bot.usage.report import ReportQuery, UsageReport
from tests.support.large_ledger import fill_database

CALLS = 600
EVERYTHING = Scope()
SAMPLED_TURNS = 100  # of some 190


async def build_report(file: Path, scope: Scope = EVERYTHING) -> UsageReport:
    url = f"sqlite+aiosqlite:///{file}"
    async with open_readonly(url) as database, database.read_transaction() as tx:
        return await load_report(tx, ReportQuery(scope))


@pytest.mark.parametrize("scope", [EVERYTHING, Scope(thinking=False)])
async def test_percentiles_from_a_sample_are_near_the_exact_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: Scope
):
    file = tmp_path / "crowded.db"
    fill_database(file, CALLS)
    exact = await build_report(file, scope)
    monkeypatch.setattr(queries, "MAX_EXACT_TURNS", 0)
    monkeypatch.setattr(queries, "SAMPLED_TURNS", SAMPLED_TURNS)
    sampled = await build_report(file, scope)
    assert (exact.percentile_method, sampled.percentile_method) == ("exact", "sample")
    assert exact.total.calls == sampled.total.calls
    assert sampled == await build_report(file, scope)
    assert SAMPLED_TURNS * 0.9 < sampled.total.percentiles["whole"].count < SAMPLED_TURNS * 1.1
    assert sampled.total.percentiles["whole"].p50 == pytest.approx(
        exact.total.percentiles["whole"].p50, rel=0.25
    )
