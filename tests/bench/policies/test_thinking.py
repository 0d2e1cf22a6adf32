"""`bench thinking`: its arithmetic, its reading of cases, its training, and one small run."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bot.__main__ import cli
from bot.agent.tool_matching.classifier import parse_weights
from bot.bench.harness.bots import BenchFailed
from bot.bench.policies import output as thinking_table
from bot.bench.policies import thinking, thinking_costs
from bot.bench.policies.cases import assign_folds, read_cases
from bot.bench.policies.thinking import (
    DecisionTimes,
    ThinkingOptions,
    ThinkingReport,
    ThinkingScore,
    compute_auc,
)
from bot.bench.policies.thinking_costs import PolicyCost, ScriptedTurn
from bot.bench.policies.trainer import (
    TrainingSample,
    find_threshold,
    fit_logistic_model,
    predict_out_of_fold,
    train_weights,
)
from bot.errors import QuestionRefused

FIXTURES = Path(__file__).parents[2] / "fixtures" / "thinking"

SUBJECTS = ("lamp", "door", "kettle", "radio", "blind", "heater", "camera", "oven", "fan", "bell")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small set of cases: for each subject one that fits, one that almost does, one that is about something
    else.
    """
    tools = {
        f"switch_{one}": {
            "name": f"switch_{one}",
            "description": f"Turn the {one} on or off.",
            "parameters": {
                "type": "object",
                "properties": {"minutes": {"type": "number"}},
                "required": ["minutes"],
            },
        }
        for one in SUBJECTS
    }
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    cases = []
    for number, one in enumerate(SUBJECTS):
        offered = [f"switch_{SUBJECTS[(number + step) % 10]}" for step in range(3)]
        for text, needs, source in (
            (f"Turn the {one} off in {number + 2} minutes", True, "simple"),
            (f"Who made the first {one}?", False, "irrelevance"),
            (f"Turn the page of book {number}", False, "chatable"),
        ):
            cases.append({"text": text, "tools": offered, "needs_tools": needs, "source": source})
    (tmp_path / "cases.jsonl").write_text(
        "".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8"
    )
    return tmp_path


numbers = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=12)


@given(numbers, numbers)
def test_auc_is_the_share_of_pairs_in_order(wanted: list[float], others: list[float]) -> None:
    pairs = [(one > other) + (one == other) / 2 for one in wanted for other in others]
    assert compute_auc(wanted, others) == pytest.approx(sum(pairs) / len(pairs))


def test_auc_of_nothing_is_unknown() -> None:
    assert compute_auc([], [1.0]) is None
    assert compute_auc([1.0], []) is None


def test_folds_never_part_what_belongs_together() -> None:
    keys = [str(number % 7) for number in range(50)]
    found = assign_folds(keys)
    assert len({(key, fold) for key, fold in zip(keys, found, strict=True)}) == 7
    assert set(found) == set(range(5))
    assert assign_folds(keys) == found


@pytest.mark.parametrize(
    ("cases", "tools"),
    [
        ("{", "{}"),
        ('{"text": "a"}', "{}"),
        ('{"text":"a","tools":["x"],"needs_tools":true,"source":"s"}', "{}"),
        ("", "[]"),
    ],
)
def test_what_is_no_set_of_cases_is_named(tmp_path: Path, cases: str, tools: str) -> None:
    (tmp_path / "cases.jsonl").write_text(cases, encoding="utf-8")
    (tmp_path / "tools.json").write_text(tools, encoding="utf-8")
    with pytest.raises(BenchFailed, match="does not hold"):
        read_cases(tmp_path)


async def test_a_folder_without_cases_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuestionRefused, match="No cases"):
        await thinking.run_thinking(ThinkingOptions((tmp_path,)))


def test_training_finds_the_feature_that_tells() -> None:
    dice = random.Random(1)
    samples = [
        TrainingSample(
            {"tells": float(needs) + dice.gauss(0, 0.2), "noise": dice.random(), "same": 1.0}, needs, "simple"
        )
        for needs in (True, False) * 40
    ]
    found = fit_logistic_model(samples)
    assert found.features["tells"][1] > 2 * abs(found.features["noise"][1])
    assert "same" not in found.features
    assert fit_logistic_model(samples) == found


def test_left_out_cases_are_told_apart_and_the_threshold_keeps_its_recall() -> None:
    sources = ("simple", "chatable", "simple", "irrelevance")
    samples = [
        TrainingSample({"a": float(one == "simple") + number % 3 / 10}, one == "simple", one)
        for number, one in enumerate(sources * 20)
    ]
    chances = predict_out_of_fold(samples, assign_folds([str(number) for number in range(len(samples))]))
    needs = [one.needs_tools for one in samples]
    least = find_threshold(chances, needs)
    kept = [chance >= least for chance, wanted in zip(chances, needs, strict=True) if wanted]
    assert sum(kept) / len(kept) >= 0.95
    assert max(chance for chance, wanted in zip(chances, needs, strict=True) if not wanted) < least
    assert train_weights(samples) == train_weights(samples)


def test_a_threshold_of_nothing_is_even() -> None:
    assert find_threshold([], []) == 0.5


async def test_a_run_trains_judges_and_measures(folder: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    weights = tmp_path / "weights.json"
    report = await thinking.run_thinking(
        ThinkingOptions((folder, FIXTURES), weights_file=weights, include_costs=False), heard.append
    )
    assert {one.judged for one in report.told} == {"shipped", "folds by text", "folds by tool"}
    assert {"simple", "irrelevance", "chatable", "de", "zh"} <= {one.source for one in report.told}
    assert 0 < report.pace.median <= report.pace.longest
    assert parse_weights(weights.read_text(encoding="utf-8")).non_english_threshold == 0.25
    assert heard[0].startswith("training")
    assert report.costs == ()


async def test_ours_costs_less_than_thinking_always_and_thinks_about_what_is_heavy() -> None:
    mix = tuple(scene for number, scene in enumerate(thinking_costs.SCRIPTED_TURNS) if number < 5)
    costs = {one.policy: one for one in await thinking_costs.measure(mix)}
    assert costs["always off"].canvases < costs["ours"].canvases < costs["always on"].canvases
    assert costs["ours"].computed < costs["on with tools"].computed
    assert (costs["ours"].useful, costs["ours"].heavy, costs["ours"].turns) == (1, 1, 1)
    assert (costs["always on"].turns, costs["always on"].switches) == (5, 0)


async def test_the_scripted_model_calls_the_tools_of_its_scene() -> None:
    mix = (ScriptedTurn("What time is it?", (("clock", {"zone": "UTC"}),), 10),)
    off = (await thinking_costs.measure(mix))[0]
    assert (off.calls, off.turns, off.canvases) == (2, 0, 2)


REPORT = ThinkingReport(
    (
        ThinkingScore("shipped", "chatable", 200, 0.97, None, 0.09, 0.0, 0.005),
        ThinkingScore("shipped", "simple", 400, None, 0.958, None, 0.002),
    ),
    DecisionTimes(198.2, 753.9),
    (PolicyCost("ours", 57, 14230, 107990, 34, 3, 3, 3, 6),),
    (("load", "1.0"),),
)


def test_the_tables_say_what_was_found() -> None:
    told = "\n".join(thinking_table.format_lines(REPORT))
    assert "chatable                shipped    200  0.9700       -         9.0 %    0.0 %   0.5 %" in told
    assert "simple                  shipped    400       -  95.8 %             -    0.2 %       -" in told
    assert "one decision: 198 µs of processor time, 99 of 100 within 754 µs" in told
    assert "ours          57            14,230  107,990     34               3      3 of 3         6" in told
    assert told.endswith("load: 1.0")


def test_machines_are_told_the_same() -> None:
    found = json.loads(thinking_table.format_json(REPORT))
    assert found["told"][0]["auc"] == 0.97
    assert found["costs"][0]["computed"] == 14230
    assert found["conditions"] == {"load": "1.0"}


def test_the_command_prints_json_and_names_what_is_missing(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bench", "thinking", "--data", str(folder), "--no-costs", "--json"])
    assert done.exit_code == 0
    told = {one["source"]: one for one in json.loads(done.stdout)["told"]}
    assert set(told) == {"simple", "irrelevance", "chatable", "together"}
    assert told["together"]["cases"] == sum(
        told[one]["cases"] for one in ("simple", "irrelevance", "chatable")
    )
    assert min(told[one]["auc"] for one in ("irrelevance", "chatable")) <= told["together"]["auc"] <= 1
    assert told["together"]["recall"] == told["simple"]["recall"]
    gone = CliRunner().invoke(cli, ["bench", "thinking", "--data", str(tmp_path / "gone")])
    assert isinstance(gone.exception, QuestionRefused)


async def test_only_sets_to_learn_from_are_trained_on(tmp_path: Path) -> None:
    for name in ("languages.jsonl", "house-tools.json"):
        (tmp_path / name).write_text((FIXTURES / name).read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(BenchFailed, match="trained on"):
        await thinking.run_thinking(
            ThinkingOptions((tmp_path,), weights_file=tmp_path / "weights.json", include_costs=False)
        )


async def test_a_mix_can_be_played_beside_the_cases(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def short() -> list[PolicyCost]:
        return list(REPORT.costs)

    monkeypatch.setattr(thinking_costs, "measure", short)
    assert (await thinking.run_thinking(ThinkingOptions((folder,)))).costs == REPORT.costs
