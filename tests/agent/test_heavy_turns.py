"""The model of heavy turns: its features, its weights, and the turns it finds heavy in the training cases."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.heavy_turns.message_features import (
    HEAD_CHARS,
    TAIL_CHARS,
    describe_message,
    describe_previous,
    is_continuation,
    read_message,
)
from bot.agent.heavy_turns.model import (
    HeavyModel,
    explain_heavy,
    explain_light,
    format_model,
    load_model,
    parse_model,
)
from bot.agent.heavy_turns.tool_features import describe_tools, match_message, split_pieces
from bot.agent.heavy_turns.word_classes import load_word_classes, parse_word_classes
from bot.agent.tool_matching.classifier import load_weights
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.agent.tool_matching.stems import split_words
from bot.bench.harness.sample_tools import discover_with_samples
from bot.bench.policies.cases import list_case_files, read_cases
from bot.bench.policies.thinking import JudgedCase, decide_case, score_group
from tests.support.thinking_cases import simulate_reads

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def tool_index() -> ToolIndex:
    return build_index(discover_with_samples())


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("Find the cheapest flight and then email it to Anna", ["find", "compare", "order", "send"]),
        ("Suche einen Zug und schick mir danach die Zeiten", ["find", "join", "send", "order"]),
        ("Такси закажи и потом напиши маме", ["act", "join", "order", "send"]),
        ("搜索最便宜的机票然后发给安娜", ["find", "compare", "order", "send"]),
        ("ابحث عن فندق وارسل النتيجة", ["find", "send", "refer"]),
    ],
)
def test_words_of_many_languages_have_the_same_classes(text: str, classes: list[str]) -> None:
    found = load_word_classes().classify(split_words(text))
    assert [name for name in found if name in set(classes)] == classes


def test_a_list_of_word_classes_has_words_beginnings_and_phrases() -> None:
    classes = parse_word_classes("# a remark\n\nfind: look_up such* find\nplan: find\n")
    assert classes.classify(["look", "up", "suchen", "find", "other"]) == ["find", "find", "find", "plan"]


def test_the_structure_of_a_message_is_described() -> None:
    features = describe_message(read_message("1. read https://a.example\n2. read https://b.example\nwhich?"))
    assert {"two links", "two items", "two lines", "some find"} <= set(features)
    assert "w example" not in features  # the words of a link say nothing


def test_of_a_long_message_the_beginning_and_the_end_are_read() -> None:
    text = f"summarize: {'word ' * 2000} and send it to Anna"
    plain = read_message(text).plain
    assert len(plain) <= HEAD_CHARS + TAIL_CHARS + 1
    assert plain.startswith("summarize")
    assert plain.endswith("Anna")


def test_a_message_is_split_at_punctuation_and_joining_words() -> None:
    assert split_pieces("book a table, then mail Bob and set an alarm") == [
        "book a table",
        "mail Bob",
        "set an alarm",
    ]
    assert split_pieces("what time is it?") == []


def test_tools_that_match_pieces_are_counted(tool_index: ToolIndex) -> None:
    one = describe_tools(match_message("What is the weather in Oslo?", tool_index, load_weights()))
    two = describe_tools(
        match_message("What is the weather in Oslo, and convert 100 EUR to JPY", tool_index, load_weights())
    )
    assert "tools of pieces" not in one
    assert two["second tool of pieces"] > 0.5
    assert two["several pieces with tools"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "and tomorrow?",
        "und in Rom?",
        "et demain ?",
        "а завтра?",
        "那明天呢？",
        "and one for Carl",
        "in Rome?",
    ],
)
def test_what_goes_on_with_the_turn_before_is_a_continuation(text: str) -> None:
    assert is_continuation(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "thanks",
        "really?",
        "also, thanks!",
        "are you sure?",
        "wirklich?",
        "en serio?",
        "ты уверен?",
        "真的吗？",
        "why is that?",
        "And now write me a long poem about the rain in Spain and its people",
    ],
)
def test_thanks_doubts_and_other_requests_are_no_continuation(text: str) -> None:
    assert is_continuation(text) is False


def test_the_turn_before_is_described_only_where_it_used_tools() -> None:
    assert describe_previous("and tomorrow?", has_used_tools=False, was_heavy=False) == {}
    assert describe_previous("and tomorrow?", has_used_tools=True, was_heavy=True) == {
        "after tools": 1,
        "after heavy work": 1,
        "continues": 1,
        "continues heavy work": 1,
    }


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ({"some find": 1.0, "some send": 1.0}, "several steps: find out, send"),
        ({"some find": 1.0, "two links": 1.0}, "several links to read"),
        ({"some compare": 1.0}, "a comparison"),
        ({}, "several things at once"),
    ],
)
def test_reasons_are_plain_words(features: dict[str, float], reason: str) -> None:
    assert explain_heavy(features) == reason
    assert explain_light(["clock", "weather"]) == "one step: clock, weather"


def test_features_without_a_weight_count_nothing() -> None:
    model = HeavyModel({"known": (2.0, -99.0)}, bias=(-1.0, 0.0), threshold=0.5)
    assert model.estimate_chance({"known": 0.5, "strange": 9.0}) == pytest.approx(0.5)


@pytest.mark.parametrize("one_call_weight", [-1e9, 0.0, 1e9])
def test_what_looks_like_one_call_is_less_likely_heavy(one_call_weight: float) -> None:
    model = HeavyModel({"x": (1.0, one_call_weight)}, bias=(0.0, 0.0), threshold=0.5)
    without_one_call = HeavyModel({"x": (1.0, 0.0)}, bias=(0.0, -99.0), threshold=0.5)
    assert 0 < model.estimate_chance({"x": 1.0}) <= without_one_call.estimate_chance({"x": 1.0})


def test_a_model_survives_being_written() -> None:
    model = HeavyModel({"w and then": (0.25, 0.0), "c  a ": (-1.5, 2.0)}, bias=(-2.0, 0.5), threshold=0.6)
    assert parse_model(format_model(model)) == model


def test_the_shipped_weights_are_of_features_that_exist(tool_index: ToolIndex) -> None:
    model = load_model()
    fixed = {name for name in model.weights if not name.startswith(("w ", "c ", "then ", "both ", "first "))}
    text = "1. find a, b and c in Rome, then send it? Read https://a.b and https://b.c!\n2. and 3 'names'"
    matched = match_message(text, tool_index, load_weights())
    features = describe_message(read_message(text)) | describe_tools(matched)
    assert len(fixed & set(features)) > len(fixed) / 3
    assert 0 < model.threshold < 1


@given(st.text(max_size=600))
def test_any_text_has_bounded_features(text: str) -> None:
    features = describe_message(read_message(text))
    assert all(0 <= value <= 6 for value in features.values())
    assert features == describe_message(read_message(text))


def judge_cases(folder: Path) -> list[JudgedCase]:
    cases = [case for path in list_case_files(folder) for case in read_cases(folder, path.name)]
    return [JudgedCase(case, decide_case(case)) for case in cases]


def measure_shares(judged: Iterable[JudgedCase]) -> dict[str, float]:
    """The share of turns that think, by class."""
    score = score_group("all", judged)
    shares = {"heavy": score.heavy, "one call": score.one_call, "chat": score.chat}
    return {label: share.thinks for label, share in shares.items() if share.thinks is not None}


def test_most_heavy_turns_of_the_training_cases_think_and_few_others() -> None:
    shares = measure_shares(judge_cases(FIXTURES / "heavy"))
    assert shares["heavy"] >= 0.94
    assert shares["one call"] <= 0.09
    assert shares["chat"] <= 0.02


def test_most_held_out_heavy_turns_think_and_few_others() -> None:
    """By words alone, and where the endpoint is asked in doubt and right in 80 of 100, which is simulated."""
    judged = judge_cases(FIXTURES / "heavy" / "held_out")
    by_words = measure_shares(judged)
    assert by_words["heavy"] >= 0.71
    assert by_words["one call"] <= 0.155
    assert by_words["chat"] <= 0.075
    with_reads = measure_shares(simulate_reads(judged, 0.8))
    assert with_reads["heavy"] >= 0.8
    assert with_reads["one call"] <= 0.12
    assert with_reads["chat"] <= 0.05
    english = [row for row in judged if row.case.language == "en"]  # alone has fifty heavy turns
    assert measure_shares(simulate_reads(english, 0.8))["heavy"] >= 0.7
