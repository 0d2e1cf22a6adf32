"""A rule by argument asks for every value that may be meant, whatever type it comes in."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.rule_conditions import has_items, is_met

OVER_100 = {"properties": {"amount": {"type": "number", "exclusiveMinimum": 100}}, "required": ["amount"]}


@pytest.mark.parametrize(
    "amount", [5000, 100.5, "5000", " 5000 ", "5e3", "100.01", "5,000", "$ 5000", "five", "NaN"]
)
@pytest.mark.parametrize("limit", [{"type": "number"}, {"type": ["integer", "number"]}, {}])
def test_a_limit_holds_for_numbers_in_texts_and_for_what_cannot_be_compared(
    amount: Any, limit: dict[str, Any]
):
    condition = {"properties": {"amount": {**limit, "exclusiveMinimum": 100}}, "required": ["amount"]}
    assert is_met(condition, {"amount": amount})


@pytest.mark.parametrize(
    "arguments", [{"amount": 100}, {"amount": "100"}, {"amount": "-5"}, {"amount": [5000]}, {}]
)
def test_what_is_within_the_limit_does_not_ask(arguments: dict[str, Any]):
    assert not is_met(OVER_100, arguments)


@given(st.integers() | st.floats(allow_nan=False), st.integers(-1000, 1000))
def test_a_number_and_its_text_are_judged_alike(amount: float, limit: int):
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        condition = {"properties": {"amount": {"type": "number", keyword: limit}}}
        assert is_met(condition, {"amount": amount}) == is_met(condition, {"amount": json.dumps(amount)})


PROD = ("prod", "Prod", "PROD", " prod\n", "ｐｒｏｄ", "pr\u200bod", "\ufeffprod")


@pytest.mark.parametrize(
    ("condition", "value", "is_asked"),
    [
        ({"const": 5}, "5", True),
        ({"const": "5"}, 5, True),
        ({"const": 5}, "6", False),
        ({"enum": [True, "all"]}, "true", True),
        ({"enum": [True, "all"]}, "some", False),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "perhaps", False),
        ({"type": "null"}, "none", True),
        ({"type": "array"}, "[1]", True),
        ({"type": "array"}, "x", False),
        ({"type": "object", "required": ["amount"]}, '{"amount": 5000}', True),
        ({"type": "object"}, "x", False),
        ({"type": "string"}, 5, True),
        ({"type": "string"}, None, False),
        *(({"const": "prod"}, text, True) for text in PROD),
        *(({"enum": ["PROD", 1]}, text, True) for text in PROD),
        *(({"pattern": "^PROD$"}, text, True) for text in PROD),
        *(({"not": {"const": "prod"}}, text, True) for text in PROD[1:]),
        ({"const": ["Prod"]}, ["prod"], True),
        ({"const": {"env": "Prod"}}, {"env": "prod"}, True),
        ({"contains": {"const": "prod"}}, ["test", "Prod"], True),
        ({"const": 5}, "５", True),
        ({"const": "prod"}, "prod2", False),
        ({"pattern": "^prod$"}, "test", False),
        ({"multipleOf": 5}, "7", False),
        ({"oneOf": [{"type": "number", "minimum": 100}, {"type": "string"}]}, "5000", True),
        ({"not": {"const": "dry"}}, "dry", False),
        ({"not": {"const": "dry"}}, "wet", True),
        ({"not": {"maximum": 100}}, "5", True),  # refused when it is set; what is stored asks
    ],
)
def test_a_value_counts_as_what_it_may_be_meant_as(condition: dict[str, Any], value: Any, is_asked: bool):
    assert is_met({"properties": {"x": condition}, "required": ["x"]}, {"x": value}) == is_asked


def test_a_condition_that_cannot_be_read_is_met():
    assert is_met({"type": 7}, {})
    assert is_met({"properties": {"x": {"$ref": "#/nowhere"}}}, {"x": 1})


def test_a_condition_about_all_entries_of_a_list_is_told_from_one_about_any():
    assert has_items({"properties": {"a": {"items": {"const": 5}}}})
    assert has_items({"anyOf": [{"properties": {"a": {"items": {}}}}]})
    assert not has_items({"properties": {"items": {"contains": {"const": 5}}}, "required": ["items"]})
