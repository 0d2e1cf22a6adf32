"""Many tools: which stand in a prompt, and what is found of the others."""

import json
from dataclasses import replace

import pytest

from bot.agent.tool_search import (
    FIND_TOOLS,
    MAX_RESULT_CHARS,
    META_TOOL_NAMES,
    NO_MATCH,
    NOT_RUN_DIRECTLY,
    USE_TOOL,
    SearchableTools,
    pick_tools,
    render_found_tools,
    render_tool,
)
from bot.agent.toolbox import Toolbox
from bot.domain import ToolCall
from tests.agent.test_toolbox import CONTEXT
from tests.support.many_tools import make_many_tools
from tools.base import Tool
from tools.builtin.clock import clock
from tools.builtin.notes import recall, remember
from tools.registry import render_definitions

OWN = (clock, recall, remember)
BUDGET = 1000


@pytest.fixture(scope="module")
def shelf() -> SearchableTools:
    return SearchableTools((*make_many_tools(), *OWN))


def count_tokens(searchable: SearchableTools, names: tuple[str, ...]) -> int:
    shown = render_definitions(
        [*(searchable.tools[name] for name in names if name in searchable.tools), *searchable.meta_tools]
    )
    return sum(len(str(one)) for one in shown) // 4


def test_few_tools_all_stand_in_the_prompt_and_nothing_is_searched() -> None:
    few = SearchableTools((*make_many_tools(5), *OWN))
    assert pick_tools(few, ["anything"], ["clock"], BUDGET) == tuple(sorted(few.tools))


def test_of_many_the_doors_and_the_houses_own_stand_there_whatever_is_said(shelf: SearchableTools) -> None:
    assert set(pick_tools(shelf, [], [], BUDGET)) == {*META_TOOL_NAMES, "clock", "recall", "remember"}
    assert pick_tools(shelf, ["hm"], [], BUDGET) == pick_tools(shelf, [], [], BUDGET)


def test_what_the_first_words_fit_stands_there_and_what_was_used_of_late(shelf: SearchableTools) -> None:
    names = pick_tools(
        shelf, ["Please approve invoice 17", "and thanks"], ["count_rota", "gone", FIND_TOOLS], BUDGET
    )
    assert {"approve_invoice", "count_rota", *META_TOOL_NAMES} <= set(names)
    assert "gone" not in names
    assert (
        names
        == tuple(sorted(names))
        == pick_tools(shelf, ["Please approve invoice 17", "and thanks"], ["count_rota"], 1000)
    )
    assert count_tokens(shelf, names) <= BUDGET
    assert len(names) < 20


def test_prompts_with_different_tools_begin_with_the_same_ones(shelf: SearchableTools) -> None:
    there = {**shelf.tools, **{tool.name: tool for tool in shelf.meta_tools}}
    one, other = (
        render_definitions(there[name] for name in pick_tools(shelf, [text], [], BUDGET))
        for text in ("archive a budget", "update the holiday")
    )
    assert one[:5] == other[:5]
    assert [shown["function"]["name"] for shown in one[:5]] == [
        "clock",
        FIND_TOOLS,
        "recall",
        "remember",
        USE_TOOL,
    ]
    assert one[5:] != other[5:]


def test_a_small_budget_is_kept_to_and_the_doors_stand_first(shelf: SearchableTools) -> None:
    used = list(shelf.tools)
    for budget in (150, 300, 700, 2000):
        names = pick_tools(shelf, ["approve the invoice"], used, budget)
        assert set(names) >= META_TOOL_NAMES
        assert count_tokens(shelf, names) <= max(budget, count_tokens(shelf, tuple(META_TOOL_NAMES)))
    assert count_tokens(shelf, pick_tools(shelf, [], used, 2000)) > 1900


def test_a_search_finds_what_a_tool_does_best_first(shelf: SearchableTools) -> None:
    assert shelf.search("approve an invoice")[0].name == "approve_invoice"
    assert shelf.search("delete_customer")[0].name == "delete_customer"
    assert len(shelf.search("something about customers")) == 5
    assert shelf.search("quux") == []


def test_a_search_in_another_language_finds_what_is_named_alike_in_english() -> None:
    others = SearchableTools((replace(clock, source="x"), *make_many_tools()))
    assert [one.name for one in others.search("Wie spät ist es in Tokio?", 1)] == ["clock"]


async def test_the_model_reads_how_what_it_found_is_called(shelf: SearchableTools) -> None:
    box = Toolbox((*OWN, *shelf.meta_tools), shelf)
    call = ToolCall("a", FIND_TOOLS, "{}")
    result = await box.run(call, {"words": "approve an invoice"}, CONTEXT)
    first, *others = result.text.split("\n\n")
    name, takes = first.split("\n")
    assert name == "approve_invoice: Approve a invoice that waits."
    assert json.loads(takes.removeprefix("arguments: "))["required"] == ["number"]
    assert len(others) == 5
    assert USE_TOOL in others[-1]
    assert (await box.run(call, {"words": "quux"}, CONTEXT)).text == NO_MATCH


async def test_the_second_door_runs_nothing_by_itself(shelf: SearchableTools) -> None:
    result = await Toolbox(shelf.meta_tools, shelf).run(ToolCall("a", USE_TOOL, "{}"), {}, CONTEXT)
    assert (result.text, result.outcome) == (NOT_RUN_DIRECTLY, "error")


def make_wide_tool(name: str, characters: int) -> Tool:
    fields = {f"field_{n}": {"type": "string", "description": "x" * 80} for n in range(characters // 130)}
    return replace(make_many_tools(1)[0], name=name, input_schema={"type": "object", "properties": fields})


def test_what_a_search_gives_is_bounded_and_the_rest_is_named() -> None:
    tools = [make_wide_tool(f"wide_{n}", 3500) for n in range(5)]
    text = render_found_tools(tools)
    assert len(text) < MAX_RESULT_CHARS + 200
    assert "wide_1: " in text
    assert "Search for these by name to read how they are called: wide_2, wide_3, wide_4." in text
    assert len(render_tool(make_wide_tool("huge", 100_000))) < 4100


def test_a_toolbox_runs_what_it_does_not_offer_and_holds_messages_against_all(shelf: SearchableTools) -> None:
    box = Toolbox((clock, *shelf.meta_tools), shelf)
    assert box.offered_names == ("clock", FIND_TOOLS, USE_TOOL)
    assert [one["function"]["name"] for one in box.definitions] == ["clock", FIND_TOOLS, USE_TOOL]
    assert len(box.tools) == len(shelf.tools) + 2
    assert box.tool_index is shelf.tool_index
