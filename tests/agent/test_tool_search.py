"""Many tools: which stand in a prompt, and what is found of the others."""

import json
from dataclasses import replace

import pytest

from bot.agent.tool_search import DOORS, FIND, NOT_ALONE, NOTHING, ROOM, USE, Shelf, described, listed, picked
from bot.agent.toolbox import Toolbox
from bot.domain import ToolCall
from tests.agent.test_toolbox import CONTEXT
from tests.support.many_tools import many
from tools.base import Tool
from tools.builtin.clock import clock
from tools.builtin.notes import recall, remember
from tools.registry import definitions

OWN = (clock, recall, remember)
BUDGET = 1000


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return Shelf((*many(), *OWN))


def tokens(shelf: Shelf, names: tuple[str, ...]) -> int:
    shown = definitions([*(shelf.tools[name] for name in names if name in shelf.tools), *shelf.doors])
    return sum(len(str(one)) for one in shown) // 4


def test_few_tools_all_stand_in_the_prompt_and_nothing_is_searched() -> None:
    few = Shelf((*many(5), *OWN))
    assert picked(few, ["anything"], ["clock"], BUDGET) == tuple(sorted(few.tools))


def test_of_many_the_doors_and_the_houses_own_stand_there_whatever_is_said(shelf: Shelf) -> None:
    assert set(picked(shelf, [], [], BUDGET)) == {*DOORS, "clock", "recall", "remember"}
    assert picked(shelf, ["hm"], [], BUDGET) == picked(shelf, [], [], BUDGET)


def test_what_the_first_words_fit_stands_there_and_what_was_used_of_late(shelf: Shelf) -> None:
    names = picked(shelf, ["Please approve invoice 17", "and thanks"], ["count_rota", "gone", FIND], BUDGET)
    assert {"approve_invoice", "count_rota", *DOORS} <= set(names)
    assert "gone" not in names
    assert (
        names
        == tuple(sorted(names))
        == picked(shelf, ["Please approve invoice 17", "and thanks"], ["count_rota"], 1000)
    )
    assert tokens(shelf, names) <= BUDGET
    assert len(names) < 20


def test_prompts_with_different_tools_begin_with_the_same_ones(shelf: Shelf) -> None:
    there = {**shelf.tools, **{tool.name: tool for tool in shelf.doors}}
    one, other = (
        definitions(there[name] for name in picked(shelf, [text], [], BUDGET))
        for text in ("archive a budget", "update the holiday")
    )
    assert one[:5] == other[:5]
    assert [shown["function"]["name"] for shown in one[:5]] == ["clock", FIND, "recall", "remember", USE]
    assert one[5:] != other[5:]


def test_a_small_budget_is_kept_to_and_the_doors_stand_first(shelf: Shelf) -> None:
    used = list(shelf.tools)
    for budget in (150, 300, 700, 2000):
        names = picked(shelf, ["approve the invoice"], used, budget)
        assert set(names) >= DOORS
        assert tokens(shelf, names) <= max(budget, tokens(shelf, tuple(DOORS)))
    assert tokens(shelf, picked(shelf, [], used, 2000)) > 1900


def test_a_search_finds_what_a_tool_does_best_first(shelf: Shelf) -> None:
    assert shelf.find("approve an invoice")[0].name == "approve_invoice"
    assert shelf.find("delete_customer")[0].name == "delete_customer"
    assert len(shelf.find("something about customers")) == 5
    assert shelf.find("quux") == []


def test_a_search_in_another_language_finds_what_is_named_alike_in_english() -> None:
    others = Shelf((replace(clock, source="x"), *many()))
    assert [one.name for one in others.find("Wie spät ist es in Tokio?", 1)] == ["clock"]


async def test_the_model_reads_how_what_it_found_is_called(shelf: Shelf) -> None:
    box = Toolbox((*OWN, *shelf.doors), shelf)
    call = ToolCall("a", FIND, "{}")
    result = await box.run(call, {"words": "approve an invoice"}, CONTEXT)
    first, *others = result.text.split("\n\n")
    name, takes = first.split("\n")
    assert name == "approve_invoice: Approve a invoice that waits."
    assert json.loads(takes.removeprefix("arguments: "))["required"] == ["number"]
    assert len(others) == 5
    assert USE in others[-1]
    assert (await box.run(call, {"words": "quux"}, CONTEXT)).text == NOTHING


async def test_the_second_door_runs_nothing_by_itself(shelf: Shelf) -> None:
    result = await Toolbox(shelf.doors, shelf).run(ToolCall("a", USE, "{}"), {}, CONTEXT)
    assert (result.text, result.outcome) == (NOT_ALONE, "error")


def wide(name: str, characters: int) -> Tool:
    fields = {f"field_{n}": {"type": "string", "description": "x" * 80} for n in range(characters // 130)}
    return replace(many(1)[0], name=name, input_schema={"type": "object", "properties": fields})


def test_what_a_search_gives_is_bounded_and_the_rest_is_named() -> None:
    tools = [wide(f"wide_{n}", 3500) for n in range(5)]
    text = listed(tools)
    assert len(text) < ROOM + 200
    assert "wide_1: " in text
    assert "Search for these by name to read how they are called: wide_2, wide_3, wide_4." in text
    assert len(described(wide("huge", 100_000))) < 4100


def test_a_toolbox_runs_what_it_does_not_offer_and_holds_messages_against_all(shelf: Shelf) -> None:
    box = Toolbox((clock, *shelf.doors), shelf)
    assert box.offered == ("clock", FIND, USE)
    assert [one["function"]["name"] for one in box.definitions] == ["clock", FIND, USE]
    assert len(box.tools) == len(shelf.tools) + 2
    assert box.offer is shelf.offer
