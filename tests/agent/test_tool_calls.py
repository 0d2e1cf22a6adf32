"""A call through `use_tool` is handled as a call of the tool it names."""

import json
from typing import Any

import pytest

from bot.agent.tool_calls import CallHistory, CheckedCall, check_call
from bot.agent.tool_search import FIND_TOOLS, USE_TOOL, SearchableTools
from bot.domain import ToolCall, ToolResult
from bot.tool_registry.toolbox import Toolbox
from tests.support.many_tools import make_many_tools
from tests.support.offered_tools import NOARGS, WEATHER, make_call

SEARCHABLE = SearchableTools([*make_many_tools(), WEATHER, NOARGS])
TOOLS = Toolbox(SEARCHABLE.meta_tools, SEARCHABLE).tools


def check_use_tool(**arguments: Any) -> CheckedCall | ToolResult:
    return check_call(make_call(USE_TOOL, json.dumps(arguments), id="a"), TOOLS)


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}},
        {"name": "get_weather", "arguments": '{"city": "Oslo", "days": "3"}'},
        {"name": "call:Get-Weather", "arguments": {"City": '"Oslo"', "days": 3.0}},
        {"name": "get_weather", "city": "Oslo", "days": 3},
    ],
)
def test_it_runs_as_the_tool_it_names_with_checked_arguments(arguments: dict[str, Any]) -> None:
    checked = check_use_tool(**arguments)
    assert isinstance(checked, CheckedCall)
    assert checked.call == ToolCall("a", "get_weather", '{"city": "Oslo", "days": 3}')
    assert checked.arguments == {"city": "Oslo", "days": 3}


def test_a_tool_without_arguments_is_called_without_any() -> None:
    for arguments in (
        {"name": "noargs"},
        {"name": "noargs", "arguments": None},
        {"name": "noargs", "arguments": {}},
    ):
        checked = check_use_tool(**arguments)
        assert isinstance(checked, CheckedCall)
        assert checked.call == ToolCall("a", "noargs", "{}")


def test_a_found_tool_may_be_called_by_its_own_name() -> None:
    checked = check_call(make_call("approve_invoice", '{"number": 17}'), TOOLS)
    assert isinstance(checked, CheckedCall)
    assert checked.call.name == "approve_invoice"


def test_wrong_arguments_are_refused_with_the_schema_of_the_tool() -> None:
    for arguments in ({}, {"number": "many"}, {"number": 1, "color": "red"}, [1], "[1", "{"):
        refused = check_use_tool(name="approve_invoice", arguments=arguments)
        assert isinstance(refused, ToolResult)
        assert (refused.call.name, refused.refusal) == ("approve_invoice", "arguments")
        assert '"number": {"description": "Its number.", "type": "integer"}' in refused.text


def test_a_wrong_name_is_refused_with_the_tools_of_similar_names() -> None:
    refused = check_use_tool(name="aprove_invoices", arguments={"number": 17})
    assert isinstance(refused, ToolResult)
    assert refused.call == ToolCall("a", "aprove_invoices", '{"number": 17}')
    assert refused.text.startswith(
        f"There is no tool called aprove_invoices. {FIND_TOOLS} finds those there are."
    )
    assert "approve_invoice: Approve a invoice that waits.\narguments: {" in refused.text
    assert "list_machine" not in refused.text


def test_use_tool_cannot_call_itself_but_can_call_find_tools() -> None:
    refused = check_use_tool(name=USE_TOOL, arguments={"name": "noargs"})
    assert isinstance(refused, ToolResult)
    assert "There is no tool called use_tool" in refused.text
    checked = check_use_tool(name=FIND_TOOLS, arguments={"words": "invoices"})
    assert isinstance(checked, CheckedCall)
    assert checked.call.name == FIND_TOOLS


@pytest.mark.parametrize("arguments", ["[", "{}", '{"arguments": {}}', '{"name": null}', '{"name": ["a"]}'])
def test_without_a_name_the_refusal_shows_the_schema_of_use_tool(arguments: str) -> None:
    refused = check_call(make_call(USE_TOOL, arguments), TOOLS)
    assert isinstance(refused, ToolResult)
    assert refused.call.name == USE_TOOL
    assert "Name of that tool." in refused.text


def test_a_call_through_use_tool_and_a_direct_one_count_as_the_same() -> None:
    history = CallHistory()
    first = check_use_tool(name="noargs", arguments={})
    second = check_call(make_call("noargs"), TOOLS)
    assert [isinstance(result, CheckedCall) for result in history.refuse_repeats([first, second])] == [
        True,
        False,
    ]
    history.refuse_repeats([second])
    (third,) = history.refuse_repeats([first])
    assert isinstance(third, ToolResult)
    assert third.call.name == "noargs"


def test_if_all_tools_are_offered_there_is_no_use_tool() -> None:
    refused = check_call(make_call(USE_TOOL, '{"name": "noargs", "arguments": {}}'), {"noargs": NOARGS})
    assert isinstance(refused, ToolResult)
    assert refused.text == "There is no tool called use_tool. There are: noargs."
