"""Tools as strangers describe them: what is usable is used, and the rest is reported."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import TOOL_NAME_PATTERN
from tools.mcp.definitions import (
    MAX_DESCRIPTION_CHARS,
    MAX_TOOLS,
    McpToolDefinition,
    ServerTool,
    build_listing,
    truncate_tool,
)
from tools.mcp.location import ServerProgram
from tools.mcp.server import McpServerClient
from tools.registry import render_definitions

ANY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}


def server_tool(name: str, schema: dict[str, Any] = ANY_SCHEMA, description: str = "Does it.") -> ServerTool:
    return truncate_tool(ServerTool(name, description, schema, read_only=False, idempotent=False))


def test_names_become_valid_tool_names():
    names = {
        "getForecast": "w_get_forecast",
        "list-all.items": "w_list_all_items",
        "Größe": "w_gr_e",
        "A_B": "w_a_b",
    }
    listing = build_listing("w", [server_tool(name) for name in names])
    assert {tool.remote: tool.name for tool in listing.definitions} == names


def test_unusable_and_colliding_names_are_left_out_and_reported():
    listing = build_listing(
        "w", [server_tool("get"), server_tool("GET"), server_tool("天气"), server_tool("x" * 63)]
    )
    assert [definition.name for definition in listing.definitions] == ["w_get"]
    assert listing.warnings == (
        "'GET' is left out: it would be called w_get, as 'get' is",
        "'天气' is left out: no name of at most 64 letters, digits and _ can be made of its own",
        f"'{'x' * 63}' is left out: no name of at most 64 letters, digits and _ can be made of its own",
    )


def test_a_name_that_is_too_long_is_left_out_and_not_cut():
    assert build_listing("w", [server_tool("a" + "-" * 300)]).definitions == ()


def test_long_descriptions_are_cut_and_large_schemas_and_too_many_tools_left_out():
    long = server_tool("long", description="words " * 1000)
    large = server_tool(
        "large", {"type": "object", "properties": {f"a{n}": {"description": "x" * 40} for n in range(999)}}
    )
    listing = build_listing("w", [long, large, *(server_tool(f"t{number}") for number in range(MAX_TOOLS))])
    cut = next(definition for definition in listing.definitions if definition.remote == "long")
    assert len(cut.description) == MAX_DESCRIPTION_CHARS
    assert len(listing.definitions) == MAX_TOOLS - 1
    assert any("'large' is left out: its schema is longer" in warning for warning in listing.warnings)
    assert f"only the first {MAX_TOOLS} tools are used" in listing.warnings


def test_an_unusable_schema_does_not_affect_other_tools():
    strange = {"type": "object", "properties": {"a": {"$ref": "http://elsewhere.example/schema"}}}
    listing = build_listing("w", [server_tool("strange", strange), server_tool("plain")])
    assert "plain" in [definition.remote for definition in listing.definitions]
    assert any("strange" in warning for warning in listing.warnings)


def test_a_tool_without_a_description_gets_one():
    assert (
        build_listing("w", [server_tool("get", description=" ")]).definitions[0].description
        == "The tool get of w."
    )


def test_the_argument_that_is_an_address_is_recognized_by_name_or_format():
    for properties, opens in (
        ({"url": {"type": "string"}}, "url"),
        ({"where": {"type": "string", "format": "uri"}}, "where"),
        ({"a": {"type": "string"}, "uri": {"type": "string"}}, "uri"),
        ({"curl": {"type": "string"}}, None),
    ):
        [definition] = build_listing(
            "w", [server_tool("get", {"type": "object", "properties": properties})]
        ).definitions
        assert definition.opens == opens


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
SERVER_TOOLS = st.builds(
    ServerTool,
    st.text(max_size=70),
    st.text(max_size=30),
    SCHEMAS.map(lambda schema: {**schema, "type": "object"}),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(SERVER_TOOLS, max_size=4))
def test_any_tools_become_definitions_or_warnings(server_tools: list[ServerTool]):
    listing = build_listing("odd", map(truncate_tool, server_tools))
    server = McpServerClient("odd", ServerProgram(("true",)))
    assert len(listing.definitions) <= len(server_tools)
    for definition in listing.definitions:
        assert TOOL_NAME_PATTERN.fullmatch(definition.name)
        restored = McpToolDefinition(**json.loads(json.dumps(definition.as_json())))
        assert restored == definition
        tool = server.build_tool(restored)
        expected = (False, "never") if definition.reads else (True, "always")
        assert (tool.changes, tool.rule.ask) == expected


def test_a_tool_that_only_runs_as_a_task_is_left_out():
    task = replace(server_tool("crawl"), needs_task=True)
    listing = build_listing("w", [task, server_tool("get")])
    assert [definition.name for definition in listing.definitions] == ["w_get"]
    [warning] = listing.warnings
    assert warning.startswith("'crawl' is left out: it runs as a task of its own")


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    loud: bool = False


class Adoption(BaseModel):
    """The arguments of a tool as servers in Python write them."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    price: Decimal
    others: list[Cat | Dog] = []
    counts: dict[str, int] = {}
    age: int | None = None
    note: str = ""


def test_arguments_that_pydantic_describes_are_told_by_kind_and_arrive_with_their_types():
    definition = build_listing("w", [server_tool("adopt", Adoption.model_json_schema())]).definitions[0]
    tool = McpServerClient("w", ServerProgram(("true",))).build_tool(definition)
    parameters = render_definitions([tool])[0]["parameters"]
    assert parameters["required"] == ["pet", "price"]
    for pet in (parameters["properties"]["pet"], parameters["properties"]["others"]["items"]):
        assert pet["properties"]["kind"]["enum"] == ["cat", "dog"]
        assert pet["description"] == "by kind: cat needs lives; dog takes loud"
    sent = {
        "pet": {"kind": "dog", "loud": "true"},
        "price": "5000",
        "others": [{"kind": "cat", "lives": "9"}],
        "counts": {"a": "1"},
        "age": "null",
        "note": "5000",
    }
    assert check_arguments(tool, sent) == {
        "pet": {"kind": "dog", "loud": True},
        "price": 5000,
        "others": [{"kind": "cat", "lives": 9}],
        "counts": {"a": 1},
        "age": None,
        "note": "5000",
    }
    with pytest.raises(ArgumentsRefused, match=r"^pet of w_adopt needs lives"):
        check_arguments(tool, {**sent, "pet": {"kind": "cat"}})
