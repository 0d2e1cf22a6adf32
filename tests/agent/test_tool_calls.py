"""A call through `use_tool` is the call of the tool it names: judged, repaired, refused and counted as that."""

import json
from typing import Any

import pytest

from bot.agent.tool_calls import CallHistory, CheckedCall, check_call
from bot.agent.tool_search import FIND_TOOLS, USE_TOOL, SearchableTools
from bot.agent.toolbox import Toolbox
from bot.domain import ToolCall, ToolResult
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
    wanted = check_use_tool(**arguments)
    assert isinstance(wanted, CheckedCall)
    assert wanted.call == ToolCall("a", "get_weather", '{"city": "Oslo", "days": 3}')
    assert wanted.arguments == {"city": "Oslo", "days": 3}


def test_a_tool_that_takes_nothing_is_used_with_nothing() -> None:
    for arguments in (
        {"name": "noargs"},
        {"name": "noargs", "arguments": None},
        {"name": "noargs", "arguments": {}},
    ):
        wanted = check_use_tool(**arguments)
        assert isinstance(wanted, CheckedCall)
        assert wanted.call == ToolCall("a", "noargs", "{}")


def test_what_was_found_may_be_called_by_its_own_name() -> None:
    wanted = check_call(make_call("approve_invoice", '{"number": 17}'), TOOLS)
    assert isinstance(wanted, CheckedCall)
    assert wanted.call.name == "approve_invoice"


def test_wrong_arguments_come_back_with_what_the_tool_takes() -> None:
    for arguments in ({}, {"number": "many"}, {"number": 1, "color": "red"}, [1], "[1", "{"):
        refused = check_use_tool(name="approve_invoice", arguments=arguments)
        assert isinstance(refused, ToolResult)
        assert (refused.call.name, refused.outcome) == ("approve_invoice", "refused")
        assert '"number": {"description": "Its number.", "type": "integer"}' in refused.text


def test_a_wrong_name_comes_back_with_the_tools_that_are_called_alike() -> None:
    refused = check_use_tool(name="aprove_invoices", arguments={"number": 17})
    assert isinstance(refused, ToolResult)
    assert refused.call == ToolCall("a", "aprove_invoices", '{"number": 17}')
    assert refused.text.startswith(
        f"There is no tool called aprove_invoices. {FIND_TOOLS} finds those there are."
    )
    assert "approve_invoice: Approve a invoice that waits.\narguments: {" in refused.text
    assert "list_machine" not in refused.text


def test_a_door_does_not_lead_to_itself_but_to_the_search() -> None:
    refused = check_use_tool(name=USE_TOOL, arguments={"name": "noargs"})
    assert isinstance(refused, ToolResult)
    assert "There is no tool called use_tool" in refused.text
    wanted = check_use_tool(name=FIND_TOOLS, arguments={"words": "invoices"})
    assert isinstance(wanted, CheckedCall)
    assert wanted.call.name == FIND_TOOLS


@pytest.mark.parametrize("arguments", ["[", "{}", '{"arguments": {}}', '{"name": null}', '{"name": ["a"]}'])
def test_without_a_name_the_model_reads_what_use_tool_takes(arguments: str) -> None:
    refused = check_call(make_call(USE_TOOL, arguments), TOOLS)
    assert isinstance(refused, ToolResult)
    assert refused.call.name == USE_TOOL
    assert "Name of that tool." in refused.text


def test_the_same_call_is_the_same_by_either_way() -> None:
    made = CallHistory()
    first = check_use_tool(name="noargs", arguments={})
    second = check_call(make_call("noargs"), TOOLS)
    assert [isinstance(one, CheckedCall) for one in made.refuse_repeats([first, second])] == [True, False]
    made.refuse_repeats([second])
    (third,) = made.refuse_repeats([first])
    assert isinstance(third, ToolResult)
    assert third.call.name == "noargs"


def test_where_all_tools_are_offered_there_is_no_such_door() -> None:
    refused = check_call(make_call(USE_TOOL, '{"name": "noargs", "arguments": {}}'), {"noargs": NOARGS})
    assert isinstance(refused, ToolResult)
    assert refused.text == "There is no tool called use_tool. There are: noargs."
