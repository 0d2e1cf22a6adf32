"""The notes of a chat: few, short, numbered, each with its author and date. Functions work inside `tx`.

`ChatNotes` gives the notes of one lane to tools.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import delete as delete_rows
from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.engine import Database
from bot.db.tables import notes
from bot.domain import Lane
from tools.base import Note, ToolError

MAX_NOTES = 30
MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A note and the id that names it for ever; its number may be given again once it is deleted."""

    id: int
    note: Note


async def add(tx: AsyncConnection, lane: Lane, text: str, *, author: str, person: int, now: float) -> int:
    """Keep a note and give its number; one that says the same gives the number of the one that is there.

    Raises ToolError when the lane has MOST notes, or the text is empty or longer than LONGEST characters.
    """
    text = text.strip()
    if not text or len(text) > MAX_CHARACTERS:
        raise ToolError(
            f"A note has 1 to {MAX_CHARACTERS} characters, this one has {len(text)}. Make it shorter."
        )
    here = notes.c.lane == lane.key
    same = (await tx.execute(select(notes.c.number).where(here, notes.c.text == text))).scalar()
    if same is not None:
        return int(same)
    count, highest = (await tx.execute(select(func.count(), func.max(notes.c.number)).where(here))).one()
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


async def list_stored(tx: AsyncConnection, lane: Lane) -> list[StoredNote]:
    """The notes of the lane with their ids, the oldest first."""
    rows = await tx.execute(select(notes).where(notes.c.lane == lane.key).order_by(notes.c.number))
    return [
        StoredNote(
            row.id, Note(row.number, row.text, row.author, datetime.fromtimestamp(row.made_at, UTC).date())
        )
        for row in rows
    ]


async def list_all(tx: AsyncConnection, lane: Lane) -> list[Note]:
    """The notes of the lane, the oldest first."""
    return [one.note for one in await list_stored(tx, lane)]


async def delete(tx: AsyncConnection, lane: Lane, note_id: int) -> int | None:
    """Delete the note with this id; the number it had, or None if the lane has no such note."""
    gone = delete_rows(notes).where(notes.c.lane == lane.key, notes.c.id == note_id).returning(notes.c.number)
    return (await tx.execute(gone)).scalar()


class ChatNotes:
    """The notes of one lane as tools see them; `author` and `person` are who speaks in this turn."""

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
        """Keep a note and give its number; raises ToolError when it does not fit."""
        async with self._database.transaction() as tx:
            return await add(
                tx, self._lane, text, author=self._author, person=self._person, now=self._clock()
            )

    async def all(self) -> list[Note]:
        """Every note of the chat, oldest first."""
        async with self._database.read_transaction() as tx:
            return await list_all(tx, self._lane)
