"""The migrations lead to the tables in both databases, and both store and compare values alike."""

from collections.abc import Sequence

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Text, create_engine, delete, func, insert, inspect, select

from bot.db.engine import Database
from bot.db.portable_sql import JsonField, ListMembership, Position, WholePart
from bot.db.tables import inbox, messages, metadata, model_calls, notices, readings, turns
from bot.domain import Lane
from bot.llm.stream import MAX_MODEL_CHARS

WILD_TEXTS = (
    "",
    "a\0b\0\0c",
    "\ufdd0",
    "\ufdd00 \ufdd01\0",
    "\U0001f600 é 字 \x01\x1f\u2028\uffff",
    r"C:\new 'quoted' \"twice\" %s %(name)s :bound $1 {}",
    "字" * 350_000,
)


def test_migrations_lead_to_the_tables(database_url: str):
    engine = create_engine(database_url.replace("+aiosqlite", ""))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []
        if engine.dialect.name == "postgresql":  # where texts may be ordered by a language
            columns = [
                (table, column["name"], column["type"].collation)
                for table in metadata.tables
                for column in inspect(connection).get_columns(table)
                if isinstance(column["type"], Text)
            ]
            assert [column for column in columns if column[2] != "C"] == []
    engine.dispose()


async def add_notice(database: Database, subject: str, text: str) -> None:
    async with database.transaction() as tx:
        await tx.execute(insert(notices).values(subject=subject, text=text, told_at=0.0))


async def test_any_text_is_read_as_it_was_stored(database: Database):
    for number, text in enumerate(WILD_TEXTS):
        await add_notice(database, str(number), text)
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(notices.c.text).order_by(notices.c.subject))).scalars().all()
        assert tuple(rows) == WILD_TEXTS
        for number, text in enumerate(WILD_TEXTS):
            found = select(notices.c.subject).where(notices.c.text == text)
            assert (await tx.execute(found)).scalars().all() == [str(number)]
            maximum = select(func.max(notices.c.text)).where(notices.c.text == text)
            assert (await tx.execute(maximum)).scalar_one() == text


async def test_texts_are_ordered_by_code_points(database: Database):
    subjects = ["-1", "-1:2", "-1;", "-10", "A", "B", "_", "a", "b", "Ä", "ä", "字", "\U0001f600"]
    for subject in reversed(subjects):
        await add_notice(database, subject, "")
    async with database.read_transaction() as tx:
        ordered = select(notices.c.subject).order_by(notices.c.subject)
        assert (await tx.execute(ordered)).scalars().all() == sorted(subjects)
        topics = ordered.where(notices.c.subject > "-1:", notices.c.subject < "-1;")
        assert (await tx.execute(topics)).scalars().all() == ["-1:2"]


async def test_numbers_are_as_large_as_they_come_and_sums_are_integers(database: Database):
    largest = 2**53 - 1
    row = {
        "endpoint": "main",
        "read_at": 1.5,
        "totals": "{}",
        "running": largest,
        "why": "",
        "gap": -largest,
    }
    async with database.transaction() as tx:
        for _ in range(3):
            await tx.execute(insert(readings).values(row))
        sums = select(func.sum(readings.c.running), func.sum(readings.c.gap), func.sum(readings.c.read_at))
        running, gap, read_at = (await tx.execute(sums)).one()
    assert (running, gap, read_at) == (3 * largest, -3 * largest, 4.5)
    assert [type(value) for value in (running, gap, read_at)] == [int, int, float]


async def test_the_longest_name_of_a_model_can_be_indexed(database: Database):
    name = "".join(chr(0x10000 + 7919 * number % 60_000) for number in range(MAX_MODEL_CHARS))
    call = {"turn": 1, "step": 1, "purpose": "turn", "endpoint": "main", "model": name, "thinking": False}
    async with database.transaction() as tx:
        await tx.execute(insert(model_calls).values(call | {"tools_offered": 0, "created_at": 1.0}))
        assert (await tx.execute(select(model_calls.c.model))).scalar_one() == name


async def test_an_id_is_never_given_again(database: Database):
    new_row = insert(messages).returning(messages.c.id)
    turn = {"item": 1, "lane": Lane(7).key, "person": 7, "conversation": 1, "state": "running"}
    decided = {"tools": "[]", "thinking": False, "thinking_why": "", "received_at": 1.0, "began_at": 1.0}
    async with database.transaction() as tx:
        turn_id = (await tx.execute(insert(turns).values(turn | decided).returning(turns.c.id))).scalar_one()
        row = {"turn": turn_id, "role": "user", "text": "", "made_at": 1.0}
        first = (await tx.execute(new_row, row)).scalar_one()
        await tx.execute(delete(messages))
        assert (await tx.execute(new_row, row)).scalar_one() > first


async def test_a_field_is_read_of_any_json_and_of_what_is_none(database: Database):
    bodies = {
        '{"message": {"chat": {"id": -100123456789}}, "text": "\\u0000 \\ud800"}': "-100123456789",
        '{"message": {"chat": {"id": "word:7"}}}': "word:7",
        '{"message": {"chat": {"id": null}}}': None,
        '{"message": {"chat": 1}}': None,
        "[]": None,
        "no JSON": None,
        "": None,
        "{": None,
    }
    for number, body in enumerate(bodies):
        await add_notice(database, str(number), body)
    query = select(JsonField(notices.c.text, "message.chat.id")).order_by(notices.c.subject)
    async with database.read_transaction() as tx:
        assert (await tx.execute(query)).scalars().all() == [*bodies.values()]


async def test_fractions_are_cut_and_not_rounded(database: Database):
    await add_notice(database, "one", "refused: it (said ): so)")
    async with database.transaction() as tx:
        await tx.execute(insert(inbox).values(kind="update", shape="text", received_at=86_400 * 1.75))
        day = select(WholePart(inbox.c.received_at / 86_400))
        assert (await tx.execute(day)).scalar_one() == 1
        canvases = select(func.sum((inbox.c.id + 510) // 256))
        assert (await tx.execute(canvases)).scalar_one() == 1
        assert (await tx.execute(select(Position(notices.c.text, "): ")))).scalar_one() == 19
        assert (await tx.execute(select(Position(notices.c.text, "nowhere")))).scalar_one() == 0


@pytest.mark.parametrize(
    ("listed", "found"), [((), []), ((2,), [2]), ((4, 99, 1), [1, 4]), (range(-500, 500), [1, 2, 3, 4])]
)
async def test_integers_are_listed_by_one_value(database: Database, listed: Sequence[int], found: list[int]):
    query = select(inbox.c.id).where(ListMembership(inbox.c.id, "ids")).order_by(inbox.c.id)
    async with database.transaction() as tx:
        for _ in range(4):
            await tx.execute(insert(inbox).values(kind="update", shape="text", received_at=1.0))
        assert (await tx.execute(query, {"ids": listed})).scalars().all() == found


async def test_what_is_unknown_is_neither_first_nor_last_by_chance(database: Database):
    """The order of NULL is told wherever it matters: the databases differ in it."""
    call = {"step": 1, "purpose": "turn", "endpoint": "main", "model": "m", "thinking": False}
    async with database.transaction() as tx:
        for seat_at in (1.0, None):
            values = call | {"tools_offered": 0, "created_at": 1.0, "seat_at": seat_at}
            await tx.execute(insert(model_calls).values(values))
        newest = select(model_calls.c.seat_at).order_by(model_calls.c.seat_at.desc().nulls_last())
        assert (await tx.execute(newest)).scalars().all() == [1.0, None]
