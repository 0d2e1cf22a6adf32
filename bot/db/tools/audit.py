"""The audit log: what admins changed, who, when, over which channel, with the state before and after.

An entry is written in the transaction of its change. Secrets never come here: the caller has masked them.
Functions work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Row, and_, insert, select

from bot.db.tables import audit
from bot.db.transaction import Transaction

Via = Literal["telegram", "command", "page"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change, and over which channel. `person` None: somebody at the machine's command line."""

    person: int | None
    via: Via


MACHINE = Actor(None, "command")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A logged change. `before` and `after` are parsed JSON; None: there was nothing."""

    id: int
    at: float
    who: int | None
    via: str
    what: str
    subject: str
    before: Any
    after: Any


async def record(
    tx: Transaction,
    actor: Actor,
    action: str,
    subject: str,
    *,
    change: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    now: float,
) -> None:
    """Log that `action` was done to `subject`; `change` is the state before and after."""
    before, after = change
    row = {"at": now, "who": actor.person, "via": actor.via, "what": action, "subject": subject}
    await tx.execute(insert(audit).values(row | {"before": _to_json(before), "after": _to_json(after)}))


async def record_texts_read(
    tx: Transaction, actor: Actor, turn: int, *, reason: str | None, now: float
) -> None:
    """Log that the texts of a turn are read; before they are shown."""
    after = None if reason is None else {"reason": reason}
    await record(tx, actor, "texts read", f"turn {turn}", change=(None, after), now=now)


async def find_latest(tx: Transaction, subject: str, actions: Collection[str]) -> AuditEntry | None:
    """The newest of these changes to a subject, such as `person 12`."""
    is_meant = and_(audit.c.subject == subject, audit.c.what.in_(actions))
    query = select(audit).where(is_meant).order_by(audit.c.id.desc()).limit(1)
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else _to_entry(row)


async def list_entries(  # noqa: PLR0913  # a filter is an argument here
    tx: Transaction,
    *,
    since: float | None = None,
    until: float | None = None,
    person: int | None = None,
    action: str | None = None,
    subject: str | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> list[AuditEntry]:
    """The changes of a time span (epoch seconds, `until` exclusive), the newest first.

    `action` is what was done, and `subject` to what. `before`: only changes older than the one with this id.
    """
    query = select(audit).order_by(audit.c.id.desc())
    if action is not None:
        query = query.where(audit.c.what == action)
    if subject is not None:
        query = query.where(audit.c.subject == subject)
    if before is not None:
        query = query.where(audit.c.id < before)
    if since is not None:
        query = query.where(audit.c.at >= since)
    if until is not None:
        query = query.where(audit.c.at < until)
    if person is not None:
        query = query.where(audit.c.who == person)
    if limit is not None:
        query = query.limit(limit)
    return [_to_entry(row) for row in await tx.execute(query)]


def _to_json(value: Mapping[str, Any] | None) -> str | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False)


def _parse_json(text: str | None) -> Any:
    if text is None:
        return None
    return json.loads(text)


def _to_entry(row: Row[Any]) -> AuditEntry:
    parsed = {"before": _parse_json(row.before), "after": _parse_json(row.after)}
    return AuditEntry(**row._asdict() | parsed)
