"""Who may talk to the bot: people and their roles, single-use invites, strangers who knocked with a code.

Codes are kept as hashes only. Functions work inside the caller's transaction `tx`; `invite` opens its own.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, Row, and_, delete, func, or_, select, update
from sqlalchemy import insert as insert_row
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.engine import Database
from bot.db.tables import inbox, invites, people, strangers
from bot.domain import Lane

RoleOrBlocked = Literal["admin", "member", "blocked"]
Role = Literal["admin", "member"]

COMMAND_LINE_INVITER = 0  # who let in whoever came by a link made on the command line
MAX_STRANGERS = 50
STRANGER_CODE_SECONDS = 3600
STRANGER_REPLY_INTERVAL_SECONDS = 600
_CODE_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ"  # no digits: a code is never taken for somebody's number


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a role. `guest`: nobody let them in, they wrote while the bot was open to all."""

    id: int
    name: str
    role: RoleOrBlocked
    guest: bool = False


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody who knocked: when they were given their code, and how long it is good (epoch seconds)."""

    id: int
    name: str
    asked_at: float
    expires_at: float


async def list_people(tx: AsyncConnection) -> list[Person]:
    """All people with a role, admins first, then members, then the blocked, the newest first."""
    order = (people.c.role != "admin", people.c.role == "blocked", people.c.since.desc(), people.c.id)
    return [_to_person(row) for row in await tx.execute(select(people).order_by(*order))]


async def find(tx: AsyncConnection, person: int) -> Person | None:
    """This person, if they have a role."""
    row = (await tx.execute(select(people).where(people.c.id == person))).one_or_none()
    if row:
        return _to_person(row)
    return None


async def put(
    tx: AsyncConnection,
    person: int,
    name: str,
    role: RoleOrBlocked,
    *,
    let_in_by: int | None = None,
    now: float,
) -> None:
    """Give somebody a role; `by` let them in (THE_HOUSE: the command line, None: nobody). They knock no more."""
    row = {"id": person, "name": name, "role": role, "since": now, "let_in_by": let_in_by, "reachable": True}
    changed = {"name": name, "role": role, "let_in_by": let_in_by}
    await tx.execute(insert(people).values(row).on_conflict_do_update(index_elements=["id"], set_=changed))
    await tx.execute(delete(strangers).where(strangers.c.id == person))


async def remove(tx: AsyncConnection, person: int) -> None:
    """Make somebody a stranger again."""
    await tx.execute(delete(people).where(people.c.id == person))


async def set_reachable(tx: AsyncConnection, person: int, *, reachable: bool) -> None:
    """Whether messages reach this person: False once they block the bot."""
    await tx.execute(update(people).where(people.c.id == person).values(reachable=reachable))


async def list_admins(tx: AsyncConnection, *, reachable_only: bool = False) -> list[int]:
    """Every person whose role is admin; `reachable`: only those whom messages reach."""
    query = select(people.c.id).where(people.c.role == "admin").order_by(people.c.id)
    if reachable_only:
        query = query.where(people.c.reachable.is_(True))
    return list((await tx.execute(query)).scalars())


async def list_unreachable(tx: AsyncConnection) -> set[int]:
    """People who have blocked the bot."""
    return set((await tx.execute(select(people.c.id).where(people.c.reachable.is_(False)))).scalars())


async def list_busy_lanes(tx: AsyncConnection, person: int) -> list[Lane]:
    """Where something runs for this person."""
    running = and_(inbox.c.state == "running", inbox.c.sender == person, inbox.c.lane.is_not(None))
    return [
        Lane.parse(lane)
        for lane in (await tx.execute(select(inbox.c.lane).distinct().where(running))).scalars()
    ]


async def create_invite(
    database: Database, role: Role, minutes: float, made_by: int = COMMAND_LINE_INVITER
) -> str:
    """Make the code of a link that lets one person in, once, within `minutes`; commits."""
    async with database.transaction() as tx:
        return await insert_invite(tx, role, minutes, made_by=made_by, now=time.time())


async def insert_invite(tx: AsyncConnection, role: Role, minutes: float, *, made_by: int, now: float) -> str:
    """The same inside a transaction. Codes that nobody can use any more are forgotten."""
    await tx.execute(delete(invites).where(or_(invites.c.expires_at <= now, invites.c.used_by.is_not(None))))
    code = secrets.token_urlsafe(18)
    row = {
        "code_hash": _hash_code(code),
        "role": role,
        "made_by": made_by,
        "made_at": now,
        "expires_at": now + minutes * 60,
    }
    await tx.execute(insert_row(invites).values(row))
    return code


async def redeem_invite(tx: AsyncConnection, code: str, person: int, name: str, *, now: float) -> Role | None:
    """Use an invite; the role it gave, or None if it is unknown, used or too old.

    A blocked person stays blocked, and nobody loses rights by a link: it is then not used up.
    """
    known = await find(tx, person)
    valid = and_(
        invites.c.code_hash == _hash_code(code), invites.c.used_by.is_(None), invites.c.expires_at > now
    )
    taken = (
        update(invites)
        .where(valid, invites.c.role.in_(_list_higher_roles(known)))
        .values(used_by=person, used_at=now)
    )
    used = (await tx.execute(taken.returning(invites.c.role, invites.c.made_by))).one_or_none()
    if used is not None:
        await put(tx, person, name, used.role, let_in_by=used.made_by, now=now)
        return cast(Role, used.role)
    good = (await tx.execute(select(invites.c.role).where(valid))).scalar()
    if good and known is not None and known.role != "blocked":
        return known.role
    return None


def _list_higher_roles(known_person: Person | None) -> tuple[Role, ...]:
    """The roles that would give somebody more rights than they have."""
    if known_person is None or known_person.guest:
        return "admin", "member"
    if known_person.role == "member":
        return ("admin",)
    return ()


async def register_stranger(
    tx: AsyncConnection, person: int, name: str, *, now: float
) -> tuple[str | None, float] | None:
    """A stranger wrote: what to tell them as (a new code or None, how long theirs is good), or None: nothing
    yet.

    While a code is good it stays the one that counts: somebody may be about to use it. The list of strangers
    is bounded; the oldest make room.
    """
    row = (await tx.execute(select(strangers).where(strangers.c.id == person))).one_or_none()
    if row is not None and now < row.told_at + STRANGER_REPLY_INTERVAL_SECONDS:
        return None
    if row is not None and now < row.expires_at:
        await tx.execute(update(strangers).where(strangers.c.id == person).values(told_at=now))
        return None, row.expires_at
    code = "".join(secrets.choice(_CODE_LETTERS) for _ in range(8))
    expires_at = now + STRANGER_CODE_SECONDS
    told = {
        "name": name,
        "code_hash": _hash_code(code),
        "asked_at": now,
        "told_at": now,
        "expires_at": expires_at,
    }
    first = insert(strangers).values({"id": person, **told})
    await tx.execute(first.on_conflict_do_update(index_elements=["id"], set_=told))
    await _delete_oldest_strangers(tx)
    return code, expires_at


async def list_strangers(tx: AsyncConnection) -> list[Stranger]:
    """The strangers who knocked, the newest first."""
    query = select(strangers).order_by(strangers.c.asked_at.desc(), strangers.c.id)
    return [_to_stranger(row) for row in await tx.execute(query)]


async def find_stranger(tx: AsyncConnection, person: int) -> Stranger | None:
    """This stranger, if they are on the list."""
    return await _select_stranger(tx, strangers.c.id == person)


async def find_stranger_by_code(tx: AsyncConnection, code: str, *, now: float) -> Stranger | None:
    """The stranger who was told this code, while it is good."""
    meant = "".join(letter for letter in code.upper() if letter in _CODE_LETTERS)
    return await _select_stranger(
        tx, and_(strangers.c.code_hash == _hash_code(meant), strangers.c.expires_at > now)
    )


async def _select_stranger(tx: AsyncConnection, condition: ColumnElement[bool]) -> Stranger | None:
    row = (await tx.execute(select(strangers).where(condition))).one_or_none()
    if row:
        return _to_stranger(row)
    return None


async def _delete_oldest_strangers(tx: AsyncConnection) -> None:
    kept = select(strangers.c.id).order_by(strangers.c.asked_at.desc(), strangers.c.id).limit(MAX_STRANGERS)
    if (await tx.execute(select(func.count()).select_from(strangers))).scalar_one() > MAX_STRANGERS:
        await tx.execute(delete(strangers).where(strangers.c.id.not_in(kept)))


def _hash_code(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


def _to_person(row: Row[Any]) -> Person:
    return Person(row.id, row.name, row.role, guest=row.role == "member" and row.let_in_by is None)


def _to_stranger(row: Row[Any]) -> Stranger:
    return Stranger(row.id, row.name, row.asked_at, row.expires_at)
