"""The large ledger and the soak, in small: rows are as the gateway writes them, and errors are counted."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.bench.harness.figures import Figure, limit_to
from tests.bench.harness.stage import AnswerTimes
from tests.bench.harness.workload import ProseBrain
from tests.bench.load import large_ledger, soak
from tests.bench.load.run import LoadOptions, run_load
from tests.bench.load.soak import ResourceSample, SoakAnswer, SoakRun
from tests.support.breakdown_clock import KINDS

UNMEASURED = f"abs(whole - ({' + '.join(KINDS)})) > 0.001"


def test_a_ledger_is_filled_with_ended_turns(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "ledger.db"
    large_ledger.fill_database(file, 400)
    with closing(sqlite3.connect(file)) as connection:
        counts = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in (
                "turns",
                "model_calls",
                "messages",
                "inbox",
                "outbox",
                "accounts",
                "tool_calls",
                "approvals",
            )
        }
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        calls = connection.execute("SELECT turn, count(*) FROM model_calls GROUP BY turn").fetchall()
        waiting = connection.execute("SELECT count(*) FROM inbox WHERE state != 'done'").fetchone()[0]
        newest = connection.execute("SELECT max(conversation) FROM turns").fetchone()[0]
        gaps = connection.execute(f"SELECT count(*) FROM accounts WHERE {UNMEASURED}").fetchone()[0]
        current = connection.execute("SELECT min(conversation) FROM lanes").fetchone()[0]
    assert counts == {
        "turns": 100,
        "model_calls": 400,
        "messages": 200,
        "inbox": 100,
        "outbox": 100,
        "accounts": 100,
        "tool_calls": 200,
        "approvals": 6,
    }
    assert gaps == 0
    assert calls == [(turn, 4) for turn in range(1, 101)]
    assert waiting == 0
    assert newest < current


@pytest.mark.usefixtures("forked_bots")
async def test_both_ledgers_are_measured_alternately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_ledger, "CHATS", 2)
    options = LoadOptions(messages=5, only_sections=("ledger",), folder=tmp_path, ledger_calls=400)
    report = await run_load(options, print, asyncio.Event())
    rows = {figure.row.key: figure.row for figure in report.figures}
    assert all(isinstance(row.values["ours"], float) and row.values["ours"] > 0 for row in rows.values()), (
        rows
    )
    assert rows["ledger_slower"].limit == limit_to(1.1)
    summed = rows["ledger_report"]
    assert (summed.label, summed.unit) == ("report of 400 calls", "s")
    assert summed.limit == limit_to(2)
    assert rows["ledger_full"].label == "ledger of 400 calls: own time, p50"
    assert "ledger" in dict(report.conditions)


def test_the_ratio_of_the_large_ledger_to_the_empty_one() -> None:
    times = {
        "empty": [AnswerTimes(0.0, 0.0, 0.010, 0.0)] * 3,
        "full": [AnswerTimes(0.0, 0.0, 0.012, 0.0)] * 3,
    }
    rows = {row.key: row for row in large_ledger.build_rows(times, {"empty": 2.0, "full": 2.1}, 1_000_000)}
    assert rows["ledger_cpu"].values["ours"] == pytest.approx(1.05)
    unknown = large_ledger.build_rows(times, {"empty": 0.0, "full": 0.0}, 1_000_000)
    assert unknown[-1].values["ours"] is None
    assert rows["ledger_slower"].values["ours"] == pytest.approx(1.2)
    assert Figure((rows["ledger_slower"],)).verdict == "missed"


@pytest.mark.usefixtures("forked_bots")
async def test_a_soak_counts_the_answers_to_every_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "LOST_SECONDS", 300.0)
    report = await soak.run_soak(0.02, asyncio.Event(), folder=tmp_path)
    values = {figure.row.key: figure.get_value("ours") for figure in report.figures}
    assert (values["soak_answers"] or 0) >= soak.CHATS
    assert (values["soak_lost"], values["soak_copies"], values["soak_order"]) == (0, 0, 0)
    conditions = dict(report.conditions)
    for name in ("memory, MiB", "open descriptors", "threads"):
        assert int(conditions[name].split(" · ")[0]) > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("forked_bots")
async def test_a_soak_that_is_stopped_tells_what_it_saw(tmp_path: Path) -> None:
    stop = asyncio.Event()
    stop.set()
    report = await soak.run_soak(30, stop, folder=tmp_path)
    assert not report.is_complete
    assert report.figures[0].get_value("ours") == 0


@pytest.mark.usefixtures("forked_bots")
async def test_a_message_without_an_answer_is_lost_and_the_next_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "LOST_SECONDS", 0.5)
    monkeypatch.setattr(soak, "CHATS", 1)
    monkeypatch.setattr(ProseBrain, "__call__", lambda self, request: "I would rather not say.")
    report = await soak.run_soak(0.001, asyncio.Event(), folder=tmp_path)
    figures = {figure.row.key: figure for figure in report.figures}
    assert figures["soak_lost"].get_value("ours") == 1
    assert figures["soak_lost"].verdict == "missed"
    assert figures["soak_last_p50"].get_value("ours") is None


def test_lost_repeated_and_disordered_answers_are_counted() -> None:
    run = SoakRun(
        question_numbers={0: [1, 2, 3], 1: [11, 12, 13]},
        answer_numbers={0: [1, 3], 1: [11, 13, 12, 12]},
        answers=[SoakAnswer(1.0, 0.2), SoakAnswer(59.0, 0.4)],
        seconds=60.0,
    )
    values = {row.key: row.values["ours"] for row in soak.build_rows(run)}
    assert (values["soak_lost"], values["soak_copies"], values["soak_order"]) == (1, 1, 1)
    assert [values["soak_first_p50"], values["soak_last_p50"]] == pytest.approx([200, 400])


def test_what_the_process_holds_is_compared_after_the_warm_up() -> None:
    samples = [ResourceSample(10.0, 500.0, 900, 90)]  # it does not count: the run is warming up
    samples += [ResourceSample(60.0 * n, 100.0 + n / 10, 20 + n % 2, 5) for n in range(5, 31)]
    rows = {row.key: row for row in soak.build_resource_rows(samples, 300)}
    values = [rows[f"soak_{key}"].values["ours"] for key in ("memory", "descriptors", "threads")]
    assert values == pytest.approx([100.5, 20, 5])
    growth = {key: rows[f"soak_{key}_growth"] for key in ("memory", "descriptors", "threads")}
    assert [row.values["ours"] for row in growth.values()] == pytest.approx([2.1, 0, 0])
    assert [Figure((row,)).verdict for row in growth.values()] == ["missed", "ok", "ok"]


def test_the_curve_names_a_few_moments() -> None:
    run = SoakRun(samples=[ResourceSample(60.0 * n, 100.0 + n, 20, None) for n in range(1, 13)])
    assert list(soak.describe_curve(run)) == [
        ("curve, min", "2.0 · 4.0 · 6.0 · 8.0 · 10.0 · 12.0"),
        ("memory, MiB", "102 · 104 · 106 · 108 · 110 · 112"),
        ("open descriptors", "20 · 20 · 20 · 20 · 20 · 20"),
        ("threads", "- · - · - · - · - · -"),
    ]
