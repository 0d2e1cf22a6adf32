"""The tools of a conversation: kept from its beginning to a cut or a /new, and stored with each turn."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import update

from bot.db.conversations import conversations
from bot.db.engine import Database
from bot.db.tables import lanes, turns
from bot.domain import Usage
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, hang_forever, make_call, make_reply
from tools.base import tool

LONG = "word " * 400  # about 500 tokens
OK = replace(make_reply("ok"), usage=Usage())  # the server counts nothing, so the estimate holds


@tool
async def search(query: str) -> str:
    """Search the web for pages about a topic.

    Args:
        query: What to look for.
    """
    return query


@tool(repeatable=True)
async def dig() -> str:
    """Dig up something."""
    return "clay"


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


async def say(harness: TurnHarness, *texts: str) -> list[list[str]]:
    """Run a turn for each text; returns the tool names its first request offers."""
    for text in texts:
        harness.model.script.append(OK)
        await harness.build_runner().run(await harness.new_request(text))
    return [offered_names(harness, index) for index in range(-len(texts), 0)]


def offered_names(harness: TurnHarness, index: int) -> list[str]:
    return [definition["name"] for definition in harness.model.requests[index].tools]


async def load_stored_tools(harness: TurnHarness) -> Sequence[str] | None:
    """The tool names stored for the lane."""
    async with harness.database.read_transaction() as tx:
        return (await conversations.find(tx, LANE)).tools


async def test_a_conversation_keeps_its_tools_until_it_is_cut(
    database: Database, model: ScriptedModel
) -> None:
    harness = TurnHarness(database, model, (dig,), prompt_budget=2300)
    await say(harness, "hello")
    assert await load_stored_tools(harness) == ("dig",)
    harness.tools = (dig, search)
    offered = await say(harness, *[LONG] * 6)
    assert ["dig"] in offered
    assert offered[-1] == ["dig", "search"]
    assert offered == sorted(offered)
    assert await load_stored_tools(harness) == ("dig", "search")
    assert (await harness.load_rows(turns, "tools"))[-1] == ('["dig", "search"]',)


async def test_a_new_conversation_begins_with_the_current_tools(
    database: Database, model: ScriptedModel
) -> None:
    harness = TurnHarness(database, model, (dig,))
    await say(harness, "hello")
    harness.tools = (dig, search)
    async with database.transaction() as tx:
        await conversations.start_new(tx, LANE)
    assert await load_stored_tools(harness) is None
    assert await say(harness, "hello") == [["dig", "search"]]


async def test_a_conversation_of_an_older_version_keeps_what_it_is_offered_next(
    database: Database, model: ScriptedModel
) -> None:
    harness = TurnHarness(database, model, (dig,))
    await say(harness, "hello")
    async with database.transaction() as tx:
        await tx.execute(update(lanes).values(tools=None, notes="1. kept as it stood"))
    await say(harness, "hello")
    assert await load_stored_tools(harness) == ("dig",)
    assert "kept as it stood" in str(model.requests[-1].messages)


async def test_a_resumed_turn_keeps_the_result_of_a_tool_that_is_gone(
    database: Database, model: ScriptedModel
) -> None:
    harness = TurnHarness(database, model, (dig, search))
    request = await harness.new_request("dig")
    model.script = [make_reply("", make_call("dig"), make_call("nothing", id="b")), hang_forever]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(harness.build_runner().run(request))
        while len(model.requests) < 2:
            model.was_called.clear()
            await model.was_called.wait()
        running.cancel()
    harness.tools = (search,)
    model.script = [make_reply("", make_call("dig", id="c")), make_reply("There was clay.")]
    await harness.build_runner().run(await harness.restart("dig"))
    assert await harness.load_answers() == ["There was clay."]
    assert offered_names(harness, -1) == ["search"]
    before = model.requests[1].messages
    after = model.requests[-1].messages
    assert after[: len(before)] == before
    assert "clay" in [message.text for message in before if message.role == "tool"]
    assert after[-1].text == "dig is not available any more. Say so, and go on without it."
