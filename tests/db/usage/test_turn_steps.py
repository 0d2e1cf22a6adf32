"""A turn is read with everything about it, and its texts only on request."""

from bot.db.engine import Database
from bot.db.tables import inbox, lives, messages, outbox, share_holds
from bot.db.usage.turn_steps import TurnSteps, TurnTakeover, load_steps
from bot.domain import SHARE_COUNT, Lane
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


async def test_an_unknown_turn_is_none(database: Database):
    assert await load_turn(database, 1) is None


async def test_a_turn_is_read_with_everything_about_it(database: Database):
    steps = await load_turn(database, await store_whole_turn(database))
    assert steps is not None
    assert (steps.chat, steps.user, steps.thinking, steps.thinking_why) == ("5", 5, True, "no tool fits")
    assert (steps.endpoint, steps.endpoint_why) == ("fallback", "the first is down")
    assert (steps.received_at, steps.taken_at, steps.ended_at) == (NOON, NOON + 0.25, NOON + 8.0)
    assert [(call.again, call.prompt_tokens, call.outcome) for call in steps.calls] == [("away", 1000, "ok")]
    assert [(tool.name, tool.outcome) for tool in steps.tools] == [("clock", "ok")]
    assert [(part.state, part.sent_at) for part in steps.parts] == [("done", NOON + 8.5)]
    assert steps.seconds == steps.account["whole"] == steps.account["own"] == 1.5


async def test_what_a_call_took_is_known_from_its_row_and_else_unknown(database: Database):
    ledger = UsageRows(database)
    turn = await ledger.add_turn(used='["clock", "fetch"]')
    await ledger.add_call(turn, purpose="decision", seat_at=None, completion_tokens=4)
    await ledger.add_call(turn, completion_tokens=257)
    await ledger.add_call(turn, completion_tokens=None, ended_at=None, outcome=None)
    steps = await load_turn(database, turn)
    assert steps is not None
    assert (steps.used, steps.seconds) == (("clock", "fetch"), 8.0)
    assert [(call.canvases, call.waited, call.seat_seconds) for call in steps.calls] == [
        (None, None, None),
        (2, 1.0, 3.0),
        (None, 1.0, None),
    ]


async def test_texts_are_read_only_on_request(database: Database):
    turn = await store_whole_turn(database)
    assert "SECRET" not in repr(await load_turn(database, turn))
    steps = await load_turn(database, turn, with_texts=True)
    assert steps is not None
    assert [message.text for message in steps.said] == ["SECRET"]
    assert steps.tools[0].arguments == '{"place": "SECRET"}'
    assert steps.tools[0].result == "SECRET"


async def test_a_turn_that_is_not_settled_has_no_account(database: Database):
    steps = await load_turn(database, await UsageRows(database).add_turn(state="running", ended_at=None))
    assert steps is not None
    assert (steps.account, steps.taken_at, steps.seconds) == ({}, None, None)


async def test_takeovers_of_its_chat_are_those_from_its_receipt_to_its_delivery(database: Database):
    turn = await store_whole_turn(database)
    share = Lane(5).share
    moments = [(1, -60.0, -9.0), (2, -9.0, 2.5), (3, 3.0, 8.25), (1, 8.25, 9.0), (2, 9.0, None)]
    async with database.transaction() as tx:
        for life in (1, 2, 3):
            await tx.execute(lives.insert().values(id=life, began_at=NOON - 60, seen_at=NOON))
        for epoch, (life, began, ended) in enumerate(moments, start=1):
            hold: dict[str, float | None] = {"epoch": epoch, "life": life, "began_at": NOON + began}
            hold["ended_at"] = None if ended is None else NOON + ended
            await tx.execute(share_holds.insert().values(share=share, **hold))
            await tx.execute(share_holds.insert().values(share=(share + 1) % SHARE_COUNT, **hold))
    steps = await load_turn(database, turn)
    assert steps is not None
    assert steps.takeovers == (
        TurnTakeover(3, NOON + 3.0, 2, NOON + 2.5),
        TurnTakeover(1, NOON + 8.25, 3, NOON + 8.25),
    )
