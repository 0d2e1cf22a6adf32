"""The tools of a conversation: kept from its beginning to a cut or a /new, stored with each turn, found
again.
"""

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


async def say(desk: TurnHarness, *texts: str) -> list[list[str]]:
    """Each text answered in its turn; the names its first request offers."""
    for text in texts:
        desk.model.script.append(OK)
        await desk.build_runner().run(await desk.new_request(text))
    return [names(desk, at) for at in range(-len(texts), 0)]


def names(desk: TurnHarness, at: int) -> list[str]:
    return [one["function"]["name"] for one in desk.model.requests[at].tools]


async def kept(desk: TurnHarness) -> Sequence[str] | None:
    """What the lane is offered, as it is stored."""
    async with desk.database.read_transaction() as tx:
        return (await conversations.find(tx, LANE)).tools


async def test_a_conversation_keeps_its_tools_until_it_is_cut(
    database: Database, model: ScriptedModel
) -> None:
    desk = TurnHarness(database, model, (dig,), prompt_budget=2300)
    await say(desk, "hello")
    assert await kept(desk) == ("dig",)
    desk.tools = (dig, search)
    offered = await say(desk, *[LONG] * 6)
    assert ["dig"] in offered
    assert offered[-1] == ["dig", "search"]
    assert offered == sorted(offered)
    assert await kept(desk) == ("dig", "search")
    assert (await desk.load_rows(turns, "tools"))[-1] == ('["dig", "search"]',)


async def test_a_new_conversation_begins_with_the_tools_of_now(
    database: Database, model: ScriptedModel
) -> None:
    desk = TurnHarness(database, model, (dig,))
    await say(desk, "hello")
    desk.tools = (dig, search)
    async with database.transaction() as tx:
        await conversations.start_new(tx, LANE)
    assert await kept(desk) is None
    assert await say(desk, "hello") == [["dig", "search"]]


async def test_a_conversation_of_an_older_version_keeps_what_it_is_offered_next(
    database: Database, model: ScriptedModel
) -> None:
    desk = TurnHarness(database, model, (dig,))
    await say(desk, "hello")
    async with database.transaction() as tx:
        await tx.execute(update(lanes).values(tools=None, notes="1. kept as it stood"))
    await say(desk, "hello")
    assert await kept(desk) == ("dig",)
    assert "kept as it stood" in str(model.requests[-1].messages)


async def test_a_turn_goes_on_with_what_a_tool_found_that_is_gone_since(
    database: Database, model: ScriptedModel
) -> None:
    desk = TurnHarness(database, model, (dig, search))
    ask = await desk.new_request("dig")
    model.script = [make_reply("", make_call("dig"), make_call("nothing", id="b")), hang_forever]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(desk.build_runner().run(ask))
        while len(model.requests) < 2:
            model.was_called.clear()
            await model.was_called.wait()
        running.cancel()
    desk.tools = (search,)
    model.script = [make_reply("", make_call("dig", id="c")), make_reply("There was clay.")]
    await desk.build_runner().run(await desk.restart("dig"))
    assert await desk.load_answers() == ["There was clay."]
    assert names(desk, -1) == ["search"]
    before, after = model.requests[1].messages, model.requests[-1].messages
    assert after[: len(before)] == before
    assert "clay" in [one.text for one in before if one.role == "tool"]
    assert after[-1].text == "dig is not available any more. Say so, and go on without it."
