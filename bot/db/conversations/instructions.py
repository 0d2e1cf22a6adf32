"""What a chat or a topic wants of every answer: one short text, which a topic inherits from its chat.

A persona, a text that admins have given a name, is followed in its place. A conversation keeps the text it
began with. Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, bindparam, delete, select, update

from bot.db.portable_sql import replace_row, upsert
from bot.db.tables import instructions, personas
from bot.db.transaction import Transaction
from bot.domain import Lane

MAX_CHARACTERS = 1000
MAX_PERSONAS = 10

# Built once: building a statement costs more than running it.
_SELECT_OWN_AND_INHERITED = (
    select(instructions, personas.c.name.label("persona_name"), personas.c.text.label("persona_text"))
    .select_from(instructions.outerjoin(personas, personas.c.id == instructions.c.persona))
    .where(instructions.c.lane.in_((bindparam("own"), bindparam("inherited"))))
)


@dataclass(frozen=True, slots=True)
class Instructions:
    """The text that holds in a lane; empty: there is none, or a topic has chosen to follow none.

    `set_at`: when it was set (epoch seconds). `is_inherited`: it is the whole chat's. `persona`: whose text
    it is; None: the chat's own.
    """

    text: str = ""
    set_at: float = 0.0
    is_inherited: bool = False
    persona: str | None = None


@dataclass(frozen=True, slots=True)
class Persona:
    """A named text; the name is compared without regard to case."""

    id: int
    name: str
    text: str


async def find(tx: Transaction, lane: Lane) -> Instructions:
    """What holds in a lane: its own text, else that of its chat; nothing in a chat of others."""
    if lane.is_guest:
        return Instructions()
    inherited = Lane(lane.chat).key
    rows = await tx.execute(_SELECT_OWN_AND_INHERITED, {"own": lane.key, "inherited": inherited})
    by_lane = {row.lane: row for row in rows}
    row = by_lane.get(lane.key) or by_lane.get(inherited)
    if row is None:
        return Instructions()
    text = row.text if row.persona_text is None else row.persona_text
    return Instructions(text, row.set_at, is_inherited=row.lane != lane.key, persona=row.persona_name)


async def put(tx: Transaction, lane: Lane, text: str, *, person: int, now: float) -> None:
    """Store the text of a lane in place of an earlier one."""
    row = {"lane": lane.key, "text": text, "person": person, "set_at": now, "persona": None}
    await tx.execute(replace_row(instructions, row))


async def use_persona(tx: Transaction, lane: Lane, persona: int, *, person: int, now: float) -> None:
    """Have a persona followed in a lane; its own text stays for later."""
    row = {"persona": persona, "person": person, "set_at": now}
    statement = upsert(instructions).values({"lane": lane.key, "text": "", **row})
    await tx.execute(statement.on_conflict_do_update(index_elements=["lane"], set_=row))


async def leave_persona(tx: Transaction, lane: Lane) -> None:
    """Have the lane's own text followed again, or what it inherits."""
    await _leave(tx, instructions.c.lane == lane.key)


async def remove(tx: Transaction, lane: Lane) -> None:
    """Delete the lane's own text."""
    await tx.execute(delete(instructions).where(instructions.c.lane == lane.key))


async def list_personas(tx: Transaction) -> list[Persona]:
    """All personas, by age."""
    rows = await tx.execute(select(personas).order_by(personas.c.id))
    return [Persona(**row) for row in rows.mappings()]


async def find_persona(tx: Transaction, name: str) -> Persona | None:
    """The persona of this name."""
    stored = await list_personas(tx)
    return next((persona for persona in stored if persona.name.casefold() == name.casefold()), None)


async def put_persona(tx: Transaction, name: str, text: str) -> None:
    """Store a persona in place of one of exactly this name; conversations that have begun keep its text."""
    row = {"name": name, "text": text}
    added = upsert(personas).values(row).on_conflict_do_update(index_elements=["name"], set_={"text": text})
    await tx.execute(added)


async def remove_persona(tx: Transaction, persona: int) -> None:
    """Delete a persona; chats that use it have what they had before again."""
    await _leave(tx, instructions.c.persona == persona)
    await tx.execute(delete(personas).where(personas.c.id == persona))


async def _leave(tx: Transaction, is_concerned: ColumnElement[bool]) -> None:
    await tx.execute(delete(instructions).where(is_concerned, instructions.c.text == ""))
    await tx.execute(update(instructions).where(is_concerned).values(persona=None))
