"""A turn's account is turn once its answer is delivered or given up, and is read with its calls and parts."""

from typing import Any

from bot.db.engine import Database
from bot.db.tables import inbox, model_calls, outbox, tool_calls, turns
from bot.db.usage import breakdowns, turn_steps
from bot.db.usage.breakdowns import StoredBreakdown, TurnTimestamps
from bot.db.usage.turn_steps import TurnSteps

MEASURED_SECONDS = {
    "intake": 0.5,
    "seat_wait": 0.5,
    "first_canvas": 1.5,
    "further_canvases": 1.0,
    "telegram": 0.5,
    "own": 1.0,
}
OTHERS = (
    *("lane_wait", "starting", "preflight", "server_queue", "failed_calls", "tools"),
    *("approval_wait", "back_off", "down"),
)
SECONDS = dict.fromkeys(OTHERS, 0.0) | MEASURED_SECONDS


async def insert_item(database: Database, update_id: int, state: str = "done", **changes: Any) -> int:
    row: dict[str, Any] = {"update_id": update_id, "kind": "update", "shape": "text", "lane": "5"}
    row["state"] = state
    async with database.transaction() as tx:
        row |= {"received_at": 100.0, "taken_at": 100.5, **changes}
        return int((await tx.execute(inbox.insert().values(row).returning(inbox.c.id))).scalar_one())


async def insert_turn(database: Database, item: int, **changes: Any) -> int:
    row = {"item": item, "lane": "5", "person": 5, "conversation": 1, "state": "ended", "ending": "answered"}
    row |= {"tools": "[]", "thinking": False, "thinking_why": "", "received_at": 100.0, "began_at": 101.0}
    async with database.transaction() as tx:
        statement = turns.insert().values(row | {"ended_at": 104.5} | changes).returning(turns.c.id)
        return int((await tx.execute(statement)).scalar_one())


async def insert_part(database: Database, item: int, state: str, number: int = 0, **changes: Any) -> None:
    row = {"item": item, "part": number, "lane": "5", "body": "{}", "final": True, "state": state}
    row |= {"message_id": 10 + number, "made_at": 104.5, "sent_at": 104.75, "done_at": 105.0}
    async with database.transaction() as tx:
        await tx.execute(outbox.insert().values(row | changes))


async def load_timestamps(database: Database, *items: int) -> list[TurnTimestamps]:
    async with database.read_transaction() as tx:
        return await breakdowns.load_timestamps(tx, items)


async def store_breakdown(database: Database, item: int, turn: int) -> None:
    async with database.transaction() as tx:
        await breakdowns.store_breakdowns(tx, {item: StoredBreakdown(turn, 105.0, 5.0, SECONDS)})


async def list_accounted_turns(database: Database, after: int = 0) -> list[TurnSteps]:
    async with database.read_transaction() as tx:
        return await turn_steps.list_accounted_turns(tx, after=after)


async def is_idle(database: Database, update_id: int) -> bool:
    async with database.read_transaction() as tx:
        return await breakdowns.is_idle(tx, update_id)


async def is_all_accounted(database: Database) -> bool:
    async with database.read_transaction() as tx:
        return await breakdowns.is_all_accounted(tx)


async def test_an_accounted_turn_comes_with_its_calls_tools_and_messages(database: Database):
    first = await insert_item(database, 1)
    turn = await insert_turn(database, first)
    await insert_part(database, first, "done", 1)
    await insert_part(database, first, "done")
    await insert_part(database, first, "done", 2, body=None)
    await insert_part(database, first, "failed", 3, message_id=None)
    async with database.transaction() as tx:
        call = {"turn": turn, "step": 0, "purpose": "turn", "endpoint": "e", "model": "m", "thinking": False}
        counts = {"prompt_tokens": 900, "cached_tokens": 300, "completion_tokens": 260}
        more = {"tools_offered": 4, "created_at": 101.0, "ended_at": 103.5, "outcome": "ok"}
        await tx.execute(model_calls.insert().values(call | counts | more))
        tool = {"turn": turn, "step": 0, "call_id": "c", "name": "clock", "arguments": "{}", "state": "done"}
        await tx.execute(tool_calls.insert().values(tool | {"outcome": "ok", "result": "noon"}))
    assert await list_accounted_turns(database) == []
    await store_breakdown(database, first, turn)
    (accounted,) = await list_accounted_turns(database)
    assert (accounted.id, accounted.ending, accounted.received_at) == (turn, "answered", 100.0)
    assert accounted.account == {"whole": 5.0, **SECONDS}
    (model_call,) = accounted.calls
    assert (model_call.outcome, model_call.again, model_call.usage_partial) == ("ok", None, False)
    assert (model_call.prompt_tokens, model_call.cached_tokens) == (900, 300)
    assert (model_call.completion_tokens, model_call.canvases) == (260, 2)
    assert [(tool.name, tool.arguments, tool.outcome, tool.result) for tool in accounted.tools] == [
        ("clock", "{}", "ok", "noon")
    ]
    assert [(part.message_id, part.sent_at) for part in accounted.parts] == [
        (10, 104.75),
        (11, 104.75),
        (None, 104.75),
    ]
    assert await list_accounted_turns(database, after=turn) == []


async def test_the_timestamps_of_a_delivered_turn_end_with_its_last_part(database: Database):
    first = await insert_item(database, 1, seen_at=100.25, asked_at=100.6, agreed_at=100.7, retaken_at=100.8)
    turn = await insert_turn(database, first)
    await insert_part(database, first, "done", 1, done_at=106.0)
    await insert_part(database, first, "done")
    await insert_part(database, first, "done", 2, body=None, done_at=107.0)
    await insert_turn(database, await insert_item(database, 2), state="failed", ended_at=101.0)
    assert await load_timestamps(database, first) == [
        TurnTimestamps(
            turn, first, 100.0, 100.25, 100.5, 100.6, 100.7, 100.8, 101.0, 104.5, 106.0, failed=False
        )
    ]
    (without_a_message,) = await load_timestamps(database, 2)
    assert (without_a_message.failed, without_a_message.settled_at) == (True, 101.0)


async def test_a_part_delivered_before_the_turn_ended_does_not_settle_it(database: Database):
    await insert_turn(database, first := await insert_item(database, 1))
    await insert_part(database, first, "done", done_at=104.0)
    assert [timestamps.settled_at for timestamps in await load_timestamps(database, first)] == [104.5]


async def test_a_turn_has_no_timestamps_before_its_answer_is_delivered(database: Database):
    for number, state in enumerate(("new", "sending", "open"), start=1):
        await insert_turn(database, waiting := await insert_item(database, number))
        await insert_part(database, waiting, state)
    await insert_turn(database, streaming := await insert_item(database, 4))
    await insert_part(database, streaming, "done", final=False)
    await insert_turn(database, await insert_item(database, 5), state="running", ended_at=None)
    assert await load_timestamps(database, 1, 2, 3, 4, 5) == []


async def test_a_turn_whose_answer_was_given_up_has_timestamps_too(database: Database):
    for number, state in enumerate(("done", "failed", "unknown"), start=1):
        await insert_turn(database, given_up := await insert_item(database, number))
        await insert_part(database, given_up, state)
    assert [timestamps.item for timestamps in await load_timestamps(database, 1, 2, 3)] == [1, 2, 3]


async def test_spans_are_stored_until_the_account_is(database: Database):
    first = await insert_item(database, 1)
    second = await insert_item(database, 2, "running", turn=2)
    turn = await insert_turn(database, first)
    await insert_turn(database, second, state="running", ended_at=None)
    refused = await insert_item(database, 3)
    async with database.transaction() as tx:
        await breakdowns.store_spans(tx, {first: "[1]", second: "[2]", refused: "[3]"})
        await breakdowns.store_spans(tx, {})
    async with database.read_transaction() as tx:
        unaccounted = await breakdowns.list_unaccounted(tx)
    assert [(turn.item, turn.lane, turn.spans, turn.ended_at) for turn in unaccounted] == [
        (first, "5", "[1]", 104.5),
        (second, "5", "[2]", None),
    ]
    assert not await is_all_accounted(database)
    await store_breakdown(database, first, turn)
    async with database.transaction() as tx:
        await tx.execute(inbox.update().where(inbox.c.id == second).values(state="done", spans=None))
    assert await is_all_accounted(database)


async def test_an_account_is_stored_once(database: Database):
    first = await insert_item(database, 1)
    second = await insert_item(database, 2)
    first_turn = await insert_turn(database, first)
    second_turn = await insert_turn(database, second)
    await store_breakdown(database, first, first_turn)
    await store_breakdown(database, second, second_turn)
    async with database.transaction() as tx:
        await breakdowns.store_breakdowns(tx, {})
    await store_breakdown(database, first, first_turn)
    assert [turn.id for turn in await list_accounted_turns(database)] == [first_turn, second_turn]


async def test_the_gateway_is_idle_when_the_update_is_stored_and_nothing_waits(database: Database):
    assert not await is_idle(database, 1)
    first = await insert_item(database, 1)
    assert await is_idle(database, 1)
    await insert_part(database, first, "open")
    assert not await is_idle(database, 1)


async def test_without_an_update_the_gateway_is_idle_when_nothing_waits(database: Database):
    async with database.read_transaction() as tx:
        assert await breakdowns.is_idle(tx)
    await insert_item(database, 1, "new")
    async with database.read_transaction() as tx:
        assert not await breakdowns.is_idle(tx)


async def test_the_gateway_is_not_idle_while_another_item_waits(database: Database):
    await insert_item(database, 1)
    await insert_item(database, 2, "running")
    assert not await is_idle(database, 1)
