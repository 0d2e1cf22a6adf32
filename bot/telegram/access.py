"""The gate: who may talk to the bot, known without a look into the database, and how often strangers may try.

Owns the memory of everybody's role; whoever changes a role in the database tells it here once that is
committed.
"""

from collections.abc import Iterable
from typing import Literal

from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person, Standing
from bot.telegram.rate_limit import Allowance

NOT_LET_IN = "the person is not let in any more"
"""Why the turn of somebody who lost access ends, in the ledger's words."""

Mode = Literal["pairing", "allowlist", "open"]


class Access:
    """Roles by person. `fixed` are admins by the settings (ADMIN_IDS), whatever the database says of them."""

    def __init__(self, mode: Mode, fixed: Iterable[int] = ()) -> None:
        self.mode = mode
        self.fixed = frozenset(fixed)
        self._people: dict[int, Person] = {}
        self._tries = Allowance(times=5, seconds=3600)
        self._refusals = Allowance(times=1, seconds=3600)

    async def load(self, database: Database) -> None:
        """Read everybody's role; once, before the first message is handled."""
        async with database.reading() as tx:
            self._people = {person.id: person for person in await people.everyone(tx)}

    def standing(self, person: int) -> Standing | None:
        """The role of a person, None for a stranger. Guests of an open bot are strangers once it is open no
        more.
        """
        if person in self.fixed:
            return "admin"
        known = self._people.get(person)
        if known is None or (known.guest and self.mode != "open"):
            if self.mode == "open":
                return "member"
            return None
        return known.role

    def admins(self) -> tuple[int, ...]:
        """Everybody who is an admin."""
        return tuple(sorted({one.id for one in self._people.values() if one.role == "admin"} | self.fixed))

    def is_new(self, person: int) -> bool:
        """Whether a person may write though nobody has let them in, and this is their first message."""
        return self.standing(person) == "member" and person not in self._people

    def remember(self, person: Person) -> None:
        """This person has a role now."""
        self._people[person.id] = person

    def forget(self, person: int) -> None:
        """This person has no role any more."""
        self._people.pop(person, None)

    def may_try(self, person: int, now: float) -> bool:
        """Whether a person may try another code: five times an hour."""
        return self._tries.take(person, now)

    def may_be_refused(self, person: int, now: float) -> bool:
        """Whether it is time to tell a stranger again that the bot is private: once an hour."""
        return self._refusals.take(person, now)
