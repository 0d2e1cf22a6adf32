"""What the prompts of a group call its people: two of one name are told apart, and names stay as they are.

Functions work inside the caller's transaction `tx`.
"""

from itertools import count

from sqlalchemy import select

from bot.db.portable_sql import upsert
from bot.db.tables import group_speakers
from bot.db.transaction import Transaction
from bot.domain import Lane


async def find_name(tx: Transaction, lane: Lane, person: int) -> str | None:
    """Return what a lane's prompts call a person; None if they have not spoken there."""
    query = select(group_speakers.c.name).where(
        group_speakers.c.lane == lane.key, group_speakers.c.person == person
    )
    return (await tx.execute(query)).scalar_one_or_none()


async def add(tx: Transaction, lane: Lane, person: int, name: str) -> str:
    """Return what a lane's prompts call a person from now on: this name, with a number if others have it."""
    while True:
        known_name = await find_name(tx, lane, person)
        if known_name is not None:
            return known_name
        free_name = await _find_free_name(tx, lane, name)
        row = {"lane": lane.key, "person": person, "name": free_name}
        # Another process may have stored this person, or given this name to somebody else, a moment ago.
        if_free = upsert(group_speakers).values(row).on_conflict_do_nothing()
        if (await tx.execute(if_free.returning(group_speakers.c.name))).one_or_none() is not None:
            return free_name


async def _find_free_name(tx: Transaction, lane: Lane, name: str) -> str:
    query = select(group_speakers.c.name).where(group_speakers.c.lane == lane.key)
    taken_names = {taken.casefold() for taken in (await tx.execute(query)).scalars()}
    numbered_names = (f"{name} {number}" for number in count(2))
    free_name = name
    while free_name.casefold() in taken_names:
        free_name = next(numbered_names)
    return free_name
