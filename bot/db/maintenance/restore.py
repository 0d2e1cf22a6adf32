"""Brings a database restored from a backup up to date, so that nothing done since the backup is done again.

Functions work inside the caller's transactions: `tx` of the restored database, `replaced` of the database
that it replaces.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, and_, delete, func, insert, or_, select, text, update

from bot.db.conversations.chat_settings import Consents, load_consents, put_stricter_consents
from bot.db.conversations.turns import fail
from bot.db.portable_sql import JsonField, upsert
from bot.db.queues.item_bodies import FORGET_JOB
from bot.db.tables import (
    allowances,
    approvals,
    audit,
    grants,
    group_texts,
    groups,
    hook_posts,
    hooks,
    inbox,
    invites,
    jobs,
    limits,
    lives,
    metadata,
    outbox,
    page_tokens,
    people,
    revisions,
    secrets,
    sources,
    strangers,
    tools,
    turns,
)
from bot.db.transaction import Transaction

RESTORED_REASON = "the database was restored from a backup"
MAX_REDELIVERED_UPDATES = (
    100  # Telegram delivers at most so many updates at once, and so at most so many again
)

# Who may do what, and what is due later: copied whole from the replaced database.
_CARRIED_TABLES = (
    people,
    groups,
    invites,
    strangers,
    limits,
    jobs,
    hooks,
    hook_posts,
    sources,
    tools,
    grants,
    allowances,
    secrets,
    revisions,
    audit,
)
_SYSTEM_JOB_NAME = JsonField(inbox.c.body, "job")
_IS_FORGET_JOB = and_(inbox.c.kind == "system", _SYSTEM_JOB_NAME == FORGET_JOB)
_IS_PENDING = inbox.c.state.in_(("new", "running", "parked"))


@dataclass(frozen=True, slots=True)
class DiscardCounts:
    """How many outgoing messages are of unknown outcome now, and how many items are no longer answered."""

    unknown: int
    dropped: int


@dataclass(frozen=True, slots=True)
class ReplacedDatabaseState:
    """What the restored database must take over from the replaced one.

    `update_ids`: updates it has received. `forget_items`: /forget jobs ordered after the backup.
    `sequence_numbers`: the highest row id it has given in each table. `rows_by_table`: all rows of the tables
    that say who may do what and what is due later; None: the replaced database is of another gateway.
    `consents`: what chats have agreed to; empty where `rows_by_table` is None.
    """

    update_ids: Sequence[int]
    forget_items: Sequence[Mapping[str, Any]]
    sequence_numbers: Mapping[str, int]
    rows_by_table: Mapping[str, Sequence[Mapping[str, Any]]] | None
    consents: Consents


async def discard_pending(tx: Transaction, *, answer_waiting: bool, now: float) -> DiscardCounts:
    """Discard what was pending at the time of the backup.

    Pending messages may have been sent since, so they are never sent. Items that wait for an answer are
    answered only with `answer_waiting`; a /forget is done in any case. Logins at the admin page and hooks may
    have been ended since, so all are.
    """
    await tx.execute(delete(hook_posts))
    await tx.execute(delete(hooks))
    await tx.execute(delete(page_tokens))
    unknown = {"state": "unknown", "final": True, "error": RESTORED_REASON, "done_at": now}
    unsent = update(outbox).where(outbox.c.state.in_(("new", "sending")))
    unknown_count = (await tx.execute(unsent.values(unknown))).rowcount
    sent = update(outbox).where(outbox.c.state == "open")
    await tx.execute(sent.values(state="done", final=True, done_at=func.coalesce(outbox.c.done_at, now)))
    if answer_waiting:
        return DiscardCounts(unknown_count, 0)
    open_turns = select(turns.c.item).where(turns.c.state.in_(("running", "parked")))
    for item in (await tx.execute(open_turns)).scalars().all():
        await fail(tx, item, reason=RESTORED_REASON, now=now)
    open_questions = update(approvals).where(approvals.c.answer.is_(None))
    await tx.execute(open_questions.values(answer="stopped", answered_at=now))
    unjudged = update(inbox).where(_IS_PENDING, inbox.c.shape == "unaddressed")  # nobody will judge it now
    await tx.execute(unjudged.values(body=None, sender=None))
    pending = update(inbox).where(_IS_PENDING, or_(inbox.c.body.is_(None), ~_IS_FORGET_JOB))
    dropped = await tx.execute(pending.values(state="done", done_at=now, error=RESTORED_REASON))
    return DiscardCounts(unknown_count, dropped.rowcount)


async def list_overdue_jobs(tx: Transaction, *, now: float) -> list[tuple[int, str | None, str]]:
    """Jobs that were due by now, as (id, rule, zone): they may have been done since the backup."""
    due = select(jobs.c.id, jobs.c.rule, jobs.c.zone).where(jobs.c.state == "active", jobs.c.next_due <= now)
    return [(row.id, row.rule, row.zone) for row in await tx.execute(due)]


async def reschedule_job(tx: Transaction, job: int, next_due: float | None) -> None:
    """Set when a job is due next; None: never, it is done."""
    state = "active" if next_due is not None else "done"
    await tx.execute(update(jobs).where(jobs.c.id == job).values(next_due=next_due, state=state))


async def find_last_received_and_birth(tx: Transaction) -> tuple[float, float | None]:
    """When the database last received anything (epoch seconds, 0: never), and when its first process began.

    The latter, None if there was none, identifies the gateway that the database belongs to.
    """
    received = (await tx.execute(select(func.max(inbox.c.received_at)))).scalar_one()
    return received or 0.0, await _find_birth(tx)


async def load_replaced_state(
    replaced: Transaction, last_received: float, birth: float | None
) -> ReplacedDatabaseState:
    """Load what a restored database must take over that last received anything at `last_received`.

    `birth` is that of the restored database, see `find_last_received_and_birth`.
    """
    newest_updates = (
        select(inbox.c.update_id)
        .where(inbox.c.update_id.is_not(None))
        .order_by(inbox.c.id.desc())
        .limit(MAX_REDELIVERED_UPDATES)
    )
    forget_jobs = select(inbox.c.lane, inbox.c.body, inbox.c.received_at).where(
        _IS_FORGET_JOB, inbox.c.received_at > last_received
    )
    sequences = await replaced.execute(text("SELECT name, seq FROM sqlite_sequence"))
    rows_by_table = None
    consents: Consents = {}
    if birth is not None and await _find_birth(replaced) == birth:
        rows_by_table = {table.name: await _load_rows(replaced, table) for table in _CARRIED_TABLES}
        consents = await load_consents(replaced)
    return ReplacedDatabaseState(
        update_ids=(await replaced.execute(newest_updates)).scalars().all(),
        forget_items=[dict(row) for row in (await replaced.execute(forget_jobs)).mappings()],
        sequence_numbers={row.name: row.seq for row in sequences},
        rows_by_table=rows_by_table,
        consents=consents,
    )


async def apply_replaced_state(tx: Transaction, replaced: ReplacedDatabaseState, *, now: float) -> None:
    """Take over what `load_replaced_state` has loaded: received updates become items that are done."""
    for name, number in replaced.sequence_numbers.items():
        await _raise_sequence(tx, name, number)
    done = {
        "kind": "update",
        "shape": "other",
        "state": "done",
        "received_at": now,
        "done_at": now,
        "error": RESTORED_REASON,
    }
    rows = [{**done, "update_id": update_id} for update_id in replaced.update_ids]
    if rows:
        await tx.execute(upsert(inbox).on_conflict_do_nothing(index_elements=["update_id"]), rows)
    for item in replaced.forget_items:
        body = json.dumps(json.loads(item["body"]) | {"tell": False})  # the chat was notified then
        await tx.execute(insert(inbox).values(kind="system", shape="other", **{**item, "body": body}))
    if replaced.rows_by_table is None:
        return
    await put_stricter_consents(tx, replaced.consents)
    await tx.execute(delete(group_texts))  # of groups that may not be read along any more
    for name, table_rows in replaced.rows_by_table.items():
        await tx.execute(metadata.tables[name].delete())
        if table_rows:
            await tx.execute(insert(metadata.tables[name]), list(table_rows))


async def _find_birth(tx: Transaction) -> float | None:
    birth: float | None = (await tx.execute(select(func.min(lives.c.began_at)))).scalar_one()
    return birth


async def _load_rows(tx: Transaction, table: Table) -> list[Mapping[str, Any]]:
    return [dict(row) for row in (await tx.execute(select(table))).mappings()]


async def _raise_sequence(tx: Transaction, table: str, number: int) -> None:
    """Let the ids of a table continue above `number`: buttons in chats name rows by id, so none is reused."""
    row = {"name": table, "seq": number}
    raised = await tx.execute(text("UPDATE sqlite_sequence SET seq = max(seq, :seq) WHERE name = :name"), row)
    if not raised.rowcount:
        await tx.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)"), row)
