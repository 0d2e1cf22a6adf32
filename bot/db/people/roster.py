"""Everybody with a role, as admins review them. Only reads.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import func, select

from bot.db.tables import people, turns
from bot.db.transaction import Transaction

ROLE_ORDER = ("admin", "member", "blocked")


@dataclass(frozen=True, slots=True)
class ReviewedPerson:
    """A person with a role.

    `let_in_by` None: nobody did. `reachable`: False once they block the bot. `last_turn_at` None: they have
    asked nothing that is kept.
    """

    id: int
    name: str
    role: str
    let_in_by: int | None
    reachable: bool
    last_turn_at: float | None

    @property
    def is_guest(self) -> bool:
        """Whether they wrote while the bot was open to all, and nobody let them in."""
        return self.role == "member" and self.let_in_by is None


async def list_reviewed_people(tx: Transaction) -> list[ReviewedPerson]:
    """Admins, then members, then blocked people, each by name."""
    last_turn = select(func.max(turns.c.began_at)).where(turns.c.person == people.c.id).scalar_subquery()
    columns = (people.c.id, people.c.name, people.c.role, people.c.let_in_by, people.c.reachable, last_turn)
    query = select(*columns).where(people.c.role.in_(ROLE_ORDER))
    found = [ReviewedPerson(*row) for row in await tx.execute(query)]
    return sorted(found, key=lambda person: (ROLE_ORDER.index(person.role), person.name.casefold()))
