"""A chat has few, short notes of its own."""

from datetime import date

import pytest

from bot.db.conversations import notes
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database
from bot.domain import Lane
from tools.base import Note, ToolError

NOW = 1_700_000_000.0
LANE = Lane(5)


def notes_of(database: Database, lane: Lane = LANE) -> ChatNotes:
    return ChatNotes(database, lane, author="Anna", person=5, clock=lambda: NOW)


async def test_a_note_keeps_its_author_and_date(database: Database):
    assert await notes_of(database).add("  likes tea ") == 1
    assert await notes_of(database).all() == [Note(1, "likes tea", "Anna", date(2023, 11, 14))]


async def test_the_same_text_twice_is_one_note(database: Database):
    assert [await notes_of(database).add(text) for text in ("a", "b", "a")] == [1, 2, 1]
    assert len(await notes_of(database).all()) == 2


async def test_chats_do_not_see_the_notes_of_others(database: Database):
    await notes_of(database).add("secret")
    assert await notes_of(database, Lane(5, 7)).all() == []
    assert await notes_of(database, Lane(6)).add("own") == 1


@pytest.mark.parametrize("text", ["", "   ", "x" * 301])
async def test_an_empty_or_long_note_is_refused_with_the_allowed_length(database: Database, text: str):
    with pytest.raises(ToolError, match="1 to 300"):
        await notes_of(database).add(text)


async def test_a_full_chat_says_how_to_delete_notes(database: Database):
    for number in range(30):
        await notes_of(database).add(f"{number} " + "x" * 296)
    with pytest.raises(ToolError, match="/notes"):
        await notes_of(database).add("one more")
    assert await notes_of(database).add("3 " + "x" * 296) == 4


async def test_a_note_is_deleted_by_its_id_and_in_its_own_chat_only(database: Database):
    await notes_of(database).add("a")
    await notes_of(database).add("b")
    async with database.transaction() as tx:
        first, second = await notes.list_stored(tx, LANE)
        assert await notes.delete(tx, Lane(6), first.id) is None
        assert await notes.delete(tx, LANE, first.id) == 1
        assert await notes.delete(tx, LANE, first.id) is None
        assert await notes.list_stored(tx, LANE) == [second]
    assert await notes_of(database).add("c") == 3
