"""People and their roles, time zones and languages, single-use invites, and strangers who ask to be let in.

Codes of links are stored as hashes only. Functions work inside the caller's transaction `tx`.
"""

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Row, and_, delete, exists, func, insert, or_, select, update

from bot.db import revisions
from bot.db.people import page_sessions
from bot.db.portable_sql import replace_row, upsert
from bot.db.tables import groups, inbox, invites, people, strangers, turns
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.translations.formats import format_series
from bot.translations.translator import ENGLISH, Translator, load_translator

RoleOrBlocked = Literal["admin", "member", "blocked"]
Role = Literal["admin", "member"]

COMMAND_LINE_INVITER = 0  # the inviter of people who used a link made on the command line
FIRST_ADMIN_MINUTES = 60
MAX_STRANGERS = 50
STRANGER_CODE_SECONDS = 3600
STRANGER_REPLY_INTERVAL_SECONDS = 600
_IS_OWNERS_INVITE = and_(
    invites.c.made_by == COMMAND_LINE_INVITER, invites.c.role == "admin", invites.c.used_by.is_(None)
)
_REMOVED = "removed"  # the role of those who have none
_HAS_ROLE = people.c.role != _REMOVED
_CODE_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ"  # no digits, so that a code is never mistaken for a user id


@dataclass(frozen=True, slots=True)
class Person:
    """A person with a role. `guest`: nobody let them in, they wrote while the bot was open to all."""

    id: int
    name: str
    role: RoleOrBlocked
    guest: bool = False


@dataclass(frozen=True, slots=True)
class PersonLanguages:
    """The language a person has chosen (None: none), and the one that Telegram names for them."""

    chosen: str | None = None
    telegram: str | None = None

    @property
    def effective(self) -> str:
        """The language that they are written to in."""
        return self.chosen or self.telegram or ENGLISH.language


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody without a role who wrote: when they got their code and when it expires (epoch seconds)."""

    id: int
    name: str
    code: str
    asked_at: float
    expires_at: float
    language: str | None


@dataclass(frozen=True, slots=True)
class Invite:
    """A link that lets one person in, by the hash of its code; `expires_at` is in epoch seconds."""

    code_hash: str
    role: Role
    made_by: int
    expires_at: float


async def list_people(tx: Transaction) -> list[Person]:
    """All people with a role: admins, then members, then blocked people, each the newest first."""
    order = (people.c.role != "admin", people.c.role == "blocked", people.c.since.desc(), people.c.id)
    return [_to_person(row) for row in await tx.execute(select(people).where(_HAS_ROLE).order_by(*order))]


async def list_names(tx: Transaction) -> dict[int, str]:
    """The names of people by number, also of those removed of whom texts are kept; and titles of groups."""
    names = {row.id: row.name for row in await tx.execute(select(people.c.id, people.c.name))}
    titles = {row.chat: row.title for row in await tx.execute(select(groups.c.chat, groups.c.title))}
    return names | titles


async def find(tx: Transaction, person: int) -> Person | None:
    """This person, if they have a role."""
    row = (await tx.execute(select(people).where(people.c.id == person, _HAS_ROLE))).one_or_none()
    if row:
        return _to_person(row)
    return None


async def find_id(tx: Transaction, number_or_name: str) -> int:
    """The number of a person, by itself or by their name. Raises ChangeRefused for nobody, or several."""
    text = " ".join(number_or_name.split()).removeprefix("@")
    if re.fullmatch(r"[1-9][0-9]{0,15}", text, re.ASCII):
        return int(text)
    matches = [person.id for person in await list_people(tx) if person.name.casefold() == text.casefold()]
    if not matches:
        raise ChangeRefused(
            "Nobody with access is called {text}. /people lists names and numbers.", text=text[:40]
        )
    if len(matches) > 1:
        raise ChangeRefused(
            "Several people are called {text}. Say which one by number: {numbers}.",
            text=text[:40],
            numbers=partial(format_series, words=[str(number) for number in matches]),
        )
    return matches[0]


async def put(
    tx: Transaction,
    person: int,
    name: str,
    role: RoleOrBlocked,
    *,
    let_in_by: int | None = None,
    now: float,
) -> None:
    """Give somebody a role, and remove them from the strangers. An admin voids the owner's unused link.

    Who is no admin then is logged out of the admin page, and links that they made let nobody in.
    `let_in_by` is COMMAND_LINE_INVITER for a link made on the command line, None if nobody let them in.
    """
    values = {"name": name, "role": role, "let_in_by": let_in_by}
    row = values | {"id": person, "since": now, "reachable": True}
    await tx.execute(upsert(people).values(row).on_conflict_do_update(index_elements=["id"], set_=values))
    await tx.execute(delete(strangers).where(strangers.c.id == person))
    await revisions.bump(tx, revisions.PEOPLE)
    if role == "admin":
        await tx.execute(delete(invites).where(_IS_OWNERS_INVITE))
    else:
        await _end_admin_rights(tx, person)


async def _end_admin_rights(tx: Transaction, person: int) -> None:
    """End what an admin has on the page, and has handed out that nobody has used."""
    await page_sessions.end_sessions(tx, person)
    await tx.execute(delete(invites).where(invites.c.made_by == person, invites.c.used_by.is_(None)))


async def remove(tx: Transaction, person: int, *, now: float) -> None:
    """Make somebody a stranger again; they are logged out of the admin page, and their links end.

    Reports name them as long as a text of theirs is kept.
    """
    removed = {"role": _REMOVED, "since": now, "let_in_by": None, "reachable": True, "zone": None}
    await tx.execute(update(people).where(people.c.id == person).values(removed))
    await revisions.bump(tx, revisions.PEOPLE)
    await _end_admin_rights(tx, person)
    await forget_removed(tx)


async def forget_removed(tx: Transaction) -> None:
    """Delete the names of removed people of whom no text is kept."""
    has_texts = exists().where(turns.c.person == people.c.id, turns.c.state != "forgotten")
    await tx.execute(delete(people).where(people.c.role == _REMOVED, ~has_texts))


async def set_reachable(tx: Transaction, person: int, *, reachable: bool) -> None:
    """Store whether messages reach this person: False once they block the bot."""
    await tx.execute(update(people).where(people.c.id == person).values(reachable=reachable))


async def list_admins(tx: Transaction, *, reachable_only: bool = False) -> list[int]:
    """Every person whose role is admin; `reachable_only`: only those who have not blocked the bot."""
    query = select(people.c.id).where(people.c.role == "admin").order_by(people.c.id)
    if reachable_only:
        query = query.where(people.c.reachable.is_(True))
    return list((await tx.execute(query)).scalars())


async def load_role(tx: Transaction, person: int, configured_admins: Collection[int]) -> RoleOrBlocked | None:
    """The role that somebody has in this transaction; `configured_admins` are those of the settings."""
    if person in configured_admins:
        return "admin"
    known_person = await find(tx, person)
    return None if known_person is None else known_person.role


async def list_unreachable(tx: Transaction) -> set[int]:
    """People who have blocked the bot."""
    return set((await tx.execute(select(people.c.id).where(people.c.reachable.is_(False)))).scalars())


async def list_busy_lanes(tx: Transaction, person: int) -> list[Lane]:
    """The lanes in which something runs for this person."""
    running = and_(inbox.c.state == "running", inbox.c.sender == person, inbox.c.lane.is_not(None))
    lane_keys = await tx.execute(select(inbox.c.lane).distinct().where(running))
    return [Lane.parse(key) for key in lane_keys.scalars()]


async def find_time_zone(tx: Transaction, person: int) -> str | None:
    """A person's time zone by its IANA name; None: it is not known."""
    return (await tx.execute(select(people.c.zone).where(people.c.id == person))).scalar()


async def load_zone(tx: Transaction, person: int, default: str) -> ZoneInfo:
    """A person's time zone, or that of the name `default`."""
    return ZoneInfo(await find_time_zone(tx, person) or default)


async def set_time_zone(tx: Transaction, person: int, zone: str) -> None:
    """Store a person's time zone."""
    await tx.execute(update(people).where(people.c.id == person).values(zone=zone))


async def load_languages(tx: Transaction) -> dict[int, PersonLanguages]:
    """The languages of everybody with a role."""
    query = select(people.c.id, people.c.language, people.c.telegram_language).where(_HAS_ROLE)
    return {row.id: PersonLanguages(row.language, row.telegram_language) for row in await tx.execute(query)}


async def find_translator(tx: Transaction, person: int) -> Translator:
    """The translator into a person's language. A private chat has the number of its person."""
    query = select(people.c.language, people.c.telegram_language).where(people.c.id == person)
    row = (await tx.execute(query)).one_or_none()
    if row is None:
        return ENGLISH
    return load_translator(PersonLanguages(row.language, row.telegram_language).effective)


async def set_languages(tx: Transaction, person: int, languages: PersonLanguages) -> None:
    """Store the languages of a person, if they have a role."""
    values = {"language": languages.chosen, "telegram_language": languages.telegram}
    await tx.execute(update(people).where(people.c.id == person).values(values))
    await revisions.bump(tx, revisions.PEOPLE)


async def admit_guest(tx: Transaction, person: int, name: str, *, now: float) -> None:
    """Give a person who wrote while the bot is open to all the role of a guest, unless they have one."""
    await ensure_person(tx, person, name, now=now)
    await tx.execute(delete(strangers).where(strangers.c.id == person))
    await revisions.bump(tx, revisions.PEOPLE)


async def ensure_person(tx: Transaction, person: int, name: str, *, now: float) -> None:
    """Give a person whom the settings let in a row, which gives them no right that the settings do not."""
    row = {"id": person, "name": name, "role": "member", "since": now, "let_in_by": None}
    again = (
        upsert(people)
        .values(row)
        .on_conflict_do_update(index_elements=["id"], set_=row, where=people.c.role == _REMOVED)
    )
    await tx.execute(again)


async def insert_invite(tx: Transaction, role: Role, minutes: float, *, made_by: int, now: float) -> str:
    """Make such a code inside a transaction, and delete codes that are used or expired."""
    await tx.execute(delete(invites).where(or_(invites.c.expires_at <= now, invites.c.used_by.is_not(None))))
    code = secrets.token_urlsafe(18)
    row = {
        "code_hash": page_sessions.hash_token(code),
        "role": role,
        "made_by": made_by,
        "made_at": now,
        "expires_at": now + minutes * 60,
    }
    await tx.execute(insert(invites).values(row))
    return code


async def list_open_invites(tx: Transaction, *, now: float) -> list[Invite]:
    """The links that can still be used, the newest first."""
    is_open = and_(invites.c.used_by.is_(None), invites.c.expires_at > now)
    rows = await tx.execute(select(invites).where(is_open).order_by(invites.c.made_at.desc()))
    return [Invite(row.code_hash, row.role, row.made_by, row.expires_at) for row in rows]


async def revoke_invite(tx: Transaction, code_hash: str) -> Role | None:
    """Void an unused link; returns whom it was for, None if there is none."""
    unused = and_(invites.c.code_hash == code_hash, invites.c.used_by.is_(None))
    role = (await tx.execute(delete(invites).where(unused).returning(invites.c.role))).scalar()
    return cast(Role | None, role)


async def insert_first_admin_invite(tx: Transaction, *, now: float) -> str:
    """Make the code that makes its user an admin, for the owner of the machine; earlier ones are void."""
    await tx.execute(delete(invites).where(_IS_OWNERS_INVITE))
    return await insert_invite(tx, "admin", FIRST_ADMIN_MINUTES, made_by=COMMAND_LINE_INVITER, now=now)


async def find_first_admin_invite_expiry(tx: Transaction, *, now: float) -> float | None:
    """When the valid code of that kind expires (epoch seconds); None: there is none."""
    query = select(func.max(invites.c.expires_at)).where(_IS_OWNERS_INVITE, invites.c.expires_at > now)
    expires_at: float | None = (await tx.execute(query)).scalar()
    return expires_at


async def redeem_invite(
    tx: Transaction,
    code: str,
    person: int,
    name: str,
    *,
    configured_admins: Collection[int] = (),
    now: float,
) -> Role | None:
    """Use an invite; returns the role the person has then, or None if the code is unknown, used or expired.

    It ends with the role of the admin who made it; `configured_admins` are those of the settings. A blocked
    person stays blocked, and nobody loses rights by a link: in both cases it is not used up.
    """
    known_person = await find(tx, person)
    admins = {COMMAND_LINE_INVITER, *configured_admins, *await list_admins(tx)}
    is_valid = and_(
        invites.c.code_hash == page_sessions.hash_token(code),
        invites.c.used_by.is_(None),
        invites.c.expires_at > now,
        invites.c.made_by.in_(admins),
    )
    redeemed = (
        update(invites)
        .where(is_valid, invites.c.role.in_(_list_higher_roles(known_person)))
        .values(used_by=person, used_at=now)
    )
    invite = (await tx.execute(redeemed.returning(invites.c.role, invites.c.made_by))).one_or_none()
    if invite is not None:
        await put(tx, person, name, invite.role, let_in_by=invite.made_by, now=now)
        return cast(Role, invite.role)
    unused_role = (await tx.execute(select(invites.c.role).where(is_valid))).scalar()
    if unused_role and known_person is not None and known_person.role != "blocked":
        return known_person.role
    return None


def _list_higher_roles(known_person: Person | None) -> tuple[Role, ...]:
    """The roles that would give somebody more rights than they have; none for a blocked person."""
    if known_person is None or known_person.guest:
        return "admin", "member"
    if known_person.role == "member":
        return ("admin",)
    return ()


async def register_stranger(
    tx: Transaction, person: int, name: str, *, language: str | None = None, is_told: bool = True, now: float
) -> tuple[str | None, float] | None:
    """Store that a stranger wrote; returns what to reply, or None: nothing yet.

    The reply is (their code, or None if they know it is valid; when it expires). Who is on the list keeps
    their code, because admins have a card with it; writing again extends it. Who is not told their code now
    gets it when they write next. The list of strangers is bounded; the oldest are deleted.
    """
    row = (await tx.execute(select(strangers).where(strangers.c.id == person))).one_or_none()
    if row is not None and now < row.told_at + STRANGER_REPLY_INTERVAL_SECONDS:
        return None
    if row is not None and now < row.expires_at:
        await tx.execute(update(strangers).where(strangers.c.id == person).values(told_at=now))
        return None, row.expires_at
    code = _make_code() if row is None else row.code
    expires_at = now + STRANGER_CODE_SECONDS if is_told else now
    stranger = {
        "id": person,
        "name": name,
        "code": code,
        "asked_at": now,
        "told_at": now if is_told else 0.0,
        "expires_at": expires_at,
        "language": language,
    }
    await tx.execute(replace_row(strangers, stranger))
    await _delete_oldest_strangers(tx)
    return code, expires_at


async def list_strangers(tx: Transaction) -> list[Stranger]:
    """All strangers, the newest first."""
    query = select(strangers).order_by(strangers.c.asked_at.desc(), strangers.c.id)
    return [_to_stranger(row) for row in await tx.execute(query)]


async def find_stranger(tx: Transaction, person: int) -> Stranger | None:
    """This stranger, if they are on the list."""
    return await _select_stranger(tx, strangers.c.id == person)


async def find_stranger_by_code(tx: Transaction, code: str, *, now: float) -> Stranger | None:
    """The stranger who got this code, while it is valid; only its letters count, in either case."""
    letters = "".join(letter for letter in code.upper() if letter in _CODE_LETTERS)
    return await _select_stranger(tx, and_(strangers.c.code == letters, strangers.c.expires_at > now))


async def _select_stranger(tx: Transaction, condition: ColumnElement[bool]) -> Stranger | None:
    row = (await tx.execute(select(strangers).where(condition))).one_or_none()
    if row:
        return _to_stranger(row)
    return None


async def _delete_oldest_strangers(tx: Transaction) -> None:
    newest = select(strangers.c.id).order_by(strangers.c.asked_at.desc(), strangers.c.id).limit(MAX_STRANGERS)
    if (await tx.execute(select(func.count()).select_from(strangers))).scalar_one() > MAX_STRANGERS:
        await tx.execute(delete(strangers).where(strangers.c.id.not_in(newest)))


def _make_code() -> str:
    return "".join(secrets.choice(_CODE_LETTERS) for _ in range(8))


def _to_person(row: Row[Any]) -> Person:
    return Person(row.id, row.name, row.role, guest=row.role == "member" and row.let_in_by is None)


def _to_stranger(row: Row[Any]) -> Stranger:
    return Stranger(row.id, row.name, row.code, row.asked_at, row.expires_at, row.language)
