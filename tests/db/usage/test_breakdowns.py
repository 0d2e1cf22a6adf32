"""A turn's account is made once its answer stands in the chat or was given up, and read with all that belongs
to it.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select

from bot.db.engine import Database
from bot.db.tables import durations, inbox, model_calls, outbox, tool_calls, turns
from bot.db.usage import breakdowns as accounts
from bot.db.usage.breakdowns import AccountedTurn, StoredBreakdown, TurnTimestamps

LASTED = {
    "intake": 0.5,
    "seat_wait": 0.5,
    "first_canvas": 1.5,
    "further_canvases": 1.0,
    "telegram": 0.5,
    "own": 1.0,
}
SECONDS = dict.fromkeys(("lane_wait", "tools", "approval_wait", "back_off", "down"), 0.0) | LASTED


async def insert_item(database: Database, update_id: int, state: str = "done", **changes: Any) -> int:
    row = {"update_id": update_id, "kind": "update", "shape": "text", "lane": "5", "state": state}
    async with database.transaction() as tx:
        made = (
            inbox.insert()
            .values({**row, "received_at": 100.0, "taken_at": 100.5, **changes})
            .returning(inbox.c.id)
        )
        return int((await tx.execute(made)).scalar_one())


async def insert_turn(database: Database, item: int, **changes: Any) -> int:
    row = {"item": item, "lane": "5", "person": 5, "conversation": 1, "state": "ended", "ending": "answered"}
    row |= {"tools": "[]", "thinking": False, "thinking_why": "", "received_at": 100.0, "began_at": 101.0}
    async with database.transaction() as tx:
        made = turns.insert().values(row | {"ended_at": 104.5} | changes).returning(turns.c.id)
        return int((await tx.execute(made)).scalar_one())


async def insert_part(database: Database, item: int, state: str, number: int = 0, **changes: Any) -> None:
    row = {"item": item, "part": number, "lane": "5", "body": "{}", "final": True, "state": state}
    row |= {"message_id": 10 + number, "made_at": 104.5, "sent_at": 104.75, "done_at": 105.0}
    async with database.transaction() as tx:
        await tx.execute(outbox.insert().values(row | changes))


async def load_timestamps(database: Database, *items: int) -> list[TurnTimestamps]:
    async with database.read_transaction() as tx:
        return await accounts.load_timestamps(tx, items)


async def store_breakdown(
    database: Database, item: int, turn: int, counts: Iterable[tuple[int, str, int]] = ()
) -> None:
    async with database.transaction() as tx:
        await accounts.store_breakdowns(
            tx, {item: StoredBreakdown(turn, 105.0, 5.0, SECONDS)}, dict.fromkeys(counts, 1)
        )


async def list_accounted_turns(database: Database, after: int = 0) -> list[AccountedTurn]:
    async with database.read_transaction() as tx:
        return await accounts.list_accounted_turns(tx, after=after)


async def is_idle(database: Database, update_id: int) -> bool:
    async with database.read_transaction() as tx:
        return await accounts.is_idle(tx, update_id)


async def is_all_accounted(database: Database) -> bool:
    async with database.read_transaction() as tx:
        return await accounts.is_all_accounted(tx)


async def test_an_accounted_turn_comes_with_its_calls_tools_and_messages(database: Database):
    first = await insert_item(database, 1)
    made = await insert_turn(database, first)
    await insert_part(database, first, "done", 1)
    await insert_part(database, first, "done")
    await insert_part(database, first, "done", 2, body=None)
    await insert_part(database, first, "failed", 3, message_id=None)
    async with database.transaction() as tx:
        call = {"turn": made, "step": 0, "purpose": "turn", "endpoint": "e", "model": "m", "thinking": False}
        counts = {"prompt_tokens": 900, "cached_tokens": 300, "completion_tokens": 260}
        more = {"tools_offered": 4, "created_at": 101.0, "ended_at": 103.5, "outcome": "ok"}
        await tx.execute(model_calls.insert().values(call | counts | more))
        tool = {"turn": made, "step": 0, "call_id": "c", "name": "clock", "arguments": "{}", "state": "done"}
        await tx.execute(tool_calls.insert().values(tool | {"outcome": "ok", "result": "noon"}))
    assert await list_accounted_turns(database) == []
    await store_breakdown(database, first, made)
    (found,) = await list_accounted_turns(database)
    assert (found.id, found.ending, found.received_at) == (made, "answered", 100.0)
    assert found.account == StoredBreakdown(made, 105.0, 5.0, SECONDS)
    (model_call,) = found.calls
    assert (model_call.outcome, model_call.again, model_call.partial) == ("ok", None, False)
    assert (model_call.input_tokens, model_call.cached_tokens, model_call.output_tokens) == (900, 300, 260)
    assert [(tool.name, tool.arguments, tool.outcome, tool.result) for tool in found.tools] == [
        ("clock", "{}", "ok", "noon")
    ]
    assert [(one.message_id, one.sent_at) for one in found.parts] == [
        (10, 104.75),
        (11, 104.75),
        (None, 104.75),
    ]
    assert await list_accounted_turns(database, after=made) == []


async def test_the_course_of_a_delivered_turn_ends_with_its_last_part(database: Database):
    first = await insert_item(database, 1, seen_at=100.25, asked_at=100.6, agreed_at=100.7, retaken_at=100.8)
    made = await insert_turn(database, first)
    await insert_part(database, first, "done", 1, done_at=106.0)
    await insert_part(database, first, "done")
    await insert_part(database, first, "done", 2, body=None, done_at=107.0)
    await insert_turn(database, await insert_item(database, 2), state="failed", ended_at=101.0)
    assert await load_timestamps(database, first) == [
        TurnTimestamps(
            made, first, 100.0, 100.25, 100.5, 100.6, 100.7, 100.8, 101.0, 104.5, 106.0, failed=False
        )
    ]
    (without_a_message,) = await load_timestamps(database, 2)
    assert (without_a_message.failed, without_a_message.settled_at) == (True, 101.0)


async def test_a_part_that_stood_before_the_turn_ended_ends_nothing(database: Database):
    await insert_turn(database, first := await insert_item(database, 1))
    await insert_part(database, first, "done", done_at=104.0)
    assert [course.settled_at for course in await load_timestamps(database, first)] == [104.5]


async def test_a_turn_has_no_course_before_its_answer_stands(database: Database):
    for number, state in enumerate(("new", "sending", "open"), start=1):
        await insert_turn(database, waiting := await insert_item(database, number))
        await insert_part(database, waiting, state)
    await insert_turn(database, streaming := await insert_item(database, 4))
    await insert_part(database, streaming, "done", final=False)
    await insert_turn(database, await insert_item(database, 5), state="running", ended_at=None)
    assert await load_timestamps(database, 1, 2, 3, 4, 5) == []


async def test_an_answer_that_was_given_up_has_its_course_too(database: Database):
    for number, state in enumerate(("done", "failed", "unknown"), start=1):
        await insert_turn(database, given_up := await insert_item(database, number))
        await insert_part(database, given_up, state)
    assert [course.item for course in await load_timestamps(database, 1, 2, 3)] == [1, 2, 3]


async def test_what_was_measured_is_kept_until_the_account_is(database: Database):
    first, second = await insert_item(database, 1), await insert_item(database, 2, "running", turn=2)
    made = await insert_turn(database, first)
    await insert_turn(database, second, state="running", ended_at=None)
    refused = await insert_item(database, 3)
    async with database.transaction() as tx:
        await accounts.store_spans(tx, {first: "[1]", second: "[2]", refused: "[3]"})
        await accounts.store_spans(tx, {})
    async with database.read_transaction() as tx:
        left = await accounts.list_unaccounted(tx)
    assert [(one.item, one.lane, one.spans, bool(one.is_over)) for one in left] == [
        (first, "5", "[1]", True),
        (second, "5", "[2]", False),
    ]
    assert not await is_all_accounted(database)
    await store_breakdown(database, first, made)
    async with database.transaction() as tx:
        await tx.execute(inbox.update().where(inbox.c.id == second).values(state="done", spans=None))
    assert await is_all_accounted(database)


async def test_an_account_is_kept_once_and_its_durations_are_added_up(database: Database):
    first, second = await insert_item(database, 1), await insert_item(database, 2)
    made, other = await insert_turn(database, first), await insert_turn(database, second)
    await store_breakdown(database, first, made, [(3, "whole", 7), (3, "own", 1)])
    await store_breakdown(database, second, other, [(3, "whole", 7), (4, "whole", 7)])
    async with database.transaction() as tx:
        await accounts.store_breakdowns(tx, {}, {})
        rows = await tx.execute(select(durations).order_by(durations.c.day, durations.c.kind))
    assert [tuple(row) for row in rows] == [(3, "own", 1, 1), (3, "whole", 7, 2), (4, "whole", 7, 1)]
    await store_breakdown(database, first, made, [(3, "own", 1)])
    assert [found.id for found in await list_accounted_turns(database)] == [made, other]


async def test_an_update_is_settled_when_nothing_is_under_way(database: Database):
    assert not await is_idle(database, 1)
    first = await insert_item(database, 1)
    assert await is_idle(database, 1)
    await insert_part(database, first, "open")
    assert not await is_idle(database, 1)


async def test_without_a_name_it_is_settled_when_nothing_is_under_way(database: Database):
    async with database.read_transaction() as tx:
        assert await accounts.is_idle(tx)
    await insert_item(database, 1, "new")
    async with database.read_transaction() as tx:
        assert not await accounts.is_idle(tx)


async def test_an_update_is_not_settled_while_another_item_waits(database: Database):
    await insert_item(database, 1)
    await insert_item(database, 2, "running")
    assert not await is_idle(database, 1)
