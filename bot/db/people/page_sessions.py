"""Logins of the admin page: single-use links, and the sessions that they begin.

Tokens are 32 random bytes, of which only hashes are stored. A session belongs to a person, or to the command
line (person None), whose owner may do everything. Functions work inside the caller's transaction `tx`.
"""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, and_, delete, insert, select
from sqlalchemy.sql.selectable import TypedReturnsRows

from bot.db.tables import page_tokens
from bot.db.transaction import Transaction

TokenKind = Literal["link", "session"]
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
    is_earlier = and_(page_tokens.c.kind == "link", page_tokens.c.person.is_not_distinct_from(person))
    await tx.execute(delete(page_tokens).where(is_earlier))
    return await _insert_token(tx, "link", person, made_at=now, expires_at=now + LINK_MINUTES * 60)


async def find_link(tx: Transaction, token: str, *, now: float) -> TokenHolder | None:
    """Whose link this is, while it can be used. It stays unused."""
    query = select(page_tokens.c.person).where(_is_valid("link", token, now))
    return await _find_holder(tx, query)


async def use_link(tx: Transaction, token: str, *, now: float) -> TokenHolder | None:
    """Use a link up; returns whose it was, or None if it cannot be used."""
    query = delete(page_tokens).where(_is_valid("link", token, now)).returning(page_tokens.c.person)
    return await _find_holder(tx, query)


async def insert_session(tx: Transaction, person: int | None, *, now: float) -> str:
    """Begin a session; returns its token."""
    return await _insert_token(tx, "session", person, made_at=now, expires_at=now + SESSION_HOURS * 3600)


async def find_session(tx: Transaction, token: str, *, now: float) -> TokenHolder | None:
    """Whose session this is, unless it is over."""
    query = select(page_tokens.c.person).where(_is_valid("session", token, now))
    return await _find_holder(tx, query)


async def end_session(tx: Transaction, token: str) -> None:
    """End one session."""
    await tx.execute(delete(page_tokens).where(page_tokens.c.token_hash == hash_token(token)))


async def end_sessions(tx: Transaction, person: int) -> None:
    """End a person's sessions and void their links."""
    await tx.execute(delete(page_tokens).where(page_tokens.c.person == person))


async def end_all(tx: Transaction, *, now: float) -> int:
    """End everybody's sessions and void all links; returns how many sessions were open."""
    ended = await tx.execute(delete(page_tokens).returning(page_tokens.c.kind, page_tokens.c.expires_at))
    return sum(row.kind == "session" and row.expires_at > now for row in ended)


async def _insert_token(
    tx: Transaction, kind: TokenKind, person: int | None, *, made_at: float, expires_at: float
) -> str:
    """Store a new token; those that have expired are deleted."""
    await tx.execute(delete(page_tokens).where(page_tokens.c.expires_at <= made_at))
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    row = {
        "token_hash": hash_token(token),
        "kind": kind,
        "person": person,
        "made_at": made_at,
        "expires_at": expires_at,
    }
    await tx.execute(insert(page_tokens).values(row))
    return token


def _is_valid(kind: TokenKind, token: str, now: float) -> ColumnElement[bool]:
    is_token = and_(page_tokens.c.kind == kind, page_tokens.c.token_hash == hash_token(token))
    return and_(is_token, page_tokens.c.expires_at > now)


async def _find_holder(tx: Transaction, query: TypedReturnsRows[int | None]) -> TokenHolder | None:
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else TokenHolder(row.person)


def hash_token(token: str) -> str:
    """What is stored of a secret that somebody shows: it cannot be read off the database."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
