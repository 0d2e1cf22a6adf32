"""What is read along in a group is bounded, kept once, changed by edits, and gone after a day."""

from typing import Any

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.people import group_texts
from bot.db.people.group_texts import MAX_BYTES, MAX_SECONDS, MAX_TEXTS, GroupText, StoredText
from bot.db.queues import incoming_updates
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.tables import group_texts as group_texts_table
from bot.domain import Lane

LANE = Lane(-100, 7)
NOW = 1_000_000.0
NEXT = 10_000  # the number of a message that comes after all others


def build_text(message_id: int, text: str = "lunch?", person: int = 5, **fields: Any) -> GroupText:
    return GroupText(LANE, message_id, person, "Ann", text, **{"written_at": NOW, **fields})


async def store(database: Database, *texts: GroupText, now: float = NOW) -> None:
    async with database.transaction() as tx:
        await group_texts.store(tx, texts, now=now)


async def load(
    database: Database, before_message: int = NEXT, now: float = NOW, lane: Lane = LANE
) -> tuple[StoredText, ...]:
    async with database.read_transaction() as tx:
        return await group_texts.load(tx, lane, before_message=before_message, now=now)


async def load_words(database: Database, before_message: int = NEXT, now: float = NOW) -> list[str]:
    return [text.text for text in await load(database, before_message, now)]


async def test_texts_are_kept_once_and_for_what_comes_after_them(database: Database):
    await store(database, build_text(1, "one"), build_text(2, "two"))
    await store(database, build_text(1, "one"), build_text(3, "three"))
    assert await load_words(database) == ["one", "two", "three"]
    assert await load_words(database, before_message=3) == ["one", "two"]
    assert await load(database, lane=Lane(-100)) == ()


async def test_an_edit_replaces_what_is_kept_and_adds_nothing(database: Database):
    await store(database, build_text(1, "twelve"), build_text(2, "fine"))
    await store(database, build_text(1, "one", is_edit=True), build_text(9, "new", is_edit=True))
    assert await load_words(database) == ["one", "fine"]


async def test_people_of_one_name_are_told_apart(database: Database):
    await store(database, build_text(1), build_text(2, person=6), build_text(3))
    assert [text.name for text in await load(database)] == ["Ann", "Ann 2", "Ann"]


@pytest.mark.parametrize(("length", "kept"), [(1, MAX_TEXTS), (1000, MAX_BYTES // 1000)])
async def test_the_oldest_leave_first(database: Database, length: int, kept: int):
    await store(database, *(build_text(number, f"{number:03}".ljust(length, ".")) for number in range(1, 61)))
    words = await load_words(database)
    assert [int(text[:3]) for text in words] == list(range(61 - kept, 61))


async def test_after_a_day_they_are_not_read_and_soon_gone(database: Database):
    await store(database, build_text(1, "old"), build_text(2, "newer", written_at=NOW + 60))
    assert await load_words(database, now=NOW + MAX_SECONDS + 1) == ["newer"]
    async with database.transaction() as tx:
        await group_texts.delete_old(tx, now=NOW + MAX_SECONDS + 1)
        assert (await tx.execute(select(group_texts_table.c.text))).scalars().all() == ["newer"]


async def test_what_a_turn_has_is_not_stored_again_when_telegram_repeats_it(database: Database):
    """After a crash before the next poll, all that came with a question comes again."""
    question = IncomingUpdate(1, "text", LANE, 5, "{}", stale=False, not_before=None, message_id=2)
    for _ in range(2):
        async with database.transaction() as tx:
            await group_texts.store(tx, [build_text(1, "one"), build_text(3, "three")], now=NOW)
            await incoming_updates.store(tx, [question], now=NOW)
            await group_texts.delete_texts(tx, await group_texts.load(tx, LANE, before_message=2, now=NOW))
    assert await load_words(database) == ["three"]
