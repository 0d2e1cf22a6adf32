"""Groups are stored with their settings; a group keeps its number, and its rows, as a supergroup."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Text, func, insert, select

from bot.db import revisions
from bot.db.conversations import notes, verdicts
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.queues import outbox
from bot.db.tables import grants, inbox, limits, metadata, seat_requests
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


async def test_every_row_of_the_supergroup_joins_those_of_the_group(database: Database):
    async with database.transaction() as tx:
        await fill(tx, NEW)
        before = await count_rows(tx, NEW)
        assert not await groups.move(tx, OLD, NEW)  # a group that nobody knows has nothing
        assert await count_rows(tx, NEW) == before
        await groups.put(tx, FAMILY)
        assert await groups.move(tx, OLD, NEW)
        assert await groups.move(tx, OLD, NEW)  # Telegram says it in two messages
        after = await count_rows(tx, OLD)
        left = await count_rows(tx, NEW)
        bumped = await revisions.read(tx, [revisions.TOOLS])
        assert bumped == {revisions.TOOLS: 2}  # a running gateway loads the grants again
        assert await groups.find_lane(tx, Lane(NEW, 3)) == Lane(OLD, 3)
        assert await groups.find_lane(tx, Lane(NEW - 1)) == Lane(NEW - 1)
    assert set(before.values()) == {1}
    assert after == before
    assert set(left.values()) == {0}


async def test_a_group_keeps_its_rows_as_it_becomes_a_supergroup(database: Database):
    async with database.transaction() as tx:
        await fill(tx, OLD)
        before = await count_rows(tx, OLD)
        await groups.move(tx, OLD, NEW)
        assert await count_rows(tx, OLD) == before
        [group] = await groups.list_groups(tx)
    assert group.number == NEW
    assert group.has_number(OLD)
    assert group.has_number(NEW)


async def test_nothing_of_a_supergroup_joins_its_group_while_a_turn_runs_there(database: Database):
    async with database.transaction() as tx:
        await groups.put(tx, FAMILY)
        await notes.add(tx, Lane(NEW), "of a supergroup", author="Ann", person=5, now=1.0)
        row = {"kind": "update", "shape": "text", "lane": str(NEW), "state": "running", "received_at": 1.0}
        await tx.execute(insert(inbox).values(row))
    async with database.transaction() as tx:
        assert not await groups.move(tx, OLD, NEW)
        assert await groups.list_groups(tx) == [FAMILY]
        await tx.execute(inbox.update().values(state="done"))
        assert await groups.move(tx, OLD, NEW)
        assert len(await notes.list_all(tx, Lane(OLD))) == 1


async def test_what_the_supergroup_has_already_gives_way(database: Database):
    async with database.transaction() as tx:
        for chat, title in ((OLD, "Family"), (NEW, "Family, upgraded")):
            await groups.put(tx, replace(FAMILY, chat=chat, title=title))
            for number in (1, 2):
                await notes.add(tx, Lane(chat), f"{number} of {title}", author="Ann", person=5, now=1.0)
    async with database.transaction() as tx:
        await groups.move(tx, OLD, NEW)
        stored = await groups.list_groups(tx)
        texts = [(note.number, note.text) for note in await notes.list_all(tx, Lane(OLD))]
    assert stored == [replace(FAMILY, other_chat=NEW)]
    assert texts == [
        (1, "1 of Family"),
        (2, "2 of Family"),
        (3, "1 of Family, upgraded"),
        (4, "2 of Family, upgraded"),
    ]


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
        await groups.put(tx, FAMILY)
        await groups.move(tx, OLD, NEW)
        assert await verdicts.find_answer(tx, OLD, 41) is None
        await outbox.add_buttons(tx, old_row, (Button("Answer again", "again"),))
        new_row = await store_answer(tx, NEW, item=2)
        await groups.move(tx, OLD, NEW)
        assert await verdicts.find_answer(tx, OLD, 41) is None
        answer = await verdicts.find_answer(tx, OLD, groups.OTHER_MESSAGES + 41)
        due = await outbox.list_due_lanes(tx)
    assert answer is not None
    assert answer.row == new_row
    assert due == []
