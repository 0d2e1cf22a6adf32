"""What strangers say of their tools: whatever it is, what can be used is used and the rest is told."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tools.base import NAME
from tools.mcp.definitions import DESCRIPTION, TOOLS, Definition, Told, bounded, listing
from tools.mcp.location import Program
from tools.mcp.server import Server

ANY: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}


def told(name: str, schema: dict[str, Any] = ANY, description: str = "Does it.") -> Told:
    return bounded(Told(name, description, schema, read_only=False, idempotent=False))


async def _changed(_: object) -> None: ...


def test_names_take_the_form_of_the_house():
    names = {
        "getForecast": "w_get_forecast",
        "list-all.items": "w_list_all_items",
        "Größe": "w_gr_e",
        "A_B": "w_a_b",
    }
    found = listing("w", [told(name) for name in names])
    assert {one.remote: one.name for one in found.definitions} == names


def test_names_that_are_none_and_collisions_are_left_out_and_told():
    found = listing("w", [told("get"), told("GET"), told("天气"), told("x" * 63)])
    assert [one.name for one in found.definitions] == ["w_get"]
    assert found.reported == (
        "'GET' is left out: it would be called w_get, as 'get' is",
        "'天气' is left out: no name of at most 64 letters, digits and _ can be made of its own",
        f"'{'x' * 63}' is left out: no name of at most 64 letters, digits and _ can be made of its own",
    )


def test_a_name_is_never_cut_to_one_that_its_server_does_not_know():
    assert listing("w", [told("a" + "-" * 300)]).definitions == ()


def test_what_is_too_much_is_cut_or_left_out():
    long = told("long", description="words " * 1000)
    large = told(
        "large", {"type": "object", "properties": {f"a{n}": {"description": "x" * 40} for n in range(999)}}
    )
    found = listing("w", [long, large, *(told(f"t{number}") for number in range(TOOLS))])
    assert len(next(one for one in found.definitions if one.remote == "long").description) == DESCRIPTION
    assert len(found.definitions) == TOOLS - 1
    assert any("'large' is left out: its schema is longer" in one for one in found.reported)
    assert f"only the first {TOOLS} tools are used" in found.reported


def test_a_schema_that_cannot_be_used_takes_no_other_tool_with_it():
    strange = {"type": "object", "properties": {"a": {"$ref": "http://elsewhere.example/schema"}}}
    found = listing("w", [told("strange", strange), told("plain")])
    assert "plain" in [one.remote for one in found.definitions]
    assert any("strange" in one for one in found.reported)


def test_a_tool_without_words_is_given_some():
    assert listing("w", [told("get", description=" ")]).definitions[0].description == "The tool get of w."


def test_the_argument_that_is_an_address_is_known_by_name_or_format():
    for properties, opens in (
        ({"url": {"type": "string"}}, "url"),
        ({"where": {"type": "string", "format": "uri"}}, "where"),
        ({"a": {"type": "string"}, "uri": {"type": "string"}}, "uri"),
        ({"curl": {"type": "string"}}, None),
    ):
        [one] = listing("w", [told("get", {"type": "object", "properties": properties})]).definitions
        assert one.opens == opens


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "anyOf", "$ref", "$defs", "format", "url"]
)
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    KEYS | st.text(max_size=6),
    st.deferred(lambda: JSON | SCHEMAS | st.sampled_from(["object", "string", "#/$defs/a", "array"])),
    max_size=5,
)
TOLD = st.builds(
    Told,
    st.text(max_size=70),
    st.text(max_size=30),
    SCHEMAS.map(lambda schema: {**schema, "type": "object"}),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TOLD, max_size=4))
def test_wild_tools_become_tools_or_a_report(wild: list[Told]):
    found = listing("odd", map(bounded, wild))
    server = Server("odd", Program(("true",)), _changed)
    assert len(found.definitions) <= len(wild)
    for one in found.definitions:
        assert NAME.fullmatch(one.name)
        kept = Definition(**json.loads(json.dumps(one.as_json())))
        assert kept == one
        tool = server.tool(kept)
        assert (tool.changes, tool.rule.ask) == ((False, "never") if one.reads else (True, "always"))
