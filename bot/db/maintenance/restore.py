"""What a database that was restored from a backup must be told, lest its house does again what was done
since.

Functions work inside the caller's transactions: `tx` of the restored database, `old` of the one whose place
it takes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, and_, func, insert, or_, select, text, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.conversations import turns
from bot.db.tables import (
    allowances,
    approvals,
    audit,
    grants,
    inbox,
    invites,
    jobs,
    limits,
    lives,
    metadata,
    outbox,
    people,
    revisions,
    secrets,
    sources,
    strangers,
    tools,
)
from bot.db.tables import turns as turns_table

RESTORED_REASON = "the database was restored from a backup"
MAX_REDELIVERED_UPDATES = 100  # updates Telegram hands over at once, and so the most it hands over again

_CARRIED_TABLES = (
    *(people, invites, strangers, limits, jobs),
    *(sources, tools, grants, allowances, secrets, revisions, audit),
)
_SYSTEM_JOB_NAME = func.json_extract(inbox.c.body, "$.job")
_IS_FORGET_JOB = and_(inbox.c.kind == "house", _SYSTEM_JOB_NAME == "forget")
_IS_PENDING = inbox.c.state.in_(("new", "running", "parked"))


@dataclass(frozen=True, slots=True)
class DiscardCounts:
    """How many messages to people are of unknown outcome now, how many items are not answered any more."""

    unknown: int
    dropped: int


@dataclass(frozen=True, slots=True)
class ReplacedDatabaseState:
    """What the replaced database knows that the restored one must: updates it has had, what was to be
    forgotten after the backup, the numbers it has given to rows, who may do what and what is due later (None:
    it is of another house).
    """

    update_ids: Sequence[int]
    forget_items: Sequence[Mapping[str, Any]]
    sequence_numbers: Mapping[str, int]
    rows_by_table: Mapping[str, Sequence[Mapping[str, Any]]] | None


async def discard_pending(tx: AsyncConnection, *, answer_waiting: bool, now: float) -> DiscardCounts:
    """Nobody knows whether what was to be sent has been sent since: it is never sent. What waited for an
    answer is answered only if `waiting` is meant; a /forget is done in any case.
    """
    doubt = {"state": "unknown", "final": True, "error": RESTORED_REASON, "done_at": now}
    unknown = await tx.execute(update(outbox).where(outbox.c.state.in_(("new", "sending"))).values(doubt))
    shown = update(outbox).where(outbox.c.state == "open")
    await tx.execute(shown.values(state="done", final=True, done_at=func.coalesce(outbox.c.done_at, now)))
    if answer_waiting:
        return DiscardCounts(unknown.rowcount, 0)
    under_way = select(turns_table.c.item).where(turns_table.c.state.in_(("running", "parked")))
    for item in (await tx.execute(under_way)).scalars().all():
        await turns.fail(tx, item, reason=RESTORED_REASON, now=now)
    await tx.execute(
        update(approvals).where(approvals.c.answer.is_(None)).values(answer="stopped", answered_at=now)
    )
    over = {"state": "done", "done_at": now, "error": RESTORED_REASON}
    dropped = await tx.execute(
        update(inbox).where(_IS_PENDING, or_(inbox.c.body.is_(None), ~_IS_FORGET_JOB)).values(over)
    )
    return DiscardCounts(unknown.rowcount, dropped.rowcount)


async def list_overdue_jobs(tx: AsyncConnection, *, now: float) -> list[tuple[int, str | None, str]]:
    """Jobs that were due by now, as id, rule and zone: what of it has been done since the backup nobody
    knows.
    """
    due = select(jobs.c.id, jobs.c.rule, jobs.c.zone).where(jobs.c.state == "active", jobs.c.next_due <= now)
    return [(row.id, row.rule, row.zone) for row in await tx.execute(due)]


async def reschedule_job(tx: AsyncConnection, job: int, next_due: float | None) -> None:
    """A job is due again then, and never if None."""
    state = "active" if next_due is not None else "done"
    await tx.execute(update(jobs).where(jobs.c.id == job).values(next_due=next_due, state=state))


async def find_last_received_and_birth(tx: AsyncConnection) -> tuple[float, float | None]:
    """When the restored database last received anything (0: never), and what it is known by: when its house
    began.
    """
    received = (await tx.execute(select(func.max(inbox.c.received_at)))).scalar_one()
    return received or 0.0, await _find_birth(tx)


async def load_replaced_state(
    replaced: AsyncConnection, last_received: float, birth: float | None
) -> ReplacedDatabaseState:
    """What the replaced database adds to one that received its last at `received` and was born at `birth`."""
    known = (
        select(inbox.c.update_id)
        .where(inbox.c.update_id.is_not(None))
        .order_by(inbox.c.id.desc())
        .limit(MAX_REDELIVERED_UPDATES)
    )
    asked = select(inbox.c.lane, inbox.c.body, inbox.c.received_at).where(
        _IS_FORGET_JOB, inbox.c.received_at > last_received
    )
    same_house = birth is not None and await _find_birth(replaced) == birth
    numbers = await replaced.execute(text("SELECT name, seq FROM sqlite_sequence"))
    return ReplacedDatabaseState(
        update_ids=(await replaced.execute(known)).scalars().all(),
        forget_items=[dict(row) for row in (await replaced.execute(asked)).mappings()],
        sequence_numbers={row.name: row.seq for row in numbers},
        rows_by_table={one.name: await _load_rows(replaced, one) for one in _CARRIED_TABLES}
        if same_house
        else None,
    )


async def apply_replaced_state(tx: AsyncConnection, replaced: ReplacedDatabaseState, *, now: float) -> None:
    """Take over what the replaced database knows."""
    for name, number in replaced.sequence_numbers.items():
        await _raise_sequence(tx, name, number)
    over = {
        "kind": "update",
        "shape": "other",
        "state": "done",
        "received_at": now,
        "done_at": now,
        "error": RESTORED_REASON,
    }
    rows = [{**over, "update_id": one} for one in replaced.update_ids]
    if rows:
        await tx.execute(upsert(inbox).on_conflict_do_nothing(index_elements=["update_id"]), rows)
    for one in replaced.forget_items:
        quietly = json.dumps(json.loads(one["body"]) | {"tell": False})  # it was told then
        await tx.execute(insert(inbox).values(kind="house", shape="other", **{**one, "body": quietly}))
    for name, said in (replaced.rows_by_table or {}).items():
        await tx.execute(metadata.tables[name].delete())
        if said:
            await tx.execute(insert(metadata.tables[name]), list(said))


async def _find_birth(tx: AsyncConnection) -> float | None:
    birth: float | None = (await tx.execute(select(func.min(lives.c.began_at)))).scalar_one()
    return birth


async def _load_rows(tx: AsyncConnection, table: Table) -> list[Mapping[str, Any]]:
    return [dict(row) for row in (await tx.execute(select(table))).mappings()]


async def _raise_sequence(tx: AsyncConnection, table: str, number: int) -> None:
    """Old buttons name rows by number: none is given twice."""
    row = {"name": table, "seq": number}
    grown = await tx.execute(text("UPDATE sqlite_sequence SET seq = max(seq, :seq) WHERE name = :name"), row)
    if not grown.rowcount:
        await tx.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)"), row)
