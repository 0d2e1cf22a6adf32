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

Standing = Literal["admin", "member", "blocked"]
Role = Literal["admin", "member"]

THE_HOUSE = 0  # who let in whoever came by a link made on the command line
STRANGERS_KEPT = 50
STRANGER_CODE_SECONDS = 3600
TOLD_AGAIN_SECONDS = 600
_READABLE = "ABCDEFGHJKMNPQRSTUVWXYZ"  # no digits: a code is never taken for somebody's number


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a role. `guest`: nobody let them in, they wrote while the bot was open to all."""

    id: int
    name: str
    role: Standing
    guest: bool = False


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody who knocked: when they were given their code, and how long it is good (epoch seconds)."""

    id: int
    name: str
    asked_at: float
    expires_at: float


async def everyone(tx: AsyncConnection) -> list[Person]:
    """All people with a role, admins first, then members, then the blocked, the newest first."""
    order = (people.c.role != "admin", people.c.role == "blocked", people.c.since.desc(), people.c.id)
    return [_person(row) for row in await tx.execute(select(people).order_by(*order))]


async def find(tx: AsyncConnection, person: int) -> Person | None:
    """This person, if they have a role."""
    row = (await tx.execute(select(people).where(people.c.id == person))).one_or_none()
    if row:
        return _person(row)
    return None


async def put(
    tx: AsyncConnection, person: int, name: str, role: Standing, *, by: int | None = None, now: float
) -> None:
    """Give somebody a role; `by` let them in (THE_HOUSE: the command line, None: nobody). They knock no more."""
    row = {"id": person, "name": name, "role": role, "since": now, "let_in_by": by, "reachable": True}
    changed = {"name": name, "role": role, "let_in_by": by}
    await tx.execute(insert(people).values(row).on_conflict_do_update(index_elements=["id"], set_=changed))
    await tx.execute(delete(strangers).where(strangers.c.id == person))


async def remove(tx: AsyncConnection, person: int) -> None:
    """Make somebody a stranger again."""
    await tx.execute(delete(people).where(people.c.id == person))


async def set_reachable(tx: AsyncConnection, person: int, *, reachable: bool) -> None:
    """Whether messages reach this person: False once they block the bot."""
    await tx.execute(update(people).where(people.c.id == person).values(reachable=reachable))


async def admins(tx: AsyncConnection, *, reachable: bool = False) -> list[int]:
    """Every person whose role is admin; `reachable`: only those whom messages reach."""
    query = select(people.c.id).where(people.c.role == "admin").order_by(people.c.id)
    if reachable:
        query = query.where(people.c.reachable.is_(True))
    return list((await tx.execute(query)).scalars())


async def unreachable(tx: AsyncConnection) -> set[int]:
    """People who have blocked the bot."""
    return set((await tx.execute(select(people.c.id).where(people.c.reachable.is_(False)))).scalars())


async def lanes_at_work(tx: AsyncConnection, person: int) -> list[Lane]:
    """Where something runs for this person."""
    running = and_(inbox.c.state == "running", inbox.c.sender == person, inbox.c.lane.is_not(None))
    return [
        Lane.parse(lane)
        for lane in (await tx.execute(select(inbox.c.lane).distinct().where(running))).scalars()
    ]


async def invite(database: Database, role: Role, minutes: float, made_by: int = THE_HOUSE) -> str:
    """Make the code of a link that lets one person in, once, within `minutes`; commits."""
    async with database.transaction() as tx:
        return await offer(tx, role, minutes, made_by=made_by, now=time.time())


async def offer(tx: AsyncConnection, role: Role, minutes: float, *, made_by: int, now: float) -> str:
    """The same inside a transaction. Codes that nobody can use any more are forgotten."""
    await tx.execute(delete(invites).where(or_(invites.c.expires_at <= now, invites.c.used_by.is_not(None))))
    code = secrets.token_urlsafe(18)
    row = {
        "code_hash": _hash(code),
        "role": role,
        "made_by": made_by,
        "made_at": now,
        "expires_at": now + minutes * 60,
    }
    await tx.execute(insert_row(invites).values(row))
    return code


async def redeem(tx: AsyncConnection, code: str, person: int, name: str, *, now: float) -> Role | None:
    """Use an invite; the role it gave, or None if it is unknown, used or too old.

    A blocked person stays blocked, and nobody loses rights by a link: it is then not used up.
    """
    known = await find(tx, person)
    valid = and_(invites.c.code_hash == _hash(code), invites.c.used_by.is_(None), invites.c.expires_at > now)
    taken = (
        update(invites).where(valid, invites.c.role.in_(_raising(known))).values(used_by=person, used_at=now)
    )
    used = (await tx.execute(taken.returning(invites.c.role, invites.c.made_by))).one_or_none()
    if used is not None:
        await put(tx, person, name, used.role, by=used.made_by, now=now)
        return cast(Role, used.role)
    good = (await tx.execute(select(invites.c.role).where(valid))).scalar()
    if good and known is not None and known.role != "blocked":
        return known.role
    return None


def _raising(known: Person | None) -> tuple[Role, ...]:
    """The roles that would give somebody more rights than they have."""
    if known is None or known.guest:
        return "admin", "member"
    if known.role == "member":
        return ("admin",)
    return ()


async def knock(
    tx: AsyncConnection, person: int, name: str, *, now: float
) -> tuple[str | None, float] | None:
    """A stranger wrote: what to tell them as (a new code or None, how long theirs is good), or None: nothing
    yet.

    While a code is good it stays the one that counts: somebody may be about to use it. The list of strangers
    is bounded; the oldest make room.
    """
    row = (await tx.execute(select(strangers).where(strangers.c.id == person))).one_or_none()
    if row is not None and now < row.told_at + TOLD_AGAIN_SECONDS:
        return None
    if row is not None and now < row.expires_at:
        await tx.execute(update(strangers).where(strangers.c.id == person).values(told_at=now))
        return None, row.expires_at
    code = "".join(secrets.choice(_READABLE) for _ in range(8))
    expires_at = now + STRANGER_CODE_SECONDS
    told = {"name": name, "code_hash": _hash(code), "asked_at": now, "told_at": now, "expires_at": expires_at}
    first = insert(strangers).values({"id": person, **told})
    await tx.execute(first.on_conflict_do_update(index_elements=["id"], set_=told))
    await _forget_oldest(tx)
    return code, expires_at


async def waiting(tx: AsyncConnection) -> list[Stranger]:
    """The strangers who knocked, the newest first."""
    query = select(strangers).order_by(strangers.c.asked_at.desc(), strangers.c.id)
    return [_stranger(row) for row in await tx.execute(query)]


async def stranger(tx: AsyncConnection, person: int) -> Stranger | None:
    """This stranger, if they are on the list."""
    return await _find_stranger(tx, strangers.c.id == person)


async def stranger_of(tx: AsyncConnection, code: str, *, now: float) -> Stranger | None:
    """The stranger who was told this code, while it is good."""
    meant = "".join(letter for letter in code.upper() if letter in _READABLE)
    return await _find_stranger(tx, and_(strangers.c.code_hash == _hash(meant), strangers.c.expires_at > now))


async def _find_stranger(tx: AsyncConnection, which: ColumnElement[bool]) -> Stranger | None:
    row = (await tx.execute(select(strangers).where(which))).one_or_none()
    if row:
        return _stranger(row)
    return None


async def _forget_oldest(tx: AsyncConnection) -> None:
    kept = select(strangers.c.id).order_by(strangers.c.asked_at.desc(), strangers.c.id).limit(STRANGERS_KEPT)
    if (await tx.execute(select(func.count()).select_from(strangers))).scalar_one() > STRANGERS_KEPT:
        await tx.execute(delete(strangers).where(strangers.c.id.not_in(kept)))


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


def _person(row: Row[Any]) -> Person:
    return Person(row.id, row.name, row.role, guest=row.role == "member" and row.let_in_by is None)


def _stranger(row: Row[Any]) -> Stranger:
    return Stranger(row.id, row.name, row.asked_at, row.expires_at)
