"""Instructions that admins have given a name, for chats to use. Functions work inside the caller's `tx`."""

from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update

from bot.db.tables import instructions, personas
from bot.db.transaction import Transaction

MAX_PERSONAS = 10


@dataclass(frozen=True, slots=True)
class Persona:
    """A named text; the name is compared without regard to case."""

    id: int
    name: str
    text: str

    def has_name(self, name: str) -> bool:
        return self.name.casefold() == name.casefold()


async def list_all(tx: Transaction) -> list[Persona]:
    """All of them, by age."""
    rows = await tx.execute(select(personas).order_by(personas.c.id))
    return [Persona(row.id, row.name, row.text) for row in rows]


async def add(tx: Transaction, name: str, text: str) -> None:
    """Store a new one."""
    await tx.execute(insert(personas).values(name=name, text=text))


async def replace_text(tx: Transaction, persona: int, text: str) -> None:
    """Store its new text; conversations that have begun keep the earlier one."""
    await tx.execute(update(personas).where(personas.c.id == persona).values(text=text))


async def remove(tx: Transaction, persona: int) -> None:
    """Delete it; chats that use it have what they had before again."""
    has_only_this = (instructions.c.persona == persona) & (instructions.c.text == "")
    await tx.execute(delete(instructions).where(has_only_this))
    await tx.execute(update(instructions).where(instructions.c.persona == persona).values(persona=None))
    await tx.execute(delete(personas).where(personas.c.id == persona))
