"""`bench thinking`: its arithmetic, its reading of cases, and one small run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bot.agent.thinking_policy import ThinkingDecision
from bot.agent.tool_matching.index import build_index
from bot.bench.policies import output, thinking
from bot.bench.policies.cases import PolicyCase
from bot.bench.policies.output import PolicyReport
from bot.bench.policies.thinking import (
    JudgedCase,
    ThinkingScore,
    ThinkingShare,
    compute_auc,
)
from bot.cli.main import cli
from bot.errors import QuestionRefused
from tests.bench.policies import thinking_costs
from tests.bench.policies.thinking_costs import PolicyCost, ScriptedTurn
from tests.support.terminal_text import lay_out
from tests.support.thinking_cases import simulate_reads, write_cases

FIXTURES = Path(__file__).parents[2] / "fixtures" / "thinking"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small set of cases."""
    write_cases(tmp_path)
    return tmp_path


numbers = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=12)


@given(numbers, numbers)
def test_auc_is_the_share_of_pairs_in_order(positives: list[float], negatives: list[float]) -> None:
    pairs = [(high > low) + (high == low) / 2 for high in positives for low in negatives]
    assert compute_auc(positives, negatives) == pytest.approx(sum(pairs) / len(pairs))


def test_auc_of_nothing_is_unknown() -> None:
    assert compute_auc([], [1.0]) is None
    assert compute_auc([1.0], []) is None


def test_a_folder_without_cases_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuestionRefused, match="No file of cases"):
        thinking.run_thinking([tmp_path])


def test_a_run_scores_and_measures(folder: Path) -> None:
    progress: list[str] = []
    report = thinking.run_thinking([folder, FIXTURES], progress.append)
    groups = {score.group: score for score in report.scores}
    assert {"simple", "irrelevance", "chatable", "de", "language tr", "together"} <= set(groups)
    assert groups["chatable"].chat.cases == 10
    assert groups["language de"].chat.thinks == 0
    assert groups["simple"].one_call.cases == 10
    assert 0 < report.pace["median"] <= report.pace["longest"]
    assert progress[0].startswith("measuring")


def test_a_judgement_of_the_endpoint_is_simulated_for_cases_in_doubt_alone() -> None:
    heavy = PolicyCase("a", build_index(()), needs_tools=True, source="written", heavy=True)
    chat = replace(heavy, needs_tools=False, heavy=False)
    doubt = ThinkingDecision(
        thinking=False, reason="", heavy_chance=0.5, tool_chance=0.5, tools=(), is_unsure=True
    )
    judged = [JudgedCase(case, doubt) for case in [heavy] * 10 + [chat] * 10]
    sure = [JudgedCase(heavy, replace(doubt, is_unsure=False))] * 10
    read = list(simulate_reads(judged + sure, 0.8))
    assert sum(row.decision.thinking for row in read[:10]) == 8
    assert sum(row.decision.thinking for row in read[10:20]) == 2
    assert read[20:] == sure


async def test_ours_costs_less_than_thinking_always_and_thinks_in_heavy_turns() -> None:
    mix = thinking_costs.SCRIPTED_TURNS[:5]
    costs = {cost.policy: cost for cost in await thinking_costs.measure(mix, (600,))}
    assert costs["always off"].canvases < costs["ours"].canvases < costs["always on"].canvases
    assert costs["ours"].computed < costs["on with tools"].computed
    assert (costs["ours"].useful, costs["ours"].heavy, costs["ours"].turns) == (1, 1, 1)
    assert (costs["always on"].turns, costs["always on"].switches) == (5, 0)


async def test_thinking_that_begins_late_computes_the_prompt_again_and_saves_early_thoughts() -> None:
    mix = thinking_costs.SCRIPTED_TURNS[:5]
    costs = await thinking_costs.measure(mix, (150, 600))
    off, *others = costs
    assert (off.policy, off.thought_tokens, off.pays_from) == ("always off", 0, None)
    [late_short, late_long] = [cost for cost in others if cost.policy == "once it turned out heavy"]
    [early_short, early_long] = [cost for cost in others if cost.policy == "exactly the heavy ones"]
    assert late_short.computed > 1.5 * off.computed
    assert late_long.canvases < early_long.canvases
    assert 0 < (late_short.pays_from or 0) < (late_long.pays_from or 0) < (early_long.pays_from or 0)
    assert (early_short.pays_from or 0) < (late_long.pays_from or 0)


async def test_the_scripted_model_calls_the_tools_of_its_turn() -> None:
    mix = (ScriptedTurn("What time is it?", (("clock", {"zone": "UTC"}),), 10),)
    [off, *others] = await thinking_costs.measure(mix, (150,))
    assert (off.calls, off.turns, off.canvases) == (2, 0, 2)
    assert {cost.pays_from for cost in others} == {None}  # no turn is heavy


NOTHING = ThinkingShare(0, None)
REPORT = PolicyReport(
    thinking.TITLES,
    (
        ThinkingScore("written", ThinkingShare(40, 0.85), NOTHING, ThinkingShare(60, 0.05), 0.97, 0.25),
        ThinkingScore("language de", NOTHING, ThinkingShare(30, 0.1), NOTHING, None, 0.0),
    ),
    (("load", "1.0"),),
    notes=("one decision: 198 µs",),
)


def test_the_tables_show_the_figures() -> None:
    text = lay_out(output.format_lines(REPORT))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "written 85.0 % 40 - 0 5.0 % 60 0.970 25.0 %" in rows
    assert "language de - 0 10.0 % 30 - 0 - 0.0 %" in rows
    assert "one decision: 198 µs" in text
    assert text.endswith("load: 1.0")
    cost = PolicyCost("ours", 57, 14230, 107990, 34, 3, 3, 3, 6, 600, 93.64, 0.175)
    prices = lay_out(thinking_costs.format_lines([cost]))
    assert "ours        600        57            14,230  107,990" in prices
    assert "3 of 3         6     93.6     17.5 %" in prices


def test_json_has_the_same_figures() -> None:
    fields = json.loads(output.format_json(REPORT))
    assert fields["scores"][0]["heavy"] == {"cases": 40, "thinks": 0.85}
    assert fields["conditions"] == {"load": "1.0"}


def test_the_command_prints_json_and_names_what_is_missing(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bench", "thinking", "--data", str(folder), "--json"])
    assert done.exit_code == 0
    scores = {score["group"]: score for score in json.loads(done.stdout)["scores"]}
    assert set(scores) == {"simple", "irrelevance", "chatable", "without doubt", "together"}
    assert scores["together"]["chat"]["cases"] == 20
    assert scores["together"]["heavy"] == {"cases": 0, "thinks": None}
    gone = CliRunner().invoke(cli, ["bench", "thinking", "--data", str(tmp_path / "gone")])
    assert isinstance(gone.exception, QuestionRefused)
