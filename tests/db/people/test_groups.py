"""Groups are stored with their settings; all of a group's rows follow it to the number of a supergroup."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Text, func, insert, select

from bot.db import revisions
from bot.db.conversations import notes, verdicts
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.queues import outbox
from bot.db.tables import grants, limits, metadata, seat_requests
from bot.db.tables import outbox as outbox_table
from bot.db.tables import turns as turns_table
from bot.db.transaction import Transaction
from bot.domain import Button, Lane, Part

OLD = -500
NEW = -1000000500
FAMILY = Group(OLD, "Family", "in", 1.0, let_in_by=1)


async def test_a_group_is_stored_with_its_settings(database: Database):
    async with database.transaction() as tx:
        await groups.put(tx, FAMILY)
        await groups.put(tx, replace(FAMILY, title="Home", name="Canvas", reads_along=True))
        await groups.put(tx, Group(-9, "Work", "asked", 2.0))
        stored = await groups.list_groups(tx)
    assert stored == [
        Group(-9, "Work", "asked", 2.0),
        Group(OLD, "Home", "in", 1.0, let_in_by=1, name="Canvas", reads_along=True),
    ]


def list_chat_columns() -> list[Column[Any]]:
    """Every column that holds a lane, or the number of a chat; a model call under way keeps its lane."""
    tables = [table for table in metadata.sorted_tables if table is not seat_requests]
    columns = [column for table in tables for column in table.c if column.name in {"lane", "chat"}]
    return [*columns, grants.c.number, limits.c.person]


async def fill(tx: Transaction, chat: int) -> None:
    """Put a row of this chat into every table that has one."""
    for column in list_chat_columns():
        values = {each.name: _make_value(each) for each in column.table.c if _is_needed(each)}
        values[column.name] = str(chat) if isinstance(column.type, Text) else chat
        await tx.execute(insert(column.table).values(values))


def _is_needed(column: Column[Any]) -> bool:
    return not column.nullable and column.server_default is None and column.name != "id"


def _make_value(column: Column[Any]) -> int | str:
    return "chat" if isinstance(column.type, Text) else 1


async def count_rows(tx: Transaction, chat: int) -> dict[str, int]:
    """How many rows each table has of this chat."""
    counts = {}
    for column in list_chat_columns():
        value = str(chat) if isinstance(column.type, Text) else chat
        query = select(func.count()).select_from(column.table).where(column == value)
        counts[column.table.name] = (await tx.execute(query)).scalar_one()
    return counts


async def test_every_row_moves_to_the_supergroup(database: Database):
    async with database.transaction() as tx:
        await fill(tx, OLD)
    async with database.transaction() as tx:
        before = await count_rows(tx, OLD)
        await groups.move(tx, OLD, NEW)
        await groups.move(tx, OLD, NEW)  # Telegram says it in two messages
        after = await count_rows(tx, NEW)
        left = await count_rows(tx, OLD)
        bumped = await revisions.read(tx, [revisions.TOOLS])
        assert bumped == {revisions.TOOLS: 1}  # a running gateway loads the grants again
        assert await groups.find_lane(tx, Lane(OLD)) == Lane(NEW)
        assert await groups.find_lane(tx, Lane(OLD - 1)) == Lane(OLD - 1)
    assert set(before.values()) == {1}
    assert after == before
    assert set(left.values()) == {0}


async def test_what_the_supergroup_has_already_gives_way(database: Database):
    async with database.transaction() as tx:
        for chat, title in ((OLD, "Family"), (NEW, "Family, upgraded")):
            await groups.put(tx, replace(FAMILY, chat=chat, title=title))
            await notes.add(tx, Lane(chat), f"of {title}", author="Ann", person=5, now=1.0)
    async with database.transaction() as tx:
        await groups.move(tx, OLD, NEW)
        stored = await groups.list_groups(tx)
        texts = [(note.number, note.text) for note in await notes.list_all(tx, Lane(NEW))]
    assert stored == [replace(FAMILY, chat=NEW, old_chat=OLD)]
    assert texts == [(1, "of Family"), (2, "of Family, upgraded")]


async def store_answer(tx: Transaction, chat: int, item: int) -> int:
    """Store a turn whose answer is message 41 of a chat; return the answer's row."""
    turn = {"item": item, "lane": str(chat), "person": 5, "conversation": 1, "state": "ended"}
    more = {"tools": "[]", "thinking": False, "thinking_why": "", "received_at": 1.0, "began_at": 1.0}
    await tx.execute(insert(turns_table).values(turn | more))
    [row] = await outbox.add(tx, item=item, lane=Lane(chat), parts=[Part("answer")], now=1.0)
    await outbox.mark_shown(tx, row, message_id=41, body=Part("answer"), now=1.0)
    return row


async def test_a_message_of_the_supergroup_is_not_taken_for_one_of_the_group_that_it_was(
    database: Database,
):
    async with database.transaction() as tx:
        old_row = await store_answer(tx, OLD, item=1)
        # Its buttons were about to change.
        await tx.execute(outbox_table.update().where(outbox_table.c.id == old_row).values(state="open"))
        await groups.move(tx, OLD, NEW)
        assert await verdicts.find_answer(tx, NEW, 41) is None
        await outbox.add_buttons(tx, old_row, (Button("Answer again", "again"),))
        new_row = await store_answer(tx, NEW, item=2)
        answer = await verdicts.find_answer(tx, NEW, 41)
        due = await outbox.list_due_lanes(tx)
    assert answer is not None
    assert answer.row == new_row
    assert due == []
