"""A turn's account is read once its answer stands in the chat, with all that belongs to it."""

from typing import Any

from bot.db import accounts
from bot.db.accounts import TurnRow
from bot.db.engine import Database
from bot.db.tables import inbox, model_calls, outbox, tool_calls, turns


async def item(database: Database, update_id: int, state: str = "done") -> int:
    row = {"update_id": update_id, "kind": "update", "shape": "text", "lane": "5", "state": state}
    async with database.transaction() as tx:
        made = inbox.insert().values(**row, received_at=100.0, taken_at=100.5).returning(inbox.c.id)
        return int((await tx.execute(made)).scalar_one())


async def turn(database: Database, item: int, **changes: Any) -> int:
    row = {"item": item, "lane": "5", "person": 5, "conversation": 1, "state": "ended", "ending": "answered"}
    row |= {"tools": "[]", "thinking": False, "thinking_why": "", "received_at": 100.0, "began_at": 101.0}
    async with database.transaction() as tx:
        made = turns.insert().values(row | {"ended_at": 104.5} | changes).returning(turns.c.id)
        return int((await tx.execute(made)).scalar_one())


async def part(database: Database, item: int, state: str, number: int = 0, **changes: Any) -> None:
    row = {"item": item, "part": number, "lane": "5", "body": "{}", "final": True, "state": state}
    row |= {"message_id": 10 + number, "made_at": 104.5, "sent_at": 104.75, "done_at": 105.0}
    async with database.transaction() as tx:
        await tx.execute(outbox.insert().values(row | changes))


async def delivered(database: Database, after: int = 0) -> list[TurnRow]:
    async with database.reading() as tx:
        return await accounts.delivered(tx, after=after)


async def settled(database: Database, update_id: int) -> bool:
    async with database.reading() as tx:
        return await accounts.settled(tx, update_id)


async def test_a_delivered_turn_comes_with_its_calls_tools_and_messages(database: Database):
    first = await item(database, 1)
    made = await turn(database, first)
    await part(database, first, "done", 1)
    await part(database, first, "done")
    await part(database, first, "done", 2, body=None)
    async with database.transaction() as tx:
        call = {"turn": made, "step": 0, "purpose": "turn", "endpoint": "e", "model": "m", "thinking": False}
        times = {"created_at": 101.0, "seat_at": 101.5, "first_block_at": 102.0, "last_block_at": 103.0}
        counts = {"prompt_tokens": 900, "cached_tokens": 300, "completion_tokens": 260}
        more = {"tools_offered": 4, "ended_at": 103.5, "outcome": "ok"}
        await tx.execute(model_calls.insert().values(call | times | counts | more))
        tool = {"turn": made, "step": 0, "call_id": "c", "name": "clock", "arguments": "{}", "state": "done"}
        ran = {"outcome": "ok", "result": "noon", "began_at": 103.5, "ended_at": 104.0}
        await tx.execute(tool_calls.insert().values(tool | ran))
    (found,) = await delivered(database)
    assert (found.id, found.ending, found.received_at, found.taken_at, found.ended_at) == (
        made,
        "answered",
        100.0,
        100.5,
        104.5,
    )
    assert found.gathered_at is None
    (model_call,) = found.calls
    assert (model_call.created_at, model_call.seat_at, model_call.first_block_at) == (101.0, 101.5, 102.0)
    assert (model_call.last_block_at, model_call.ended_at, model_call.outcome) == (103.0, 103.5, "ok")
    assert (model_call.input_tokens, model_call.cached_tokens, model_call.output_tokens) == (900, 300, 260)
    assert [(tool.name, tool.result, tool.began_at) for tool in found.tools] == [("clock", "noon", 103.5)]
    assert [one.message_id for one in found.parts] == [10, 11]


async def test_a_turn_is_not_read_before_its_answer_stands(database: Database):
    for number, state in enumerate(("new", "sending", "open"), start=1):
        await turn(database, waiting := await item(database, number))
        await part(database, waiting, state)
    await turn(database, streaming := await item(database, 4))
    await part(database, streaming, "done", final=False)
    await turn(database, await item(database, 5), state="running", ended_at=None)
    assert await delivered(database) == []


async def test_an_answer_that_was_given_up_is_read_too_and_only_turns_after_the_last_seen(database: Database):
    made = []
    for number, state in enumerate(("done", "failed", "unknown"), start=1):
        made.append(await turn(database, given_up := await item(database, number)))
        await part(database, given_up, state)
    assert [found.id for found in await delivered(database)] == made
    assert [found.id for found in await delivered(database, after=made[0])] == made[1:]


async def test_an_update_is_settled_when_nothing_is_under_way(database: Database):
    assert not await settled(database, 1)
    first = await item(database, 1)
    assert await settled(database, 1)
    await part(database, first, "open")
    assert not await settled(database, 1)


async def test_without_a_name_it_is_settled_when_nothing_is_under_way(database: Database):
    async with database.reading() as tx:
        assert await accounts.settled(tx)
    await item(database, 1, "new")
    async with database.reading() as tx:
        assert not await accounts.settled(tx)


async def test_an_update_is_not_settled_while_another_item_waits(database: Database):
    await item(database, 1)
    await item(database, 2, "running")
    assert not await settled(database, 1)


async def test_what_came_with_a_message_was_there_when_its_turn_began(database: Database):
    first = await item(database, 1)
    made = await turn(database, first)
    await part(database, first, "done")
    async with database.transaction() as tx:
        await tx.execute(inbox.update().values(turn=made, body='{"message":{"voice":{"file_id":"v"}}}'))
    (found,) = await delivered(database)
    assert found.gathered_at == 101.0
