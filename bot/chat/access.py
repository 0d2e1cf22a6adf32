"""Who may talk to the bot and in which language, without a database query; how often strangers may try.

Owns the in-memory copy of everybody's role and languages; code that changes them in the database calls
`remember`, `forget` or `remember_languages` once that is committed. What another replica changes is read
again. A stranger's attempts are counted where their private chat is answered: by one replica at a time.
"""

from collections.abc import Iterable
from typing import Literal

from bot.chat.group_directory import GroupDirectory
from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person, PersonLanguages, RoleOrBlocked
from bot.domain import Lane
from bot.rate_limit import RateLimiter
from bot.translations.translator import Translator, load_translator

ACCESS_LOST = "the person is not let in any more"
"""The reason stored with a turn that ends because its person lost access."""

AccessMode = Literal["pairing", "allowlist", "open"]


class Access:
    """Roles by person.

    `configured_admins` are admins by the settings (ADMIN_IDS), regardless of the database.
    """

    def __init__(self, mode: AccessMode, configured_admins: Iterable[int] = ()) -> None:
        self.mode = mode
        self.configured_admins = frozenset(configured_admins)
        self._people: dict[int, Person] = {}
        self._languages: dict[int, PersonLanguages] = {}
        self._code_attempts = RateLimiter(max_calls=5, window_seconds=3600)
        self._refusal_notices = RateLimiter(max_calls=1, window_seconds=3600)

    async def load(self, database: Database) -> None:
        """Read everybody's role and languages: before the first message is handled, and once they changed."""
        async with database.read_transaction() as tx:
            stored_people = await people.list_people(tx)
            languages = await people.load_languages(tx)
        self._people = {person.id: person for person in stored_people}
        self._languages = languages

    def get_role(self, person: int) -> RoleOrBlocked | None:
        """Return the role of a person, None for a stranger.

        Guests of an open bot are strangers once it is no longer open. A group, as which its anonymous
        administrators write, has a negative number and is nobody's guest.
        """
        if person in self.configured_admins:
            return "admin"
        row = self._people.get(person)
        if row is None and self.mode == "open" and person > 0:
            return "member"
        if row is None or (row.guest and self.mode != "open"):
            return None
        return row.role

    def has_access(self, person: int) -> bool:
        """Whether a person may use the bot by themselves, and not only in a group that is open to all."""
        return self.get_role(person) in {"admin", "member"}

    def list_admins(self) -> tuple[int, ...]:
        """Return the ids of all admins, in order."""
        stored = {person.id for person in self._people.values() if person.role == "admin"}
        return tuple(sorted(stored | self.configured_admins))

    def list_speakers(self) -> frozenset[int]:
        """Return the ids of all people who may write, known guests of an open bot included."""
        everyone = self.configured_admins | self._people.keys()
        return frozenset(person for person in everyone if self.get_role(person) in {"admin", "member"})

    def is_new_guest(self, person: int) -> bool:
        """Whether a person may write although nobody has let them in, and this is their first message."""
        return self.get_role(person) == "member" and person not in self._people

    def remember(self, person: Person) -> None:
        """Note that this person has a role now."""
        self._people[person.id] = person

    def forget(self, person: int) -> None:
        """Note that this person no longer has a role."""
        self._people.pop(person, None)
        self._languages.pop(person, None)

    def get_languages(self, person: int) -> PersonLanguages:
        """Return the languages of a person, as far as they are known."""
        return self._languages.get(person, PersonLanguages())

    def remember_languages(self, person: int, languages: PersonLanguages) -> None:
        """Note the languages of a person with a role."""
        self._languages[person] = languages

    def get_translator(self, person: int) -> Translator:
        """Return the translator into a person's language: the one they chose, else Telegram's."""
        return load_translator(self.get_languages(person).effective)

    def can_try_code(self, person: int, now: float) -> bool:
        """Count an attempt to enter a code; False after five within an hour."""
        return self._code_attempts.try_acquire(person, now)

    def can_send_refusal(self, person: int, now: float) -> bool:
        """Count a notice to a stranger that the bot is private; False if one was sent within an hour."""
        return self._refusal_notices.try_acquire(person, now)


def find_role(access: Access, groups: GroupDirectory, person: int, lane: Lane) -> RoleOrBlocked | None:
    """Return the role of a person in a lane; None for somebody who is not answered there.

    In a group the bot answers whom it answers elsewhere, and everybody if an admin has set that. Its
    anonymous administrators are not known by name: they count as the group, which was let in.
    """
    if not lane.is_group:
        return access.get_role(person)
    group = groups.find_open(lane.chat)
    if group is None:
        return None
    if group.has_number(person):
        return "member"
    role = access.get_role(person)
    return "member" if role is None and group.speakers == "everyone" else role
