"""`bench prefill`: the caches it compares, the report it prints, and the bounds the shipped history keeps."""

import json

import pytest
from typer.testing import CliRunner

from bot.bench.policies.cache_meter import CacheMeter
from bot.bench.policies.chat_styles import STYLES, write_conversation
from bot.bench.policies.output import format_json, format_lines
from bot.bench.policies.prefill import PrefillOptions, run_prefill
from bot.cli.main import cli
from tests.support.terminal_text import lay_out

BLOCK = "word " * 16  # of 32 tokens: a word and the blank behind it, as the simulator's rule counts them


@pytest.fixture(scope="module")
def meter() -> CacheMeter:
    """Three prompts: two part after two blocks, and the third has the same two and more."""
    meter = CacheMeter()
    for ending in ("1 a b c", "2 d e f", "3 g h i"):
        meter.add(BLOCK * 2 + ending * 20, "")
    return meter


def test_the_least_is_what_a_cache_that_forgets_nothing_would_compute(meter: CacheMeter):
    assert meter.least < meter.computed < meter.prompt
    assert meter.least_to_the_token <= meter.least
    assert meter.dense_computed == meter.least


def test_the_output_is_served_again_only_by_a_dense_cache():
    meter = CacheMeter()
    for prompt in ("go", "go" + " on" * 200):
        meter.add(prompt, " on" * 200)
    assert meter.computed == meter.least == meter.prompt
    assert meter.dense_computed < meter.computed


def test_what_warms_the_caches_up_is_not_counted():
    meter = CacheMeter()
    assert meter.add(BLOCK * 4, "", is_counted=False) == meter.add(BLOCK * 4, "")
    assert meter.calls == 1
    assert meter.computed < meter.prompt


@pytest.mark.parametrize("style", STYLES)
def test_a_conversation_is_the_same_for_the_same_seed_and_each_turn_has_a_fact_of_its_own(style: str):
    turns = write_conversation(STYLES[style], 30, 1)
    assert turns == write_conversation(STYLES[style], 30, 1)
    assert all((turn.fact in turn.text) != (turn.fact in turn.answer) for turn in turns)
    assert len({turn.fact for turn in turns}) == 30


def test_the_shipped_history_keeps_its_bounds():
    styles = {name: STYLES[name] for name in ("tool loops, thinking",)}
    report = run_prefill(PrefillOptions(turns=20), styles=styles)
    assert report.holds
    for score in report.scores:
        assert score.dense_computed <= score.computed <= score.prompt
        assert score.recall[1] == 1
        assert score.cuts > 0
    lines = lay_out(format_lines(report)).splitlines()
    assert len(lines) == 1 + len(styles) + 1 + len(report.conditions)
    assert json.loads(format_json(report))["holds"] is True


def test_the_command_refuses_conversations_without_a_tenth_turn():
    result = CliRunner().invoke(cli, ["bench", "prefill", "--turns", "3"])
    assert result.exit_code == 2
