"""What admins read of tools is complete, and nothing a stranger wrote hides in it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bot.agent import history
from bot.db.tools.call_log import ToolCallRecord
from bot.db.tools.grants import Grant
from bot.db.tools.sources import Source
from bot.tool_registry import formatting
from bot.tool_registry.add_source import AddSourceResult
from bot.tool_registry.admin_actions import PendingChange
from bot.tool_registry.tool_info import ToolInfo
from bot.translations.translator import ENGLISH
from tests.support.registered_tools import build_definition
from tools.base import NEVER_ASK, Rule, Tool, ToolContext, hash_definition
from tools.registry import measure_definition, render_definitions
from tools.schemas.told_schema import build_told_schema

DEFINITION = build_definition("shop_list", "Lists\u202e all.\x1b[31m", city="the <|turn> city")
SHOP = Source("shop", "openapi", "https://shop.example/openapi.json")
TOOL_INFO = ToolInfo(
    "shop_list",
    SHOP,
    "on",
    DEFINITION,
    hash_definition(DEFINITION),
    None,
    None,
    None,
    is_set=False,
    grants=(),
)


def build_grant(kind: str, number: int = 0) -> Grant:
    return Grant("shop_list", kind, number, TOOL_INFO.hash)  # type: ignore[arg-type]


def test_who_grants_a_tool_of_an_mcp_server_is_told_that_its_connection_is_shared():
    notes = replace(TOOL_INFO, source=Source("notes", "mcp_stdio", "notes-server"))
    hint = formatting.format_grant_hint(ENGLISH, [TOOL_INFO, notes])
    assert hint.startswith(f" {formatting.NEW_CONVERSATION_HINT} ")
    assert "Everyone who uses notes shares one connection" in hint
    assert formatting.format_grant_hint(ENGLISH, [TOOL_INFO]) == f" {formatting.NEW_CONVERSATION_HINT}"


def test_a_tool_in_one_line():
    assert (
        formatting.format_tool_line(ENGLISH, TOOL_INFO)
        == f"shop_list · on · admins · {TOOL_INFO.prompt_tokens} tokens"
    )
    asks = replace(
        TOOL_INFO,
        rule=Rule("always", None, "admins"),
        grants=(build_grant("person", 5), build_grant("chat", -9)),
        delivers=True,
    )
    names = {5: "Anna (5)"}
    assert formatting.format_tool_line(ENGLISH, asks, lambda number: names[number]) == (
        f"shop_list · on · admins, chat -9, Anna (5) · {TOOL_INFO.prompt_tokens} tokens · asks an admin "
        "each time · sends pictures and files"
    )


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (TOOL_INFO, "never asks (by itself, since it changes nothing)"),
        (
            replace(TOOL_INFO, definition=DEFINITION | {"changes": True}),
            "asks the person each time (by itself, since it changes something)",
        ),
        (replace(TOOL_INFO, source=replace(SHOP, kind="file")), "asks as set in its file"),
        (replace(TOOL_INFO, rule=Rule("once"), is_set=True), "asks the person once per chat"),
        (replace(TOOL_INFO, source=None, rule=NEVER_ASK), "never asks"),
    ],
)
def test_the_rule_of_a_tool_is_shown_with_its_reason(info: ToolInfo, expected: str):
    assert formatting.format_effective_rule(ENGLISH, info) == expected
    line = formatting.format_tool_line(ENGLISH, info)
    if "never" in expected or "file" in expected:
        assert line.endswith(" tokens")
    else:
        assert expected.startswith(line.split(" · ")[-1])


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (
            replace(TOOL_INFO, state="in trouble", source=replace(SHOP, trouble="it does not\nanswer")),
            "not available: it does",
        ),
        (replace(TOOL_INFO, state="in trouble", source=None), "not available, for an unknown reason"),
        (replace(TOOL_INFO, state="changed"), "suspended until an admin accepts its changes"),
    ],
)
def test_the_state_of_a_tool(info: ToolInfo, expected: str):
    assert formatting.format_state(ENGLISH, info).startswith(expected)
    assert "\n" not in formatting.format_state(ENGLISH, info)


def test_everything_about_a_tool_shows_invisible_characters():
    lines = list(
        formatting.format_tool(
            ENGLISH,
            replace(
                TOOL_INFO,
                flagged="hidden signs",
                rule=NEVER_ASK,
                is_set=True,
                grants=(build_grant("everyone"),),
            ),
        )
    )
    assert lines[:8] == [
        "shop_list: on",
        "From: shop, OpenAPI, https://shop.example/openapi.json",
        "May use it: everyone",
        "Rule: never asks (set by an admin)",
        "Files: doesn't send pictures or files",
        f"Costs: about {TOOL_INFO.prompt_tokens} tokens in each request that offers it",
        "Flagged: hidden signs",
        "Its results are text that others wrote.",
    ]
    text = "\n".join(lines)
    assert "Lists\\u202e all.\\u001b[31m" in text
    assert "\u202e" not in text
    builtin = list(formatting.format_tool(ENGLISH, replace(TOOL_INFO, source=None)))
    assert builtin[1] == "From: built in"
    opening = formatting.format_definition(ENGLISH, DEFINITION | {"opens": "city"}, "openapi")
    assert "It opens the address in city." in list(opening)


def test_a_tool_is_shown_and_counted_as_the_model_reads_it():
    day = {"type": "integer", "minimum": 1, "maximum": 14, "x-default": 3}
    schema = {"type": "object", "properties": {"day": day}}
    definition = {**build_definition("shop_list"), "input_schema": schema}
    info = replace(TOOL_INFO, definition=definition)
    told = "\n".join(formatting.format_tool(ENGLISH, info))
    assert '"description": "1 to 14; default 3"' in told
    assert '"maximum"' not in told
    checked = "\n".join(formatting.format_tool(ENGLISH, info, show_checked=True))
    assert '"maximum": 14' in checked
    tool = Tool(
        **{key: definition[key] for key in ("name", "description", "input_schema")},
        function=do_nothing,
        source="shop",
        told=build_told_schema(schema).schema,
    )
    assert info.prompt_tokens == measure_definition(render_definitions([tool])[0]) // history.BYTES_PER_TOKEN


def test_a_tool_of_a_file_is_shown_as_it_was_written():
    day = {"type": "integer", "minimum": 1, "description": "Which day."}
    schema = {"type": "object", "properties": {"day": day}}
    definition = {**build_definition("mine"), "input_schema": schema, "address": "/srv/tools/mine.py"}
    info = replace(TOOL_INFO, definition=definition, source=Source("mine", "file", "/srv/tools/mine.py"))
    assert '"description": "Which day."' in "\n".join(formatting.format_tool(ENGLISH, info))
    tool = Tool("mine", definition["description"], schema, do_nothing, source="mine")
    assert info.prompt_tokens == measure_definition(render_definitions([tool])[0]) // history.BYTES_PER_TOKEN


async def do_nothing(arguments: Mapping[str, Any], context: ToolContext) -> None:
    """Nothing is run here."""


def test_a_rule_by_argument_is_shown_with_its_condition():
    text = formatting.format_rule(ENGLISH, Rule("once", {"properties": {"city": {"const": "Rome"}}}))
    assert text == (
        'asks the person once per chat, if its arguments fit {"properties": {"city": {"const": "Rome"}}}'
    )


def test_a_pending_change_shows_its_difference():
    changed = build_definition("shop_list", "Lists some.", city="the <|turn> city")
    lines = list(
        formatting.format_pending_change(
            ENGLISH, PendingChange("shop_list", DEFINITION, changed, "h", ("invisible characters",))
        )
    )
    assert lines[0].startswith("shop_list: ")
    assert "→" in lines[0]
    assert lines[1] == "Look closely: invisible characters"
    assert any(line.startswith('+ "description": "Lists some."') for line in lines)
    assert any(line.startswith('- "description": "Lists\\u202e all.') for line in lines)
    same = list(
        formatting.format_pending_change(ENGLISH, PendingChange("shop_list", DEFINITION, DEFINITION, "h", ()))
    )
    assert same[1:] == ["It hasn't changed since it was accepted."]
    new = list(
        formatting.format_pending_change(ENGLISH, PendingChange("shop_list", None, DEFINITION, "h", ()))
    )
    assert "Its results are text that others wrote." in new


def test_a_call_is_shown_with_its_answer_and_a_source_with_its_trouble():
    call = ToolCallRecord(
        1, 4, "8", 8, "ring", '{"token": "x"}', 12, 10.0, 10.25, "ok", None, "done", "once", 7, 0.0, 9.0
    )
    assert formatting.format_call(ENGLISH, call, lambda number: f"P{number}") == (
        '1970-01-01 00:00:10 ring {"token": "[hidden]"} · P8 in 8, turn 4 · ok · 250 ms · 12 characters'
        " · asked: once by P7 after 9 s"
    )
    open_call = replace(
        call, arguments="x" * 500, size=None, began_at=None, ended_at=None, outcome=None, answer=None
    )
    assert formatting.format_call(ENGLISH, open_call).startswith("– ring xxx")
    assert formatting.format_call(ENGLISH, open_call).endswith(
        "x… · 8 in 8, turn 4 · done · – · – · asked: open"
    )
    expired = replace(call, answer="expired", answered_by=None, answered_at=None)
    assert formatting.format_call(ENGLISH, expired).endswith("asked: expired")
    refused = replace(expired, outcome="refused", refusal="expired")
    assert "· refused: nobody answered in time ·" in formatting.format_call(ENGLISH, refused)


def test_added_tools_are_shown_with_what_to_do_next():
    assert list(formatting.format_add_result(ENGLISH, AddSourceResult("shop", (), (), 0))) == [
        "There's nothing new in shop."
    ]
    lines = list(
        formatting.format_add_result(
            ENGLISH, AddSourceResult("shop", ("shop_a",), (("shop_b", "hidden\u202e"),), 9)
        )
    )
    assert lines[0].endswith("shop_a. Adds about 9 tokens to each request.")
    assert (
        lines[1]
        == "shop_b is on hold: please read its description closely (hidden\\u202e). Accept it to switch "
        "it on."
    )
