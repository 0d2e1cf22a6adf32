"""One turn is read with everything about it, and its texts only where they are asked for."""

from bot.db.engine import Database
from bot.db.tables import inbox, messages, outbox
from bot.db.usage.turn_steps import TurnSteps, load_steps
from tests.support.usage_rows import NOON, UsageRows


async def load_turn(database: Database, turn: int, *, with_texts: bool = False) -> TurnSteps | None:
    async with database.read_transaction() as tx:
        return await load_steps(tx, turn, with_texts=with_texts)


async def store_whole_turn(database: Database) -> int:
    ledger = UsageRows(database)
    turn = await ledger.add_turn(thinking=True, endpoint="fallback", endpoint_why="the first is down")
    await ledger.add_call(turn, again="away")
    await ledger.add_tool_call(turn, "clock", arguments='{"place": "SECRET"}', result="SECRET")
    await ledger.add_account(turn, own=1.5)
    async with database.transaction() as tx:
        await tx.execute(messages.insert().values(turn=turn, role="user", text="SECRET", made_at=NOON))
        update = {"id": 1, "kind": "update", "shape": "text", "received_at": NOON, "taken_at": NOON + 0.25}
        await tx.execute(inbox.insert().values(update))
        part = {"item": 1, "lane": "5", "final": True, "state": "done", "made_at": NOON + 8.0}
        await tx.execute(
            outbox.insert().values(**part, body="{}", part=0, sent_at=NOON + 8.5, done_at=NOON + 8.5)
        )
        await tx.execute(outbox.insert().values(**part, body=None, part=1))
    return turn


async def test_a_turn_that_is_not_there_is_none(database: Database):
    assert await load_turn(database, 1) is None


async def test_a_turn_is_read_whole(database: Database):
    found = await load_turn(database, await store_whole_turn(database))
    assert found is not None
    assert (found.chat, found.user, found.thinking, found.thinking_why) == ("5", 5, True, "no tool fits")
    assert (found.endpoint, found.endpoint_why) == ("fallback", "the first is down")
    assert (found.received_at, found.taken_at, found.ended_at) == (NOON, NOON + 0.25, NOON + 8.0)
    assert [(one.again, one.prompt_tokens, one.outcome) for one in found.calls] == [("away", 1000, "ok")]
    assert [(one.name, one.outcome) for one in found.tools] == [("clock", "ok")]
    assert [(one.state, one.sent_at) for one in found.parts] == [("done", NOON + 8.5)]
    assert (found.account["whole"], found.account["own"]) == (1.5, 1.5)


async def test_texts_are_read_only_where_they_are_asked_for(database: Database):
    turn = await store_whole_turn(database)
    assert "SECRET" not in repr(await load_turn(database, turn))
    told = await load_turn(database, turn, with_texts=True)
    assert told is not None
    assert [one.text for one in told.said] == ["SECRET"]
    assert told.tools[0].arguments == '{"place": "SECRET"}'
    assert told.tools[0].result == "SECRET"


async def test_a_turn_that_is_not_settled_has_no_account(database: Database):
    found = await load_turn(database, await UsageRows(database).add_turn(state="running", ended_at=None))
    assert found is not None
    assert (found.account, found.taken_at) == ({}, None)
