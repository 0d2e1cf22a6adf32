"""A message matched against tools: which fits best, and the features the classifier gets."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.tool_matching.classifier import (
    LogisticModel,
    Weights,
    format_weights,
    load_weights,
    parse_weights,
    to_probability,
)
from bot.agent.tool_matching.features import MAX_CHARS, extract_features
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.agent.tool_matching.scores import build_features, match_tools
from tests.support.odd_schemas import odd_values


@dataclass(frozen=True)
class FakeTool:
    name: str
    description: str
    input_schema: dict[str, Any] = field(default_factory=dict)
    thinking: Any = "may"
    source: str = ""


AREA = FakeTool(
    "triangle_area",
    "Work out the area of a triangle.",
    {
        "properties": {
            "base": {"type": "number", "description": "Length of the base."},
            "height": {"type": "number"},
            "unit": {"type": "string", "enum": ["metre", "inch"]},
        },
        "required": ["base", "height", "unit"],
    },
)
FILMS = FakeTool(
    "find_movies",
    "Find movies by actor.",
    {"properties": {"actor": {"type": "string"}}, "required": ["actor"]},
)


@pytest.fixture
def tool_index() -> ToolIndex:
    return build_index([FILMS, AREA])


def compute_features(text: str, tool_index: ToolIndex) -> dict[str, float]:
    message = extract_features(text)
    return build_features(message, match_tools(message, tool_index))


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("area of a triangle with base 3", "triangle_area"),
        ("triangular areas", "triangle_area"),
        ("a film with Audrey Hepburn", "find_movies"),
        ("ein Film mit Audrey Hepburn", "find_movies"),
        ("how many inches", "triangle_area"),
    ],
)
def test_the_best_match_comes_first(tool_index: ToolIndex, text: str, best: str) -> None:
    assert match_tools(extract_features(text), tool_index)[0].tool.name == best


def test_nothing_in_common_scores_zero(tool_index: ToolIndex) -> None:
    features = compute_features("Why do cats purr?", tool_index)
    assert (features["hit"], features["title"], features["about"], features["score"]) == (0, 0, 0, 0)
    assert features["rest"] > 0


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["properties", "required", "type"]), odd_values))
def test_a_schema_of_any_shape_is_matched(schema: dict[str, Any]) -> None:
    tool_index = build_index([FakeTool("anything", "Do anything.", schema), AREA])
    assert match_tools(extract_features("area of a triangle"), tool_index)[0].tool.name == "triangle_area"


def test_required_numbers_are_looked_for(tool_index: ToolIndex) -> None:
    without, with_one, with_both = (
        compute_features(f"triangle area {numbers}", tool_index) for numbers in ("", "3", "3 and 4")
    )
    assert [features["no_number"] for features in (without, with_one, with_both)] == [1, 0, 0]
    assert [features["numbers_given"] for features in (without, with_one, with_both)] == [0, 0.5, 1]


def test_names_and_quotes_count_as_values(tool_index: ToolIndex) -> None:
    assert compute_features("movies with Bogart", tool_index)["names_given"] == 1
    assert compute_features('movies with "bogart"', tool_index)["names_given"] == 1
    assert compute_features("movies with someone", tool_index)["no_name"] == 1


def test_a_choice_of_a_tool_is_seen(tool_index: ToolIndex) -> None:
    assert compute_features("triangle area in inches", tool_index)["choice"] == 1


def test_words_that_all_tools_have_count_less() -> None:
    tool_index = build_index([FakeTool("lamp_red", "Red lamp."), FakeTool("lamp_blue", "Blue lamp.")])
    assert tool_index.rarity["lamp"] < tool_index.rarity["blu"]


def test_a_hint_counts_only_where_a_tool_has_its_word(tool_index: ToolIndex) -> None:
    assert compute_features("https://example.org", tool_index)["hit"] == 0
    assert (
        compute_features(
            "https://example.org", build_index([FakeTool("read_page", "Read a web page by its url.")])
        )["hit"]
        > 0
    )


def test_a_message_that_is_not_english_has_no_sentence_features() -> None:
    message = extract_features("Wie wird das Wetter?")
    assert (message.sentence_features, message.is_english, message.is_readable) == ({}, False, True)


def test_only_the_beginning_of_a_long_message_is_read() -> None:
    assert "umbrella" not in extract_features("x " * MAX_CHARS + "umbrella").stems


def test_the_lower_of_the_two_models_counts() -> None:
    good = LogisticModel(3.0, {})
    bad = LogisticModel(-3.0, {})
    assert (
        Weights(good, bad, 0.5, 0.5).tool_chance({})
        == Weights(bad, good, 0.5, 0.5).tool_chance({})
        == to_probability(-3.0)
    )


def test_a_feature_that_is_missing_counts_as_its_mean() -> None:
    judgement = LogisticModel(1.0, {"here": (2.0, 0.5), "gone": (9.0, 9.0)})
    assert judgement.compute_logit({"here": 4.0, "strange": 7.0}) == 2.0


def test_weights_survive_being_written() -> None:
    assert parse_weights(format_weights(load_weights())) == load_weights()


def test_english_and_other_languages_have_their_own_thresholds() -> None:
    weights = Weights(LogisticModel(0, {}), LogisticModel(0, {}), 0.5, 0.25)
    assert (weights.threshold_for(True), weights.threshold_for(False)) == (0.5, 0.25)


@pytest.mark.parametrize("logit", [-1e9, 1e9])
def test_extremes_stay_probabilities(logit: float) -> None:
    assert 0 < to_probability(logit) < 1
