"""What strangers say of their tools: whatever it is, what can be used is used and the rest is told."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

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

ANY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}


def server_tool(name: str, schema: dict[str, Any] = ANY_SCHEMA, description: str = "Does it.") -> ServerTool:
    return truncate_tool(ServerTool(name, description, schema, read_only=False, idempotent=False))


async def _ignore_listing(_: object) -> None: ...


def test_names_take_the_form_of_the_house():
    names = {
        "getForecast": "w_get_forecast",
        "list-all.items": "w_list_all_items",
        "Größe": "w_gr_e",
        "A_B": "w_a_b",
    }
    found = build_listing("w", [server_tool(name) for name in names])
    assert {one.remote: one.name for one in found.definitions} == names


def test_names_that_are_none_and_collisions_are_left_out_and_told():
    found = build_listing(
        "w", [server_tool("get"), server_tool("GET"), server_tool("天气"), server_tool("x" * 63)]
    )
    assert [one.name for one in found.definitions] == ["w_get"]
    assert found.warnings == (
        "'GET' is left out: it would be called w_get, as 'get' is",
        "'天气' is left out: no name of at most 64 letters, digits and _ can be made of its own",
        f"'{'x' * 63}' is left out: no name of at most 64 letters, digits and _ can be made of its own",
    )


def test_a_name_is_never_cut_to_one_that_its_server_does_not_know():
    assert build_listing("w", [server_tool("a" + "-" * 300)]).definitions == ()


def test_what_is_too_much_is_cut_or_left_out():
    long = server_tool("long", description="words " * 1000)
    large = server_tool(
        "large", {"type": "object", "properties": {f"a{n}": {"description": "x" * 40} for n in range(999)}}
    )
    found = build_listing("w", [long, large, *(server_tool(f"t{number}") for number in range(MAX_TOOLS))])
    assert (
        len(next(one for one in found.definitions if one.remote == "long").description)
        == MAX_DESCRIPTION_CHARS
    )
    assert len(found.definitions) == MAX_TOOLS - 1
    assert any("'large' is left out: its schema is longer" in one for one in found.warnings)
    assert f"only the first {MAX_TOOLS} tools are used" in found.warnings


def test_a_schema_that_cannot_be_used_takes_no_other_tool_with_it():
    strange = {"type": "object", "properties": {"a": {"$ref": "http://elsewhere.example/schema"}}}
    found = build_listing("w", [server_tool("strange", strange), server_tool("plain")])
    assert "plain" in [one.remote for one in found.definitions]
    assert any("strange" in one for one in found.warnings)


def test_a_tool_without_words_is_given_some():
    assert (
        build_listing("w", [server_tool("get", description=" ")]).definitions[0].description
        == "The tool get of w."
    )


def test_the_argument_that_is_an_address_is_known_by_name_or_format():
    for properties, opens in (
        ({"url": {"type": "string"}}, "url"),
        ({"where": {"type": "string", "format": "uri"}}, "where"),
        ({"a": {"type": "string"}, "uri": {"type": "string"}}, "uri"),
        ({"curl": {"type": "string"}}, None),
    ):
        [one] = build_listing(
            "w", [server_tool("get", {"type": "object", "properties": properties})]
        ).definitions
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
SERVER_TOOLS = st.builds(
    ServerTool,
    st.text(max_size=70),
    st.text(max_size=30),
    SCHEMAS.map(lambda schema: {**schema, "type": "object"}),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SERVER_TOOLS, max_size=4))
def test_wild_tools_become_tools_or_a_report(wild: list[ServerTool]):
    found = build_listing("odd", map(truncate_tool, wild))
    server = McpServerClient("odd", ServerProgram(("true",)), _ignore_listing)
    assert len(found.definitions) <= len(wild)
    for one in found.definitions:
        assert TOOL_NAME_PATTERN.fullmatch(one.name)
        kept = McpToolDefinition(**json.loads(json.dumps(one.as_json())))
        assert kept == one
        tool = server.build_tool(kept)
        assert (tool.changes, tool.rule.ask) == ((False, "never") if one.reads else (True, "always"))
