"""The first part of an answer is stored as being sent only where its lane has nothing else to do."""

from sqlalchemy import select

from bot.db.engine import Database
from bot.db.queues import first_sends, outbox
from bot.db.queues.outbox_rows import OutboxRow, to_outbox_row
from bot.db.tables import outbox as outbox_table
from bot.db.transaction import Transaction
from bot.domain import Lane, Part

ANN = Lane(7)
BEN = Lane(8, 3)
ANSWER = Part("hé🙂", ({"type": "bold", "offset": 0, "length": 2},))


async def add_taken(tx: Transaction, item: int, lane: Lane = ANN, part: Part = ANSWER) -> int | None:
    return await first_sends.add_taken(tx, part, item=item, lane=lane, reply_to=50, now=10.0)


async def load_states(tx: Transaction) -> list[str]:
    return list((await tx.execute(select(outbox_table.c.state).order_by(outbox_table.c.id))).scalars())


async def test_it_is_stored_as_if_it_had_been_taken(database: Database):
    async with database.transaction() as tx:
        await outbox.add(tx, item=None, lane=ANN, parts=[Part("elsewhere")], now=9.0)
        row = await add_taken(tx, item=4, lane=BEN)
        stored = (await tx.execute(select(outbox_table).where(outbox_table.c.lane == BEN.key))).one()
        assert row is not None
        assert to_outbox_row(stored) == OutboxRow(
            row, BEN, 50, ANSWER, True, "sending", None, is_notice=False
        )
        assert (stored.part, stored.tries, stored.made_at) == (0, 1, 10.0)
        assert await outbox.take(tx, BEN) is None
        await outbox.mark_shown(tx, row, message_id=70, body=ANSWER, now=11.0)
        assert await load_states(tx) == ["new", "done"]


async def test_what_is_due_in_the_lane_and_what_is_shown_come_first(database: Database):
    async with database.transaction() as tx:
        shown = await outbox.open_part(tx, item=1, part=0, lane=ANN, body=ANSWER, now=9.0)
        await outbox.mark_shown(tx, shown.id, message_id=70, body=ANSWER, now=9.5)
        assert await add_taken(tx, item=1) is None
        (due,) = await outbox.add(tx, item=None, lane=ANN, parts=[Part("first")], now=9.0)
        assert await add_taken(tx, item=2) is None
        await outbox.take(tx, ANN)
        await outbox.mark_shown(tx, due, message_id=71, body=Part("first"), now=9.5)
        assert await add_taken(tx, item=2) is not None
        assert await add_taken(tx, item=2) is None
        assert await load_states(tx) == ["open", "done", "sending"]


async def test_other_parts_follow_one_that_was_taken(database: Database):
    async with database.transaction() as tx:
        first = await add_taken(tx, item=1)
        rows = await outbox.add(tx, item=1, lane=ANN, parts=[ANSWER, Part("two")], reply_to=50, now=10.0)
        assert rows[0] == first
        assert await load_states(tx) == ["sending", "new"]
        second = await outbox.take(tx, ANN)
        assert second is not None
        assert (second.id, second.has_more) == (rows[1], False)


async def test_only_what_nobody_sends_is_released(database: Database):
    async with database.transaction() as tx:
        first = await add_taken(tx, item=1)
        await add_taken(tx, item=2, lane=BEN)
        await first_sends.release(tx, 1)
        await first_sends.release(tx, 3)
        assert await load_states(tx) == ["new", "sending"]
        row = await outbox.take(tx, ANN)
        assert row is not None
        await outbox.mark_shown(tx, first or 0, message_id=70, body=ANSWER, now=11.0)
        await first_sends.release(tx, 1)
        assert await load_states(tx) == ["done", "sending"]


async def store_answer_in_doubt(tx: Transaction, item: int = 1, part: int = 0) -> int:
    row = await outbox.open_part(tx, item=item, part=part, lane=ANN, body=Part("half"), now=9.0)
    await outbox.mark_unknown(tx, row.id, "lost", now=9.5)
    await outbox.add(tx, item=item, lane=ANN, parts=[ANSWER] * (part + 1), now=10.0)
    return row.id


async def test_a_first_send_that_arrived_is_edited_to_its_final_text_and_nobody_is_asked(database: Database):
    async with database.transaction() as tx:
        answer = await store_answer_in_doubt(tx)
        question = await outbox.take(tx, ANN)
        assert question is not None
        await outbox.mark_shown(tx, question.id, message_id=71, body=question.body, now=10.5)
        assert not await first_sends.confirm(tx, 1, BEN, 70)
        assert await first_sends.confirm(tx, 1, ANN, 70)
        assert not await first_sends.confirm(tx, 1, ANN, 70)
        taken_back = await outbox.take(tx, ANN)
        assert taken_back is not None
        assert (taken_back.id, taken_back.message_id, taken_back.body) == (question.id, 71, None)
        await outbox.mark_shown(tx, question.id, message_id=None, body=None, now=11.0)
        due = await outbox.take(tx, ANN)
        assert due is not None
        assert (due.id, due.message_id, due.body) == (answer, 70, ANSWER)


async def test_a_question_that_was_not_sent_yet_is_dropped(database: Database):
    async with database.transaction() as tx:
        await store_answer_in_doubt(tx)
        assert await first_sends.confirm(tx, 1, ANN, 70)
        assert await load_states(tx) == ["open", "done"]


async def test_nothing_is_confirmed_where_it_may_be_another_message(database: Database):
    async with database.transaction() as tx:
        first = await store_answer_in_doubt(tx)
        await outbox.send_again(tx, first, lane=ANN, now=11.0)
        assert not await first_sends.confirm(tx, 1, ANN, 70)
        await store_answer_in_doubt(tx, item=2)
        await store_answer_in_doubt(tx, item=2, part=1)
        assert not await first_sends.confirm(tx, 2, ANN, 80)
        await store_answer_in_doubt(tx, item=3, part=1)
        [known] = await outbox.add(tx, item=3, lane=ANN, parts=[ANSWER], now=12.0)
        await outbox.mark_shown(tx, known, message_id=90, body=ANSWER, now=12.0)
        assert not await first_sends.confirm(tx, 3, ANN, 90)
