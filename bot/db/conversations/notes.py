"""The notes of a lane: few, short, numbered, each with its author and date.

`ChatNotes` gives the notes of one lane to tools. Functions work inside the caller's transaction `tx`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, func, insert, select
from sqlalchemy import delete as delete_rows

from bot.db.engine import Database
from bot.db.tables import notes
from bot.db.transaction import Transaction
from bot.domain import Lane
from tools.base import Note, ToolError

MAX_NOTES = 30
MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A note and its permanent id; its number may be given to another note once it is deleted."""

    id: int
    note: Note


async def add(tx: Transaction, lane: Lane, text: str, *, author: str, person: int, now: float) -> int:
    """Store a note and return its number; if a note with the same text exists, return the number of that one.

    Raises ToolError when the lane has MAX_NOTES notes, or the text is empty or longer than MAX_CHARACTERS.
    """
    text = text.strip()
    if not text or len(text) > MAX_CHARACTERS:
        raise ToolError(
            f"A note has 1 to {MAX_CHARACTERS} characters, this one has {len(text)}. Make it shorter."
        )
    in_lane = notes.c.lane == lane.key
    existing = (await tx.execute(select(notes.c.number).where(in_lane, notes.c.text == text))).scalar()
    if existing is not None:
        return int(existing)
    count, highest = (await tx.execute(select(func.count(), func.max(notes.c.number)).where(in_lane))).one()
    if count >= MAX_NOTES:
        raise ToolError(
            f"This chat has {MAX_NOTES} notes, and no more fit. The person can delete some with /notes."
        )
    number = (highest or 0) + 1
    row = {
        "lane": lane.key,
        "number": number,
        "text": text,
        "author": author,
        "person": person,
        "made_at": now,
    }
    await tx.execute(insert(notes).values(row))
    return number


async def list_stored(tx: Transaction, lane: Lane) -> list[StoredNote]:
    """The notes of the lane with their ids, the oldest first."""
    rows = await tx.execute(select(notes).where(notes.c.lane == lane.key).order_by(notes.c.number))
    return [StoredNote(row.id, _to_note(row)) for row in rows]


async def list_all(tx: Transaction, lane: Lane) -> list[Note]:
    """The notes of the lane, the oldest first."""
    return [stored.note for stored in await list_stored(tx, lane)]


async def delete(tx: Transaction, lane: Lane, note_id: int) -> int | None:
    """Delete the note with this id; returns the number it had, or None if the lane has no such note."""
    note = delete_rows(notes).where(notes.c.lane == lane.key, notes.c.id == note_id)
    return (await tx.execute(note.returning(notes.c.number))).scalar()


def _to_note(row: Row[Any]) -> Note:
    return Note(row.number, row.text, row.author, datetime.fromtimestamp(row.made_at, UTC).date())


class ChatNotes:
    """The notes of one lane as tools use them; `author` and `person` are the sender of the turn."""

    def __init__(
        self,
        database: Database,
        lane: Lane,
        *,
        author: str,
        person: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._lane = lane
        self._author = author
        self._person = person
        self._clock = clock

    async def add(self, text: str) -> int:
        """Store a note and return its number; raises ToolError when it does not fit."""
        async with self._database.transaction() as tx:
            return await add(
                tx, self._lane, text, author=self._author, person=self._person, now=self._clock()
            )

    async def all(self) -> list[Note]:
        """Every note of the chat, oldest first."""
        async with self._database.read_transaction() as tx:
            return await list_all(tx, self._lane)
