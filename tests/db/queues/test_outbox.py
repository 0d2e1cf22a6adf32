"""Outgoing messages are stored so that none is lost or sent twice; an unknown outcome is reported once."""

import json
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Row

from bot.db.engine import Database
from bot.db.queues import outbox
from bot.db.queues.outbox import SENT_AGAIN_TEXT, UNSURE_TEXT
from bot.db.queues.outbox_rows import OutboxRow
from bot.db.tables import outbox as outbox_table
from bot.db.transaction import Transaction
from bot.domain import Button, Lane, Part

ANN = Lane(7)
BEN = Lane(8, 3)
BLOCK = Part("block")
RICH = Part(
    "hé🙂",
    ({"type": "bold", "offset": 0, "length": 2},),
    ((Button("A", "a"),), (Button("B", "b"),)),
    silent=True,
)


async def add_texts(tx: Transaction, *texts: str, item: int | None = 1, lane: Lane = ANN) -> list[int]:
    parts = [Part(text) for text in texts]
    return await outbox.add(tx, item=item, lane=lane, parts=parts, reply_to=50, now=10.0)


async def open_part(tx: Transaction, part: int = 0, body: Part | None = BLOCK, item: int = 1) -> OutboxRow:
    return await outbox.open_part(tx, item=item, part=part, lane=ANN, body=body, now=9.0)


async def load_rows(tx: Transaction) -> list[Row[Any]]:
    return list((await tx.execute(select(outbox_table).order_by(outbox_table.c.id))).all())


def list_texts(stored_rows: list[Row[Any]]) -> list[str | None]:
    return [None if row.body is None else json.loads(row.body)["text"] for row in stored_rows]


async def test_a_part_comes_back_as_it_was_stored(database: Database):
    async with database.transaction() as tx:
        (row_id,) = await outbox.add(tx, item=4, lane=BEN, parts=[RICH], reply_to=50, now=10.0)
        row = await outbox.take(tx, BEN)
    assert row == OutboxRow(row_id, BEN, 50, RICH, True, "sending", None, is_notice=False)


async def test_rows_of_a_lane_are_taken_in_order_and_only_once(database: Database):
    async with database.transaction() as tx:
        first, second = await add_texts(tx, "one", "two")
        (of_ben,) = await add_texts(tx, "elsewhere", item=2, lane=BEN)
        assert await outbox.list_due_lanes(tx) == [ANN, BEN]
        rows = [await outbox.take(tx, lane) for lane in (ANN, ANN, ANN, BEN)]
        assert [row and row.id for row in rows] == [first, second, None, of_ben]
        assert [row and row.reply_to for row in rows] == [50, None, None, 50]
        assert [row and row.has_more for row in rows] == [True, False, None, False]
        assert await outbox.list_due_lanes(tx) == []


async def test_a_lost_notice_asks_nobody(database: Database):
    async with database.transaction() as tx:
        await add_texts(tx, "one", item=None)
        await add_texts(tx, "two", item=None)
        row = await outbox.take(tx, ANN)
        assert row is not None
        assert row.is_notice
        await outbox.mark_unknown(tx, row.id, "lost", now=11.0)
        assert list_texts(await load_rows(tx)) == ["one", "two"]


async def test_a_question_that_was_being_sent_at_a_crash_is_sent_again_however_often(database: Database):
    async with database.transaction() as tx:
        (row,) = await add_texts(tx, "the answer")
        await outbox.take(tx, ANN)
        await outbox.recover(tx, now=11.0)
        question = await outbox.take(tx, ANN)
        assert question is not None
        assert (question.body and question.body.text, question.can_repeat) == (UNSURE_TEXT, True)
        await outbox.recover(tx, now=12.0)
        again = await outbox.take(tx, ANN)
        assert again == question
        await tx.execute(outbox_table.update().values(tries=1000))
        await outbox.recover(tx, now=13.0)
        stored = [(stored_row.id == row, stored_row.state) for stored_row in await load_rows(tx)]
        assert stored == [(True, "unknown"), (False, "new")]
        assert await outbox.take(tx, ANN) == question


async def test_a_row_whose_final_body_is_shown_is_done(database: Database):
    async with database.transaction() as tx:
        (row,) = await add_texts(tx, "one")
        await outbox.take(tx, ANN)
        await outbox.mark_shown(tx, row, message_id=5, body=Part("one"), now=12.0)
        (stored,) = await load_rows(tx)
    assert (stored.state, stored.message_id, stored.sent_at, stored.done_at) == ("done", 5, 12.0, 12.0)


async def test_a_part_shown_by_a_turn_becomes_the_answer(database: Database):
    async with database.transaction() as tx:
        part = await open_part(tx)
        assert (part.state, part.final, part.body) == ("sending", False, BLOCK)
        await outbox.mark_shown(tx, part.id, message_id=5, body=BLOCK, now=9.5)
        assert not await outbox.list_due_lanes(tx)
        again = await open_part(tx, body=Part("another block"))
        assert (again.state, again.message_id, again.body) == ("open", 5, BLOCK)
        assert (await add_texts(tx, "the answer", "goes on"))[0] == part.id
        row = await outbox.take(tx, ANN)
        assert row is not None
        assert (row.state, row.message_id, row.body) == ("open", 5, Part("the answer"))
        await outbox.mark_shown(tx, part.id, message_id=5, body=Part("the answer"), now=12.0)
        first = (await load_rows(tx))[0]
    assert (first.state, first.sent_at, first.done_at) == ("done", 9.5, 12.0)


async def test_an_answer_stored_first_is_not_opened_by_a_late_block(database: Database):
    async with database.transaction() as tx:
        await add_texts(tx, "the answer")
        late = await open_part(tx)
    assert (late.state, late.final, late.body) == ("new", True, Part("the answer"))


async def test_an_answer_stored_while_its_first_block_is_sent_is_due_afterwards(database: Database):
    async with database.transaction() as tx:
        part = await open_part(tx)
        await add_texts(tx, "the answer")
        assert not await outbox.list_due_lanes(tx)
        await outbox.mark_shown(tx, part.id, message_id=5, body=BLOCK, now=11.0)
        assert await outbox.list_due_lanes(tx)


async def test_superfluous_parts_are_taken_back(database: Database):
    async with database.transaction() as tx:
        for part in range(4):
            await open_part(tx, part)
        await outbox.mark_shown(tx, 1, message_id=5, body=BLOCK, now=9.5)
        await outbox.mark_shown(tx, 2, message_id=6, body=BLOCK, now=9.5)
        await outbox.release(tx, 3, "refused connection")
        await add_texts(tx, "short")
        stored_rows = await load_rows(tx)
        assert list_texts(stored_rows) == ["short", None, None, None]
        assert [row.state for row in stored_rows] == ["open", "open", "done", "sending"]
        await outbox.mark_shown(tx, 2, message_id=6, body=None, now=12.0)
        assert (await load_rows(tx))[1].state == "done"
        await outbox.mark_unknown(tx, 4, "lost", now=12.0)
        assert len(await load_rows(tx)) == 4


async def test_an_answer_without_parts_takes_everything_back(database: Database):
    async with database.transaction() as tx:
        part = await open_part(tx)
        await outbox.mark_shown(tx, part.id, message_id=5, body=BLOCK, now=9.5)
        assert await add_texts(tx) == []
        row = await outbox.take(tx, ANN)
    assert row is not None
    assert (row.message_id, row.body) == (5, None)


async def test_an_unknown_outcome_of_a_block_is_reported_when_the_answer_is_stored(database: Database):
    async with database.transaction() as tx:
        part = await open_part(tx)
        await outbox.mark_unknown(tx, part.id, "lost", now=9.5)
        assert len(await load_rows(tx)) == 1
        await add_texts(tx, "the answer")
        await add_texts(tx, "the answer")
        assert list_texts(await load_rows(tx)) == ["the answer", UNSURE_TEXT]
        assert await outbox.send_again(tx, part.id, lane=ANN, now=13.0)
        assert not await outbox.send_again(tx, part.id, lane=ANN, now=13.0)
        assert list_texts(await load_rows(tx)) == ["the answer", SENT_AGAIN_TEXT, "the answer"]


async def test_only_a_row_of_unknown_outcome_can_be_sent_again(database: Database):
    async with database.transaction() as tx:
        part = await open_part(tx)
        await outbox.mark_unknown(tx, part.id, "lost", now=9.5)
        assert not await outbox.send_again(tx, part.id, lane=ANN, now=13.0)
        await add_texts(tx, "the answer")
        assert not await outbox.send_again(tx, part.id, lane=BEN, now=13.0)
        assert not await outbox.send_again(tx, 999, lane=ANN, now=13.0)
        (new_row,) = await add_texts(tx, "another", item=2)
        assert not await outbox.send_again(tx, new_row, lane=ANN, now=13.0)


async def test_after_a_crash_what_was_being_sent_is_unknown_and_a_status_line_is_deleted(database: Database):
    async with database.transaction() as tx:
        await add_texts(tx, "the answer")
        await outbox.take(tx, ANN)
        await open_part(tx, item=2, body=None)
        await open_part(tx, item=3)
        await outbox.recover(tx, now=20.0)
        stored_rows = await load_rows(tx)
        assert [(row.item, row.state) for row in stored_rows] == [
            (1, "unknown"),
            (3, "unknown"),
            (None, "new"),
        ]
        assert await outbox.list_due_lanes(tx) == [ANN]


async def test_a_missing_message_is_dropped_unless_its_body_is_final(database: Database):
    async with database.transaction() as tx:
        for part, body in enumerate((None, BLOCK, BLOCK)):
            await open_part(tx, part, body)
            await outbox.mark_shown(tx, part + 1, message_id=5 + part, body=body, now=9.5)
        await outbox.mark_missing(tx, 1)
        await add_texts(tx, "the", "answer")
        await outbox.mark_missing(tx, 2)
        await outbox.mark_missing(tx, 3)
        stored_rows = await load_rows(tx)
    assert [(row.part, row.state, row.message_id) for row in stored_rows] == [
        (1, "new", None),
        (2, "done", None),
        (0, "new", None),
    ]


async def test_a_missing_message_that_had_been_read_is_not_sent_again_for_its_buttons(database: Database):
    async with database.transaction() as tx:
        (row,) = await outbox.add(tx, item=1, lane=ANN, parts=[RICH], now=10.0)
        await outbox.take(tx, ANN)
        await outbox.mark_shown(tx, row, message_id=5, body=RICH, now=11.0)
        await outbox.close_buttons(tx, [row], "")
        await outbox.mark_missing(tx, row)
        [stored] = await load_rows(tx)
        assert (stored.state, stored.message_id) == ("done", None)
        await add_texts(tx, "another answer")  # that is more than its buttons: it is due
        assert await outbox.list_due_lanes(tx) == [ANN]


async def test_a_refusal_concerns_only_the_refused_body(database: Database):
    async with database.transaction() as tx:
        for part in range(3):
            await open_part(tx, part)
        await outbox.mark_failed(tx, 1, "refused early", body=BLOCK, now=1.0)
        assert (await load_rows(tx))[0].state == "failed"
        await add_texts(tx, "block", "answer", "more")
        await outbox.mark_failed(tx, 2, "refused late", body=BLOCK, now=1.0)
        await outbox.mark_shown(tx, 3, message_id=5, body=BLOCK, now=11.0)
        await outbox.mark_failed(tx, 3, "refused an edit", body=BLOCK, now=1.0)
        assert [row.state for row in await load_rows(tx)] == ["new", "new", "open"]
        await outbox.mark_failed(tx, 3, "refused for good", body=Part("more"), now=1.0)
        assert (await load_rows(tx))[2].state == "failed"


async def test_an_answer_may_be_replaced_after_it_was_delivered(database: Database):
    async with database.transaction() as tx:
        (row,) = await add_texts(tx, "one")
        await outbox.take(tx, ANN)
        await outbox.mark_shown(tx, row, message_id=5, body=Part("one"), now=11.0)
        await add_texts(tx, "two")
        assert [stored.state for stored in await load_rows(tx)] == ["open"]
