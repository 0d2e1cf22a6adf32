"""What admins changed: who, when, by which way, what was before and after. Written in the transaction of the
change.

Secrets never come here; whoever writes a row has masked them. Functions work inside the caller's transaction
`tx`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Row, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import audit

Via = Literal["telegram", "command"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change: a person by number, None for whoever sits at the machine; and by which way."""

    person: int | None
    via: Via


MACHINE = Actor(None, "command")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change as it was written down; `before` and `after` are what was said of it then, None: there was
    nothing.
    """

    id: int
    at: float
    who: int | None
    via: str
    what: str
    subject: str
    before: Any
    after: Any


async def record(
    tx: AsyncConnection,
    actor: Actor,
    action: str,
    subject: str,
    *,
    change: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    now: float,
) -> None:
    """Write a change down: `what` was done to `subject`, and what was before and after."""
    before, after = change
    row = {"at": now, "who": actor.person, "via": actor.via, "what": action, "subject": subject}
    await tx.execute(insert(audit).values(row | {"before": _to_json(before), "after": _to_json(after)}))


async def list_entries(
    tx: AsyncConnection,
    *,
    since: float | None = None,
    until: float | None = None,
    person: int | None = None,
    limit: int | None = None,
) -> list[AuditEntry]:
    """The changes of a span of time (epoch seconds, `until` not included), the newest first."""
    query = select(audit).order_by(audit.c.id.desc())
    if since is not None:
        query = query.where(audit.c.at >= since)
    if until is not None:
        query = query.where(audit.c.at < until)
    if person is not None:
        query = query.where(audit.c.who == person)
    return [_to_entry(row) for row in await tx.execute(query if limit is None else query.limit(limit))]


def _to_json(value: Mapping[str, Any] | None) -> str | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False)


def _to_entry(row: Row[Any]) -> AuditEntry:
    before, after = (None if text is None else json.loads(text) for text in (row.before, row.after))
    return AuditEntry(row.id, row.at, row.who, row.via, row.what, row.subject, before, after)
