"""The gate: who may talk to the bot, known without a look into the database, and how often strangers may try.

Owns the memory of everybody's role; whoever changes a role in the database tells it here once that is
committed.
"""

from collections.abc import Iterable
from typing import Literal

from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person, RoleOrBlocked
from bot.telegram.rate_limit import RateLimiter

ACCESS_LOST = "the person is not let in any more"
"""Why the turn of somebody who lost access ends, in the ledger's words."""

AccessMode = Literal["pairing", "allowlist", "open"]


class Access:
    """Roles by person. `fixed` are admins by the settings (ADMIN_IDS), whatever the database says of them."""

    def __init__(self, mode: AccessMode, configured_admins: Iterable[int] = ()) -> None:
        self.mode = mode
        self.configured_admins = frozenset(configured_admins)
        self._people: dict[int, Person] = {}
        self._code_attempts = RateLimiter(max_calls=5, window_seconds=3600)
        self._refusal_notices = RateLimiter(max_calls=1, window_seconds=3600)

    async def load(self, database: Database) -> None:
        """Read everybody's role; once, before the first message is handled."""
        async with database.read_transaction() as tx:
            self._people = {person.id: person for person in await people.list_people(tx)}

    def get_role(self, person: int) -> RoleOrBlocked | None:
        """The role of a person, None for a stranger. Guests of an open bot are strangers once it is open no
        more.
        """
        if person in self.configured_admins:
            return "admin"
        known = self._people.get(person)
        if known is None or (known.guest and self.mode != "open"):
            if self.mode == "open":
                return "member"
            return None
        return known.role

    def list_admins(self) -> tuple[int, ...]:
        """Everybody who is an admin."""
        return tuple(
            sorted({one.id for one in self._people.values() if one.role == "admin"} | self.configured_admins)
        )

    def is_new_guest(self, person: int) -> bool:
        """Whether a person may write though nobody has let them in, and this is their first message."""
        return self.get_role(person) == "member" and person not in self._people

    def remember(self, person: Person) -> None:
        """This person has a role now."""
        self._people[person.id] = person

    def forget(self, person: int) -> None:
        """This person has no role any more."""
        self._people.pop(person, None)

    def can_try_code(self, person: int, now: float) -> bool:
        """Whether a person may try another code: five times an hour."""
        return self._code_attempts.try_acquire(person, now)

    def can_send_refusal(self, person: int, now: float) -> bool:
        """Whether it is time to tell a stranger again that the bot is private: once an hour."""
        return self._refusal_notices.try_acquire(person, now)
