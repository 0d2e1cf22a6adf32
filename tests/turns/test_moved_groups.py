"""A group becomes a supergroup while its turn runs: what the turn stores stays together."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.tables import inbox, metadata
from bot.domain import Lane, Reply
from bot.turns.turn_request import TurnRequest
from tests.support.turn_harness import ScriptedModel, ScriptedReply, TurnHarness, make_call, make_reply
from tools.base import Rule, Tool, tool
from tools.builtin.notes import recall, remember

OLD = Lane(-500)
NEW = Lane(-1000000000500)


@tool(rule=Rule("always"))
async def ring() -> str:
    """Ring; it asks first."""
    return "rang"


def make_migration(database: Database) -> Callable[[], Awaitable[None]]:
    async def migrate() -> None:
        async with database.transaction() as tx:
            await groups.move(tx, OLD.chat, NEW.chat)
            await groups.move(tx, OLD.chat, NEW.chat)  # Telegram says it twice

    return migrate


def make_growing_tool(migrate: Callable[[], Awaitable[None]]) -> Tool:
    @tool(repeatable=True)
    async def grow() -> str:
        """Have the group become a supergroup."""
        await migrate()
        return "grown"

    return grow


async def ask_in_group(harness: TurnHarness) -> TurnRequest:
    request = await harness.new_request("Remember the pizza, and ring.")
    async with harness.database.transaction() as tx:
        await groups.put(tx, Group(OLD.chat, "Family", "in", 1.0))
        await tx.execute(update(inbox).values(lane=OLD.key))
    return replace(request, lane=OLD, speaker="Ann", message_id=10, sent_at=(1.0,))


async def list_lanes(database: Database) -> dict[str, set[str]]:
    """The lanes of each table's rows."""
    lanes = {}
    async with database.read_transaction() as tx:
        for table in metadata.sorted_tables:
            if "lane" in table.c:
                lanes[table.name] = set((await tx.execute(select(table.c.lane))).scalars()) - {None}
    return {name: keys for name, keys in lanes.items() if keys}


@pytest.mark.parametrize("moment", ["before the turn", "in a model call", "in a tool"])
async def test_what_a_turn_stores_after_the_group_has_moved_is_stored_with_the_rest(
    database: Database, moment: str
):
    migrate = make_migration(database)

    async def reply_after_migration() -> Reply:
        if moment == "in a model call":
            await migrate()
        return make_reply("", make_call("grow", id="0"))

    async def do_nothing() -> None: ...

    grow = make_growing_tool(migrate if moment == "in a tool" else do_nothing)
    note = make_call("remember", '{"note": "pizza"}', "1")
    script: list[ScriptedReply] = [
        reply_after_migration,
        make_reply("", note),
        make_reply("", make_call("recall", id="2")),
        make_reply("", make_call("ring", id="3")),
    ]
    harness = TurnHarness(database, ScriptedModel(script), [grow, remember, recall, ring])
    request = await ask_in_group(harness)
    if moment == "before the turn":
        await migrate()
    await harness.build_runner().run(request)
    notes_read = harness.model.requests[-1].messages[-1].text
    assert "1. pizza" in notes_read
    lanes = await list_lanes(database)
    assert lanes.keys() == {"approvals", "inbox", "lanes", "notes", "outbox", "turns"}
    assert set.union(*lanes.values()) == {OLD.key}
