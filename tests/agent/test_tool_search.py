"""Many tools: which are offered in a prompt, and how the others are found."""

import json
from dataclasses import replace

import pytest

from bot.agent.tool_search import (
    FIND_TOOLS,
    HOW_TO_USE,
    MAX_FOUND_TOOLS,
    MAX_NAMED_TOOLS,
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
from bot.domain import ToolCall
from bot.tool_registry.toolbox import Toolbox
from tests.support.many_tools import make_many_tools
from tests.tool_registry.test_toolbox import CONTEXT
from tools.base import Tool
from tools.builtin.clock import clock
from tools.builtin.notes import recall, remember
from tools.registry import measure_definition, render_definitions

OWN = (clock, recall, remember)
BUDGET = 1000


@pytest.fixture(scope="module")
def searchable() -> SearchableTools:
    return SearchableTools((*make_many_tools(), *OWN))


def count_tokens(searchable: SearchableTools, names: tuple[str, ...]) -> int:
    definitions = render_definitions(
        [*(searchable.tools[name] for name in names if name in searchable.tools), *searchable.meta_tools]
    )
    return sum(map(measure_definition, definitions)) // 4


def test_few_tools_are_all_offered() -> None:
    few = SearchableTools((*make_many_tools(5), *OWN))
    assert pick_tools(few, ["anything"], ["clock"], BUDGET) == tuple(sorted(few.tools))


def test_of_many_tools_the_meta_tools_and_the_built_in_ones_are_always_offered(
    searchable: SearchableTools,
) -> None:
    assert set(pick_tools(searchable, [], [], BUDGET)) == {*META_TOOL_NAMES, "clock", "recall", "remember"}
    assert pick_tools(searchable, ["hm"], [], BUDGET) == pick_tools(searchable, [], [], BUDGET)


def test_tools_that_match_the_messages_or_were_used_recently_are_offered(searchable: SearchableTools) -> None:
    names = pick_tools(
        searchable, ["Please approve invoice 17", "and thanks"], ["count_rota", "gone", FIND_TOOLS], BUDGET
    )
    assert {"approve_invoice", "count_rota", *META_TOOL_NAMES} <= set(names)
    assert "gone" not in names
    assert (
        names
        == tuple(sorted(names))
        == pick_tools(searchable, ["Please approve invoice 17", "and thanks"], ["count_rota"], 1000)
    )
    assert count_tokens(searchable, names) <= BUDGET
    assert len(names) < 20


def test_prompts_with_different_tools_begin_with_the_same_ones(searchable: SearchableTools) -> None:
    tools = {**searchable.tools, **{tool.name: tool for tool in searchable.meta_tools}}
    first, second = (
        render_definitions(tools[name] for name in pick_tools(searchable, [text], [], BUDGET))
        for text in ("archive a budget", "update the holiday")
    )
    assert first[:5] == second[:5]
    assert [definition["name"] for definition in first[:5]] == [
        "clock",
        FIND_TOOLS,
        "recall",
        "remember",
        USE_TOOL,
    ]
    assert first[5:] != second[5:]


def test_a_small_budget_is_kept_and_the_meta_tools_are_always_offered(searchable: SearchableTools) -> None:
    recent_tools = list(searchable.tools)
    for budget in (150, 300, 700, 2000):
        names = pick_tools(searchable, ["approve the invoice"], recent_tools, budget)
        assert set(names) >= META_TOOL_NAMES
        assert count_tokens(searchable, names) <= max(
            budget, count_tokens(searchable, tuple(META_TOOL_NAMES))
        )
    assert count_tokens(searchable, pick_tools(searchable, [], recent_tools, 2000)) > 1900


def test_a_search_gives_the_best_tool_first(searchable: SearchableTools) -> None:
    assert searchable.search("approve an invoice")[0].name == "approve_invoice"
    assert searchable.search("delete_customer")[0].name == "delete_customer"
    assert len(searchable.search("something about customers")) == 5
    assert searchable.search("quux") == []


def test_a_search_in_another_language_finds_english_tools() -> None:
    searchable = SearchableTools((replace(clock, source="x"), *make_many_tools()))
    assert [tool.name for tool in searchable.search("Wie spät ist es in Tokio?", 1)] == ["clock"]


async def test_a_search_result_says_how_each_tool_is_called(searchable: SearchableTools) -> None:
    box = Toolbox((*OWN, *searchable.meta_tools), searchable)
    call = ToolCall("a", FIND_TOOLS, "{}")
    result = await box.run(call, {"words": "approve an invoice"}, CONTEXT)
    first, *paragraphs = result.text.split("\n\n")
    name, arguments = first.split("\n")
    assert name == "approve_invoice: Approve a invoice that waits."
    assert arguments == "arguments: {number: integer, remark?: string}"
    assert len(paragraphs) == MAX_FOUND_TOOLS
    assert paragraphs[-1].startswith(HOW_TO_USE)
    assert "More tools: " in paragraphs[-1]
    assert (await box.run(call, {"words": "quux"}, CONTEXT)).text == NO_MATCH


def test_a_search_for_names_gives_all_there_is_to_these_tools(searchable: SearchableTools) -> None:
    text = searchable.find("approve_invoice, delete_customer")
    first, second = text.split("\n\n")
    assert first.startswith("approve_invoice: ")
    assert second.startswith("delete_customer: ")
    schema = json.loads(first.partition("arguments: ")[2])
    assert schema["properties"]["number"]["description"] == "Its number."
    assert len(searchable.find(" ".join(searchable.tools))) <= MAX_RESULT_CHARS


def test_the_search_tool_names_the_sources_there_are() -> None:
    tools = [replace(tool, source=source) for tool, source in zip(make_many_tools(3), "bac", strict=True)]
    assert SearchableTools(tools).meta_tools[0].description.endswith("There are tools of: a, b, c.")
    many = [replace(tool, source=f"source_{tool.name}") for tool in make_many_tools()]
    assert len(SearchableTools(many).meta_tools[0].description) < 450
    assert "tools of" not in SearchableTools(OWN).meta_tools[0].description


async def test_use_tool_runs_nothing_by_itself(searchable: SearchableTools) -> None:
    result = await Toolbox(searchable.meta_tools, searchable).run(ToolCall("a", USE_TOOL, "{}"), {}, CONTEXT)
    assert (result.text, result.outcome) == (NOT_RUN_DIRECTLY, "error")


def make_wide_tool(name: str, characters: int) -> Tool:
    fields = {f"field_{n}": {"type": "string", "description": "x" * 80} for n in range(characters // 130)}
    return replace(make_many_tools(1)[0], name=name, input_schema={"type": "object", "properties": fields})


def test_a_search_result_is_bounded_and_names_the_rest() -> None:
    tools = [make_wide_tool(f"wide_{n}", 13_000) for n in range(MAX_NAMED_TOOLS)]
    text = render_found_tools(tools)
    assert len(text) <= MAX_RESULT_CHARS
    assert all(f"wide_{n}: " in text for n in range(MAX_FOUND_TOOLS))
    assert text.endswith(", ".join(f"wide_{n}" for n in range(MAX_FOUND_TOOLS, MAX_NAMED_TOOLS)) + ".")
    assert "field_0?" in text
    assert "…}" in text
    assert len(render_tool(make_wide_tool("huge", 100_000))) <= MAX_RESULT_CHARS


def test_a_toolbox_can_call_and_match_tools_it_does_not_offer(searchable: SearchableTools) -> None:
    box = Toolbox((clock, *searchable.meta_tools), searchable)
    assert box.offered_names == ("clock", FIND_TOOLS, USE_TOOL)
    assert [definition["name"] for definition in box.definitions] == [
        "clock",
        FIND_TOOLS,
        USE_TOOL,
    ]
    assert len(box.tools) == len(searchable.tools) + 2
    assert box.tool_index is searchable.tool_index
