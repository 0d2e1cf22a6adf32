"""Logins of the admin page: single-use links, and the sessions that they begin.

Tokens are 32 random bytes, of which only hashes are stored. A session belongs to a person, or to the command
line (person None), whose owner may do everything. Functions work inside the caller's transaction `tx`.
"""

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Row, Table, delete, insert, select

from bot.db.tables import page_links, page_sessions
from bot.db.transaction import Transaction

LINK_MINUTES = 5
ADMIN_PATH = "/admin"  # of the page, below its address
SESSION_HOURS = 12
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Whose link or session a token is; `person` None: the command line's."""

    person: int | None


def build_login_url(page_url: str, token: str) -> str:
    """The address that a link opens, of a page at an address such as `https://bot.example.com`."""
    return f"{page_url}{ADMIN_PATH}/login/{token}"


async def insert_link(tx: Transaction, person: int | None, *, now: float) -> str:
    """Make a link that lets a person in once; returns its token. Their earlier links are void."""
    await tx.execute(delete(page_links).where(page_links.c.expires_at <= now))
    await tx.execute(delete(page_links).where(page_links.c.person.is_not_distinct_from(person)))
    return await _insert_token(tx, page_links, person, made_at=now, expires_at=now + LINK_MINUTES * 60)


async def find_link(tx: Transaction, token: str, *, now: float) -> TokenHolder | None:
    """Whose link this is, while it can be used. It stays unused."""
    return await _find_token(tx, page_links, token, now)


async def use_link(tx: Transaction, token: str, *, now: float) -> TokenHolder | None:
    """Use a link up; returns whose it was, or None if it cannot be used."""
    query = delete(page_links).where(*_is_valid(page_links, token, now)).returning(page_links.c.person)
    return _to_holder((await tx.execute(query)).one_or_none())


async def insert_session(tx: Transaction, person: int | None, *, now: float) -> str:
    """Begin a session; returns its token. Sessions that are over are deleted."""
    await tx.execute(delete(page_sessions).where(page_sessions.c.expires_at <= now))
    return await _insert_token(tx, page_sessions, person, made_at=now, expires_at=now + SESSION_HOURS * 3600)


async def find_session(tx: Transaction, token: str, *, now: float) -> TokenHolder | None:
    """Whose session this is, unless it is over."""
    return await _find_token(tx, page_sessions, token, now)


async def end_session(tx: Transaction, token: str) -> None:
    """End one session."""
    await tx.execute(delete(page_sessions).where(page_sessions.c.token_hash == hash_token(token)))


async def end_sessions(tx: Transaction, person: int) -> None:
    """End a person's sessions and void their links."""
    for table in (page_links, page_sessions):
        await tx.execute(delete(table).where(table.c.person == person))


async def end_all(tx: Transaction, *, now: float) -> int:
    """End everybody's sessions and void all links; returns how many sessions were open."""
    await tx.execute(delete(page_links))
    query = delete(page_sessions).returning(page_sessions.c.expires_at)
    return sum(expires_at > now for expires_at in (await tx.execute(query)).scalars())


async def _insert_token(
    tx: Transaction, table: Table, person: int | None, *, made_at: float, expires_at: float
) -> str:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    row = {
        "token_hash": hash_token(token),
        "person": person,
        "made_at": made_at,
        "expires_at": expires_at,
    }
    await tx.execute(insert(table).values(row))
    return token


async def _find_token(tx: Transaction, table: Table, token: str, now: float) -> TokenHolder | None:
    query = select(table.c.person).where(*_is_valid(table, token, now))
    return _to_holder((await tx.execute(query)).one_or_none())


def _is_valid(table: Table, token: str, now: float) -> tuple[ColumnElement[bool], ...]:
    return table.c.token_hash == hash_token(token), table.c.expires_at > now


def _to_holder(row: Row[int | None] | None) -> TokenHolder | None:
    if row is None:
        return None
    return TokenHolder(row.person)


def hash_token(token: str) -> str:
    """What is stored of a secret that somebody shows: it cannot be read off the database."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
