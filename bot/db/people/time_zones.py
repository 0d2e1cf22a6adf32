"""The time zones of people, by their IANA names. Works inside `tx`."""

from sqlalchemy import select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import people


async def find(tx: AsyncConnection, person: int) -> str | None:
    """Somebody's zone; None: nobody knows it."""
    return (await tx.execute(select(people.c.zone).where(people.c.id == person))).scalar()


async def put(tx: AsyncConnection, person: int, zone: str) -> None:
    """Keep somebody's zone."""
    await tx.execute(update(people).where(people.c.id == person).values(zone=zone))


async def ensure_person(tx: AsyncConnection, person: int, name: str, *, now: float) -> None:
    """Somebody whom the settings let in has a row of their own, which gives them no right the settings do
    not.
    """
    row = {"id": person, "name": name, "role": "member", "since": now, "let_in_by": None}
    await tx.execute(insert(people).values(row).on_conflict_do_nothing(index_elements=["id"]))
