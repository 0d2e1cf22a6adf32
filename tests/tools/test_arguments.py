"""Arguments of a call are repaired where the meaning is clear, and refused in one sentence otherwise."""

import asyncio
import json
from enum import Enum
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import Tool, ToolError, run_tool, tool


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
        ({"name": "cat", "at": {"x": 1, "y": 1, "z": 1}}, 'at of draw has no argument "z"; it takes x, y.'),
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


CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}, "zip": {"type": "string"}},
    "required": ["kind", "lives"],
    "additionalProperties": {"not": {}},
}
DOG = {
    "type": "object",
    "properties": {"kind": {"const": "dog"}, "loud": {"type": "boolean"}},
    "required": ["kind", "loud"],
}
PET = {"oneOf": [CAT, DOG]}
NUMBER_OR_TEXT = {"anyOf": [{"type": "number"}, {"type": "string"}]}


def make_foreign(schema: object, **more: object) -> Tool:
    """A registered tool with the one argument x."""
    arguments = {"type": "object", "properties": {"x": schema}, **more}
    return Tool("foreign", "From elsewhere.", arguments, rest.function)


@pytest.mark.parametrize(
    ("schema", "sent", "expected"),
    [
        (PET, {"kind": "cat", "lives": "9"}, {"kind": "cat", "lives": 9}),
        (PET, {"kind": "dog", "loud": "true"}, {"kind": "dog", "loud": True}),
        (PET, {"kind": "Cat", "lives": "9", "zip": "01234"}, {"kind": "cat", "lives": 9, "zip": "01234"}),
        (PET, '{"kind": "cat", "lives": 9}', {"kind": "cat", "lives": 9}),
        ({"anyOf": [{"type": "string"}, CAT, DOG]}, {"kind": "dog", "loud": "false"},
         {"kind": "dog", "loud": False}),
        ({"type": "array", "items": PET}, [{"kind": "cat", "lives": "9"}], [{"kind": "cat", "lives": 9}]),
        ({"additionalProperties": {"type": "integer"}}, {"a": "1", "b": 2}, {"a": 1, "b": 2}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"zip": "90210"}, {"zip": "90210"}),
        ({"type": "object", "patternProperties": {"^n": {"type": "number"}}}, {"n1": "2.5"}, {"n1": 2.5}),
        ({"additionalProperties": {"type": "array", "items": {"type": "boolean"}}}, {"a": ["true"]},
         {"a": [True]}),
        (NUMBER_OR_TEXT, "5000", 5000),
        (NUMBER_OR_TEXT, "0049", "0049"),
        (NUMBER_OR_TEXT, "+49", "+49"),
        (NUMBER_OR_TEXT, "12:30", "12:30"),
        (NUMBER_OR_TEXT, 5000, 5000),
        ({"type": ["string", "integer"]}, "17", 17),
        ({"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "true", True),
        ({"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "on", "on"),
        ({"anyOf": [{"type": "boolean"}, {"enum": ["auto"]}]}, "AUTO", "auto"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}, ["1"], [1]),
        ({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}, 5, "5"),
        ({"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]}, ["1", "2"], [1, 2]),
        ({"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]}, ["1", "x"], ["1", "x"]),
        ({"properties": {"note ": {"type": "string"}}}, {"note": "a"}, {"note ": "a"}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}], "nullable": True}, "null", None),
        ({"enum": [1, 2, None]}, "2", 2),
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, 5, "5"),
        ({"format": "date"}, "2026", "2026"),
        ({"type": "object"}, {"n": "5", "on": "true", "is": "on", "none": "null", "price": "2.5"},
         {"n": 5, "on": True, "is": "on", "none": None, "price": 2.5}),
        ({"type": "object"}, {"zip": "01234", "phone": "+4930123", "version": "1.10", "id": "1" * 16},
         {"zip": "01234", "phone": "+4930123", "version": "1.10", "id": "1" * 16}),
        ({"type": "object"}, {"a": {"b": ["1", "x", {"c": "-2"}]}}, {"a": {"b": [1, "x", {"c": -2}]}}),
        ({"type": "object"}, {"n": "٣", "e": "1e5", "hex": "0x1", "blank": " 5"},
         {"n": "٣", "e": "1e5", "hex": "0x1", "blank": " 5"}),
        ({}, "5", 5),
        ({"properties": {"any": {}}, "additionalProperties": {"not": {}}}, {"any": "5"}, {"any": 5}),
        ({"items": {}}, ["5"], [5]),
        ({"type": "string", "nullable": True}, None, None),
    ],
)  # fmt: skip
def test_values_arrive_with_their_type_where_the_endpoint_wrote_texts(schema, sent, expected):
    arrived = check_arguments(make_foreign(schema), {"x": sent})["x"]
    assert json.dumps(arrived) == json.dumps(expected)
    assert check_arguments(make_foreign(schema), {"x": arrived})["x"] == expected


MANY = [f"temperature_{number}m" for number in range(100)]


@pytest.mark.parametrize(
    ("schema", "sent", "sentence"),
    [
        (PET, {"kind": "cat", "lives": "nine"}, 'x.lives of foreign must be a whole number, not "nine".'),
        (PET, {"kind": "cat"}, "x of foreign needs lives."),
        (PET, {"kind": "dog", "loud": "very"}, 'x.loud of foreign must be true or false, not "very".'),
        (PET, {"kind": "bird"}, 'x.kind of foreign must be one of cat, dog, not "bird".'),
        (PET, {"lives": 9}, "x of foreign needs kind: one of cat, dog."),
        (PET, {"kind": "cat", "lives": 9, "loud": True},
         'x of foreign has no argument "loud"; it takes kind, lives, zip.'),
        ({**PET, "nullable": True}, {"kind": "cat"}, "x of foreign needs lives."),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["all"]}]}, "some",
         'x of foreign must be either a whole number (at least 1), or "all", not "some".'),
        ({"type": ["integer", "boolean"]}, "x",
         'x of foreign must be a whole number or true or false, not "x".'),
        ({"enum": MANY}, "temperature_7",
         'x of foreign must be one of 100 choices, not "temperature_7"; near it: temperature_7m, '),
        ({"items": {"enum": MANY}}, ["?"],
         "x.0 of foreign must be one of 100 choices, such as temperature_0m, temperature_1m, "),
        ({"const": ""}, "a", 'x of foreign must be one of "", not "a".'),
        ({"type": "integer", "maximum": 5}, 6, "x of foreign does not fit: 6 is greater than"),
    ],
)  # fmt: skip
def test_a_refusal_is_short_and_gives_the_reason_of_what_was_meant(schema, sent, sentence):
    with pytest.raises(ArgumentsRefused) as refused:
        check_arguments(make_foreign(schema), {"x": sent})
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value)) < 250


def test_what_is_required_and_has_a_default_is_filled_in():
    schema = {
        "type": "object",
        "properties": {
            "scale": {"enum": ["css", "device"], "x-default": "css"},
            "full": {"type": "boolean", "x-default": False},
        },
        "required": ["scale"],
    }
    tool = Tool("shoot", "Take a picture.", schema, rest.function)
    assert check_arguments(tool, {}) == {"scale": "css"}
    assert check_arguments(tool, {"scale": "device", "full": "true"}) == {"scale": "device", "full": True}
    assert check_arguments(make_foreign(schema), {"x": {}}) == {"x": {"scale": "css"}}


def test_an_argument_that_is_made_up_is_dropped_where_there_are_none_else_refused_in_plain_words():
    closed: dict[str, Any] = {"not": {}}
    nothing = Tool(
        "ping", "Ping.", {"type": "object", "properties": {}, "additionalProperties": closed}, rest.function
    )
    assert check_arguments(nothing, {"x": "1"}) == {}
    with pytest.raises(ArgumentsRefused, match=r'^foreign has no argument "y"; it takes x\.$'):
        check_arguments(make_foreign({"type": "string"}, additionalProperties=closed), {"y": 1})
    wide = {f"field_{number}": {"type": "string"} for number in range(50)}
    tool = Tool("wide", "Takes much.", {"type": "object", "properties": wide}, rest.function)
    with pytest.raises(ArgumentsRefused, match=r'no argument "fild_7"; it takes field_7, .* and 47 more\.$'):
        check_arguments(tool, {"fild_7": "a"})


def test_an_object_of_texts_keeps_them_in_a_python_tool():
    @tool
    async def label(texts: dict[str, str], counts: dict[str, int]) -> str:
        """Label.

        Args:
            texts: Texts by name.
            counts: Numbers by name.
        """
        return json.dumps([texts, counts])

    arguments = check_arguments(label, {"texts": {"zip": "90210", "is": "true"}, "counts": {"a": "1"}})
    text = asyncio.run(run_tool(label, arguments, None)).text  # type: ignore[arg-type]
    assert json.loads(text) == [{"zip": "90210", "is": "true"}, {"a": 1}]


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
