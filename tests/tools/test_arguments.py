"""Arguments of a call are repaired where the meaning is clear, and refused in one sentence otherwise."""

import json
from enum import Enum
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import Tool, ToolError, tool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(TypedDict):
    x: int
    y: float


@tool
async def draw(
    name: str,
    count: int = 1,
    size: float = 1.0,
    filled: bool = False,
    colour: Colour = Colour.RED,
    at: Point | None = None,
    tags: list[str] | None = None,
    extra: dict[str, Any] | None = None,
) -> str:
    """Draw something.

    Args:
        name: What to draw.
        count: How often.
        size: How big.
        filled: Whether filled.
        colour: Its colour.
        at: Where.
        tags: Words for it.
        extra: Anything.
    """
    return name


@tool
async def rest() -> str:
    """Do nothing."""
    return ""


DEFAULTS = {"count": 1, "size": 1.0, "filled": False, "colour": "red"}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"name": "cat"}, {}),
        ({"name": '"cat"'}, {"name": "cat"}),
        ({"name": "'cat'"}, {"name": "cat"}),
        ({'"name"': '"cat"'}, {"name": "cat"}),
        ({"Name": "cat"}, {"name": "cat"}),
        ({"name": '"a" and "b"'}, {"name": '"a" and "b"'}),
        ({"name": 12}, {"name": "12"}),
        ({"name": True}, {"name": "true"}),
        ({"name": "cat", "count": "3"}, {"count": 3}),
        ({"name": "cat", "count": '"3"'}, {"count": 3}),
        ({"name": "cat", "count": 3.0}, {"count": 3}),
        ({"name": "cat", "count": None}, {}),
        ({"name": "cat", "size": "2.5"}, {"size": 2.5}),
        ({"name": "cat", "size": 2}, {"size": 2}),
        ({"name": "cat", "filled": "True"}, {"filled": True}),
        ({"name": "cat", "filled": '"false"'}, {"filled": False}),
        ({"name": "cat", "colour": "BLUE"}, {"colour": "blue"}),
        ({"name": "cat", "colour": '"blue"'}, {"colour": "blue"}),
        ({"name": "cat", "at": {"x": "1", "y": 2}}, {"at": {"x": 1, "y": 2}}),
        ({"name": "cat", "at": '{"x": 1, "y": 2.5}'}, {"at": {"x": 1, "y": 2.5}}),
        ({"name": "cat", "tags": '["a", 1]'}, {"tags": ["a", "1"]}),
        ({"name": "cat", "extra": {"any": [1]}}, {"extra": {"any": [1]}}),
    ],
)
def test_what_is_clearly_meant_is_repaired(sent, expected):
    assert check_arguments(draw, sent) == {**DEFAULTS, "name": "cat", **expected}


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({}, "draw needs name: What to draw."),
        ({"name": None}, "name of draw must be text, not null."),
        ({"name": ["cat"]}, 'name of draw must be text, not ["cat"].'),
        ({"name": "cat", "count": "three"}, 'count of draw must be a whole number, not "three".'),
        ({"name": "cat", "count": 2.5}, "count of draw must be a whole number, not 2.5."),
        ({"name": "cat", "count": True}, "count of draw must be a whole number, not true."),
        ({"name": "cat", "size": float("nan")}, 'size of draw must be a number, not "nan".'),
        ({"name": "cat", "size": "1e999"}, 'size of draw must be a number, not "1e999".'),
        ({"name": "cat", "size": "true"}, 'size of draw must be a number, not "true".'),
        ({"name": "cat", "filled": "yes"}, 'filled of draw must be true or false, not "yes".'),
        ({"name": "cat", "colour": "pink"}, 'colour of draw must be one of red, blue, not "pink".'),
        ({"name": "cat", "at": {"x": 1}}, "at of draw needs y."),
        ({"name": "cat", "at": {"x": 1, "y": 1, "z": 1}}, "at of draw does not fit: Additional"),
        ({"name": "cat", "at": "here"}, 'at of draw must be an object, not "here".'),
        ({"name": "cat", "tags": "null"}, 'tags of draw must be a list, not "null".'),
        ({"name": "cat", "tags": [["a"]]}, 'tags.0 of draw must be text, not ["a"].'),
        ({"name": "cat", "shape": "round"}, 'draw has no argument "shape"; it takes at, '),
        (["cat"], 'The arguments of draw must be an object, not ["cat"].'),
        ("x" * 500, "xx…."),
    ],
)
def test_a_refusal_names_the_argument_and_what_was_expected(sent, sentence):
    with pytest.raises(ArgumentsRefused) as refused:
        check_arguments(draw, sent)
    expected = sentence.replace("it takes at, ", "it takes name, count")
    assert expected in str(refused.value)
    assert isinstance(refused.value, ToolError)


def test_a_number_beyond_any_float_is_checked_like_another():
    assert check_arguments(draw, {"name": "dot", "count": 10**400})["count"] == 10**400


def test_a_tool_without_arguments_ignores_what_is_sent_along():
    assert check_arguments(rest, {"reason": "none"}) == {}


def test_null_reaches_a_nullable_parameter_that_is_required():
    @tool
    async def move(where: str | None, nullable: int = 0) -> str:
        """Move.

        Args:
            where: Where to; null for home.
            nullable: A parameter that bears the name of a keyword.
        """
        return str(where)

    assert check_arguments(move, {"where": None}) == {"where": None, "nullable": 0}
    assert check_arguments(move, {"where": "null"}) == {"where": None, "nullable": 0}
    with pytest.raises(ArgumentsRefused, match="move needs where: Where to; null for home"):
        check_arguments(move, {})


def test_a_registered_schema_may_accept_more_than_it_names_and_use_other_keywords():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 5}, "any": {}},
        "additionalProperties": True,
    }
    foreign = Tool("foreign", "From elsewhere.", schema, rest.function)
    assert check_arguments(foreign, {"n": "5", "any": [1], "more": "x"}) == {"n": 5, "any": [1], "more": "x"}
    with pytest.raises(ArgumentsRefused, match="n of foreign does not fit: 6 is greater than"):
        check_arguments(foreign, {"n": 6})


def test_arguments_nested_without_end_are_refused():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ArgumentsRefused):
        check_arguments(draw, {"name": deep})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(sorted(draw.input_schema["properties"])) | st.text()


@given(st.dictionaries(NAMES, JSON) | JSON)
def test_any_json_is_either_checked_or_refused_with_a_sentence(sent):
    try:
        arguments = check_arguments(draw, sent)
    except ArgumentsRefused as refused:
        sentence = str(refused)
    else:
        sentence = "The arguments fit."
        assert isinstance(arguments["name"], str)
        assert type(arguments["count"]) is int
        assert arguments["colour"] in ("red", "blue")
    assert 10 < len(sentence) < 500


@given(
    st.fixed_dictionaries(
        {"name": st.text().filter(lambda text: not text.strip().startswith(("'", '"')))},
        optional={"count": st.integers(), "size": st.floats(allow_nan=False, allow_infinity=False)},
    )
)
def test_valid_arguments_are_unchanged_also_when_checked_twice(sent):
    once = check_arguments(draw, sent)
    assert once == {**DEFAULTS, **sent}
    assert check_arguments(draw, json.loads(json.dumps(once))) == once
