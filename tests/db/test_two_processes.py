"""What two processes do to one database at once is as if they had done it one after the other.

On SQLite the second one waits as it begins; on PostgreSQL it waits where both need the same row.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest
from sqlalchemy import func, insert, select, update

from bot.db.engine import Database, open_database
from bot.db.people import speakers
from bot.db.queues import edited_messages, inbox, incoming_updates, job_outcomes, jobs, outbox
from bot.db.queues.admin_notices import count_sending, record_if_changed
from bot.db.queues.edited_messages import Revision
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.queues.jobs import NewJob
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.db.tables import turns as turns_table
from bot.db.tools import approvals, sources
from bot.db.tools.approvals import NewApprovalQuestion
from bot.db.tools.audit import Actor
from bot.db.tools.sources import Source
from bot.db.transaction import Transaction
from bot.domain import Lane, Part
from bot.tool_registry.add_source import toggle_operation
from bot.tool_registry.admin_actions import AdminAction, begin_action
from bot.tool_registry.time_limits import TimeLimits, read_time_limits, set_time_limits

T = TypeVar("T")
Operation = Callable[[Transaction], Awaitable[T]]
LANE = Lane(7)
SETTLE_SECONDS = 0.3  # in which the second process gets as far as it can; the result holds for any


@pytest.fixture
async def other_database(database_url: str) -> AsyncIterator[Database]:
    async with open_database(database_url) as database:
        yield database


async def run_at_once(
    database: Database, other_database: Database, first: Operation[T], second: Operation[T]
) -> list[T]:
    """Run both operations, the second while the first is not committed; returns their results."""
    async with asyncio.TaskGroup() as tasks, database.transaction() as tx:
        result = await first(tx)
        waiting = tasks.create_task(run(other_database, second))
        await asyncio.wait([waiting], timeout=SETTLE_SECONDS)
    return [result, waiting.result()]


async def run(database: Database, operation: Operation[T]) -> T:
    async with database.transaction() as tx:
        return await operation(tx)


def build_update(number: int) -> IncomingUpdate:
    return IncomingUpdate(number, "text", LANE, 7, "{}", stale=False, not_before=None)


async def claim(tx: Transaction) -> list[int]:
    claimed = await inbox.claim(tx, now=100.0)
    return [item.id for group in claimed.groups for item in group]


async def insert_turn(database: Database, **columns: Any) -> int:
    row = {"item": 1, "lane": LANE.key, "person": 7, "conversation": 1, "state": "parked", "tools": "[]"}
    row |= {"thinking": False, "thinking_why": "", "received_at": 1.0, "began_at": 1.0, **columns}
    new_turn = insert(turns_table).values(row).returning(turns_table.c.id)
    async with database.transaction() as tx:
        return int((await tx.execute(new_turn)).scalar_one())


async def ask(database: Database, turn: int, call: str) -> int:
    question = NewApprovalQuestion(
        turn, 1, call, "ring", "{}", "hash", 7, LANE, "asker", "it rings", None, 1000.0
    )
    async with database.transaction() as tx:
        return await approvals.insert_question(tx, question, now=1.0)


async def test_the_later_of_two_answers_resumes_the_turn(database: Database, other_database: Database):
    turn = await insert_turn(database)
    first, second = [await ask(database, turn, call) for call in ("a", "b")]

    def answer(question: int) -> Operation[list[int]]:
        async def store(tx: Transaction) -> list[int]:
            assert await approvals.find(tx, question, to_answer=True) is not None
            assert await approvals.store_answer(tx, question, "once", 7, now=2.0)
            return await approvals.list_answered_turns(tx, [turn])

        return store

    assert await run_at_once(database, other_database, answer(first), answer(second)) == [[], [turn]]


async def test_a_question_is_answered_once(database: Database, other_database: Database):
    question = await ask(database, await insert_turn(database), "a")

    async def answer(tx: Transaction) -> str | None:
        found = await approvals.find(tx, question, to_answer=True)
        assert found is not None
        await approvals.store_answer(tx, question, "denied", 7, now=2.0)
        return found.answer

    assert await run_at_once(database, other_database, answer, answer) == [None, "denied"]


async def test_a_job_is_run_by_hand_once(database: Database, other_database: Database):
    async with database.transaction() as tx:
        job = await jobs.add(tx, NewJob("task", 1000.0, "UTC", person=7, lane=LANE), now=1.0)
        stored = await jobs.find(tx, job)
    assert stored is not None
    moments = iter((2.0, 3.0))

    async def run_now(tx: Transaction) -> bool:
        return await jobs.run_now(tx, job, jobs.build_inbox_row(stored), now=next(moments))

    assert await run_at_once(database, other_database, run_now, run_now) == [True, False]


async def test_a_message_is_taken_to_be_sent_once(database: Database, other_database: Database):
    async with database.transaction() as tx:
        rows = await outbox.add(tx, item=None, lane=LANE, parts=[Part("one")], now=1.0)

    async def take(tx: Transaction) -> int | None:
        row = await outbox.take(tx, LANE)
        return None if row is None else row.id

    assert await run_at_once(database, other_database, take, take) == [rows[0], None]


async def test_a_row_that_is_taken_knows_of_others_that_are_due(database: Database):
    async with database.transaction() as tx:
        await outbox.add(tx, item=None, lane=LANE, parts=[Part("one"), Part("two")], now=1.0)
        taken = [await outbox.take(tx, LANE) for _ in range(2)]
    assert [row and row.has_more for row in taken] == [True, False]


async def test_a_message_of_unknown_outcome_is_sent_again_once(database: Database, other_database: Database):
    async with database.transaction() as tx:
        [row] = await outbox.add(tx, item=1, lane=LANE, parts=[Part("one")], now=1.0)
        await outbox.mark_unknown(tx, row, "lost", now=1.0)

    async def send_again(tx: Transaction) -> bool:
        return await outbox.send_again(tx, row, lane=LANE, now=2.0)

    assert await run_at_once(database, other_database, send_again, send_again) == [True, False]
    async with database.transaction() as tx:
        assert not await send_again(tx)


async def test_admins_are_told_once_and_again_when_it_changes(database: Database, other_database: Database):
    async def record(tx: Transaction) -> bool:
        return await record_if_changed(tx, "disk", "it is full", now=1.0)

    assert await run_at_once(database, other_database, record, record) == [True, False]
    async with database.transaction() as tx:
        assert await record_if_changed(tx, "disk", "it is empty", now=2.0)


async def test_a_job_that_is_deleted_while_its_outcome_is_stored_stays_deleted(
    database: Database, other_database: Database
):
    async with database.transaction() as tx:
        job = await jobs.add(tx, NewJob("task", 1000.0, "UTC", person=7, lane=LANE), now=1.0)
        stored = await jobs.find(tx, job)
        assert stored is not None
        item = jobs.build_inbox_row(stored) | {"state": "done", "done_at": 1001.0, "due_at": 1000.0}
        await tx.execute(insert(inbox_table).values(item | {"received_at": 1000.0, "job": job}))

    async def delete(tx: Transaction) -> None:
        await tx.execute(update(jobs_table).values(state="deleted"))

    async def record(tx: Transaction) -> None:
        await job_outcomes.record_outcome(tx, job, 1000.0)

    await run_at_once(database, other_database, delete, record)
    async with database.read_transaction() as tx:
        [(state, last_done)] = await tx.execute(select(jobs_table.c.state, jobs_table.c.last_done))
    assert (state, last_done) == ("deleted", 1001.0)


async def test_two_people_of_one_name_are_told_apart(database: Database, other_database: Database):
    people = iter((1, 2, 3, 3))

    async def add(tx: Transaction) -> str:
        return await speakers.add(tx, LANE, next(people), "Ann")

    assert await run_at_once(database, other_database, add, add) == ["Ann", "Ann 2"]
    assert await run_at_once(database, other_database, add, add) == ["Ann 3", "Ann 3"]


async def test_a_message_is_either_claimed_or_moved_behind_an_edited_one(
    database: Database, other_database: Database
):
    turn = await insert_turn(database, state="ended", item=1)
    async with database.transaction() as tx:
        await incoming_updates.store(tx, [build_update(1)], now=100.0)
        await inbox.mark_done(tx, [1], now=100.0)
        await tx.execute(inbox_table.update().values(turn=turn))
        await incoming_updates.store(tx, [build_update(2)], now=100.0)

    async def edit(tx: Transaction) -> list[int]:
        item = await edited_messages.requeue(tx, turn, Revision(1, False, turn), now=101.0)
        assert item is not None
        return [item]

    assert (await run_at_once(database, other_database, claim, edit))[0] == [2]
    async with database.read_transaction() as tx:
        counts = select(inbox_table.c.state, func.count()).group_by(inbox_table.c.state)
        by_state = {row[0]: row[1] for row in await tx.execute(counts)}
    assert by_state == {"done": 1, "new": 1, "running": 1}


async def test_few_messages_about_strangers_are_sent_by_all_together(
    database: Database, other_database: Database
):
    async def count(tx: Transaction) -> bool:
        return await count_sending(tx, "stranger card", max_count=3, window_seconds=3600.0, now=5000.0)

    assert await run(database, count)
    assert await run_at_once(database, other_database, count, count) == [True, True]
    assert await run_at_once(database, other_database, count, count) == [False, False]


async def test_what_two_admins_change_of_one_source_stays(database: Database, other_database: Database):
    def change(apply: Callable[[AdminAction], Awaitable[object]]) -> Operation[object]:
        async def run_change(tx: Transaction) -> object:
            return await apply(await begin_action(tx, Actor(7, "telegram"), 100.0, {}))

        return run_change

    async with database.transaction() as tx:
        options = {"offered": [{"operation": "a"}], "routes": []}
        await sources.put(tx, Source("shop", "openapi", "https://shop.example", options, added_at=1.0))
    await run_at_once(
        database,
        other_database,
        change(lambda action: toggle_operation(action, "shop", 0)),
        change(lambda action: set_time_limits(action, "shop", TimeLimits(call_seconds=7.0))),
    )
    async with database.read_transaction() as tx:
        source = await sources.find(tx, "shop")
    assert source is not None
    assert source.options["chosen"] == [0]
    assert read_time_limits(source.options).call_seconds == 7.0
