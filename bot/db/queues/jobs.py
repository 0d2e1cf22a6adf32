"""Jobs: what users and the gateway itself want done later, and the due times that have become inbox rows.

`next_due` decides when a job is due. A due time is one row of the inbox, unique by job and moment, however
often and by which process it is written. Functions work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, insert, or_, select, update

from bot.db.portable_sql import upsert
from bot.db.queues.item_bodies import JobQuestion, QueuedTexts
from bot.db.tables import inbox, jobs, people
from bot.db.tables.queues import compute_item_share
from bot.db.transaction import Transaction
from bot.domain import Lane

JobKind = Literal["reminder", "task", "system"]  # the last one is a system job
MissedRunPolicy = Literal["once", "skip"]
JobState = Literal["active", "paused", "done", "deleted"]
MAX_JOBS = 10_000  # of all users together

_IS_OPEN = jobs.c.state.in_(("active", "paused"))
_IS_DUE = and_(jobs.c.state == "active", jobs.c.next_due <= bindparam("now"))
_JOBS_WITH_OWNERS = jobs.outerjoin(people, people.c.id == jobs.c.person)
_SELECT_JOBS = select(jobs, people.c.name.label("person_name"), people.c.reachable).select_from(
    _JOBS_WITH_OWNERS
)
_SELECT_DUE = _SELECT_JOBS.where(_IS_DUE).order_by(jobs.c.next_due, jobs.c.id).limit(bindparam("max_rows"))
_SELECT_NEXT_DUE = select(func.min(jobs.c.next_due)).where(jobs.c.state == "active")

# A due time that has its row already is skipped, so that firing it again after a crash changes nothing.
# The condition must repeat that of the partial index, or SQLite does not find the index to conflict with.
_INSERT_DUE_ITEM = upsert(inbox).on_conflict_do_nothing(
    index_elements=["job", "due_at"], index_where=inbox.c.job.is_not(None)
)

# Move a job on only from the due time that was fired: if somebody has changed or paused it meanwhile, their
# change stays. A missed due time gets no row, and `last_due` keeps its value.
_ADVANCE_JOB = (
    update(jobs)
    .where(
        jobs.c.id == bindparam("job_id"),
        jobs.c.next_due == bindparam("fired_due"),
        jobs.c.state == "active",
    )
    .values(next_due=bindparam("following_due"), last_due=func.coalesce(bindparam("due"), jobs.c.last_due))
)

# For a job whose last due time was missed: nothing of it is under way, and nothing will be.
_FINISH_JOB = (
    update(jobs)
    .where(jobs.c.id == bindparam("job_id"), jobs.c.next_due.is_(None), jobs.c.state == "active")
    .values(state="done")
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to store: `rule` is None for one that is due once, `name` is that of a system job.

    `next_due` None: it runs only when ordered. `name` is also that of a snooze.
    """

    kind: JobKind
    next_due: float | None
    zone: str
    rule: str | None = None
    missed: MissedRunPolicy = "once"
    text: str = ""
    person: int | None = None
    lane: Lane | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A stored job.

    `question`: what its person was asked for, to change it. `reachable`: whether messages reach them.
    """

    id: int
    kind: JobKind
    name: str | None
    person: int | None
    lane: Lane | None
    text: str
    rule: str | None
    zone: str
    next_due: float | None
    missed: MissedRunPolicy
    state: JobState
    why_paused: str | None
    failures: int
    made_at: float
    last_due: float | None
    last_done: float | None
    question: JobQuestion | None = None
    person_name: str = ""
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class FiredJob:
    """A job that was due, and what becomes of it.

    `previous_due`: its stored due time. `row`: the inbox row to insert, due at `due_at`; None: it was missed.
    `next_due`: its next due time. `pause_reason`: why it is paused until its person resumes it; if `next_due`
    then equals `previous_due`, the next due time could not be computed.
    """

    job: int
    previous_due: float
    due_at: float | None
    next_due: float | None
    row: Mapping[str, Any] | None = None
    pause_reason: str | None = None


async def add(tx: Transaction, new_job: NewJob, *, now: float) -> int:
    """Store a job; returns its id."""
    lane_key = new_job.lane.key if new_job.lane else None
    row = asdict(new_job) | {"lane": lane_key, "made_at": now}
    tx.changes.has_due_times = True
    return int((await tx.execute(insert(jobs).values(row).returning(jobs.c.id))).scalar_one())


async def find(tx: Transaction, job: int) -> Job | None:
    """The job with this id."""
    return await _find_job(tx, jobs.c.id == job)


async def find_kept(tx: Transaction, job: int) -> Job | None:
    """The job with this id, unless it is deleted."""
    return await _find_job(tx, and_(jobs.c.id == job, jobs.c.state != "deleted"))


async def find_named(tx: Transaction, name: str) -> Job | None:
    """The system job or the snooze with this name."""
    return await _find_job(tx, jobs.c.name == name)


async def list_of_person(
    tx: Transaction, person: int | None, *, chat: int | None = None, limit: int = 100, offset: int = 0
) -> list[Job]:
    """A person's open jobs: first what is under way, then by due time, and last those that are paused.

    `person` None: those of everybody in the chat. `chat`: only those of this chat (None: of all chats).
    """
    query = (
        _SELECT_JOBS.where(_belongs_to(person, chat), _IS_OPEN)
        .order_by(jobs.c.state == "paused", jobs.c.next_due.nulls_first(), jobs.c.id)
        .limit(limit)
        .offset(offset)
    )
    return [_to_job(row) for row in await tx.execute(query)]


async def list_asked_about(tx: Transaction, person: int) -> list[Job]:
    """A person's jobs for whose new time or text they were asked, and have not answered."""
    is_asked = and_(jobs.c.person == person, jobs.c.question.is_not(None), _IS_OPEN)
    return await _list_jobs(tx, is_asked, MAX_JOBS)


async def list_system_jobs(tx: Transaction) -> list[Job]:
    """All system jobs, by name."""
    return await _list_jobs(tx, jobs.c.kind == "system", 1000)


async def count_open(tx: Transaction, person: int | None, *, chat: int | None = None) -> tuple[int, int]:
    """How many open jobs this person has (None: everybody), there or in all chats, and how many there are."""
    of_person = func.count(jobs.c.id).filter(_belongs_to(person, chat))
    query = select(of_person, func.count(jobs.c.id)).where(_IS_OPEN, jobs.c.person.is_not(None))
    row = (await tx.execute(query)).one()
    return int(row[0]), int(row[1])


async def list_due(tx: Transaction, *, now: float, limit: int) -> list[Job]:
    """Jobs that are due, the one that waits longest first."""
    return [_to_job(row) for row in await tx.execute(_SELECT_DUE, {"now": now, "max_rows": limit})]


async def find_next_due(tx: Transaction) -> float | None:
    """When the next job is due (epoch seconds); None if none is."""
    next_due: float | None = (await tx.execute(_SELECT_NEXT_DUE)).scalar()
    return next_due


async def fire(tx: Transaction, fired_jobs: Sequence[FiredJob], *, now: float) -> None:
    """Insert due times into the inbox, each once, and advance jobs that were not changed meanwhile."""
    rows = [
        dict(fired.row) | {"job": fired.job, "due_at": fired.due_at, "received_at": now}
        for fired in fired_jobs
        if fired.row
    ]
    if rows:
        await tx.execute(_INSERT_DUE_ITEM, rows)
        tx.changes.note_inbox(map(compute_item_share, rows))
    advances = [
        {
            "job_id": fired.job,
            "fired_due": fired.previous_due,
            "following_due": fired.next_due,
            "due": fired.due_at if fired.row else None,
        }
        for fired in fired_jobs
    ]
    if advances:
        await tx.execute(_ADVANCE_JOB, advances)
    for fired in fired_jobs:
        if fired.pause_reason:
            await pause(tx, fired.job, reason=fired.pause_reason)
    finished = [{"job_id": fired.job} for fired in fired_jobs if fired.row is None and fired.next_due is None]
    if finished:
        await tx.execute(_FINISH_JOB, finished)


async def run_now(tx: Transaction, job: int, row: Mapping[str, Any], *, now: float) -> bool:
    """Insert an inbox row of a job outside its due times; False while an earlier one is not done."""
    await tx.execute(select(jobs.c.id).where(jobs.c.id == job).with_for_update())  # two runs at once are one
    pending = and_(inbox.c.job == job, inbox.c.state.in_(("new", "running", "parked")))
    if (await tx.execute(select(inbox.c.id).where(pending).limit(1))).one_or_none() is not None:
        return False
    values = dict(row) | {"job": job, "due_at": now, "received_at": now}
    share = (await tx.execute(_INSERT_DUE_ITEM.returning(inbox.c.share), values)).scalar_one_or_none()
    if share is None:
        return False
    tx.changes.note_inbox([share])
    return True


async def list_ahead_of_clock(tx: Transaction, *, now: float) -> list[tuple[Job, float]]:
    """Active jobs whose last due time lies in the future, because the clock was set back since.

    With each comes its last due time that lies in the past, or else when it was made (epoch seconds).
    """
    is_ahead = and_(jobs.c.state == "active", jobs.c.rule.is_not(None), jobs.c.last_due > now)
    ahead = await _list_jobs(tx, is_ahead, MAX_JOBS)
    if not ahead:
        return []
    past = and_(inbox.c.due_at <= now, inbox.c.job.is_not(None))
    query = select(inbox.c.job, func.max(inbox.c.due_at)).where(past).group_by(inbox.c.job)
    last_due = {int(row[0]): float(row[1]) for row in await tx.execute(query)}
    return [(job, last_due.get(job.id, min(job.made_at, now))) for job in ahead]


async def set_next_due(tx: Transaction, job: int, next_due: float | None, *, zone: str | None = None) -> None:
    """Set when a job is due next; `zone` replaces its time zone."""
    values: dict[str, object] = {"next_due": next_due}
    if zone:
        values["zone"] = zone
    await tx.execute(update(jobs).where(jobs.c.id == job).values(values))
    tx.changes.has_due_times = True


async def pause(tx: Transaction, job: int, *, reason: str | None = None) -> None:
    """Pause an active job until it is resumed; `reason` only if the gateway pauses it."""
    is_active = and_(jobs.c.id == job, jobs.c.state == "active")
    await tx.execute(update(jobs).where(is_active).values(state="paused", why_paused=reason))


async def resume(tx: Transaction, job: int, next_due: float) -> None:
    """Resume a job; its failures count from zero again."""
    values = {"state": "active", "why_paused": None, "failures": 0, "next_due": next_due}
    await tx.execute(update(jobs).where(jobs.c.id == job).values(values))
    tx.changes.has_due_times = True


async def mark_deleted(tx: Transaction, job: int) -> None:
    """Delete a job so that it can be restored until the next night."""
    await tx.execute(update(jobs).where(jobs.c.id == job).values(state="deleted"))


async def restore(tx: Transaction, job: int) -> None:
    """Restore a job that is marked as deleted; it is paused, for the reason it had."""
    is_deleted = and_(jobs.c.id == job, jobs.c.state == "deleted")
    await tx.execute(update(jobs).where(is_deleted).values(state="paused"))


async def find_to_change(tx: Transaction, job: int) -> Job | None:
    """The job with this id; who else would change it waits until this transaction ends."""
    await tx.execute(select(jobs.c.id).where(jobs.c.id == job).with_for_update())
    return await find(tx, job)


async def put_question(tx: Transaction, job: int, question: JobQuestion | None) -> None:
    """Store what the person of a job is asked for, to change it; None: nothing any more."""
    stored = json.dumps(question.serialize()) if question else None
    await tx.execute(update(jobs).where(jobs.c.id == job).values(question=stored))


async def change(tx: Transaction, job: int, values: Mapping[str, Any]) -> None:
    """Store what of a job is another now, in answer to the question for it."""
    await tx.execute(update(jobs).where(jobs.c.id == job).values(**values, question=None))
    tx.changes.has_due_times = True


async def remove_deleted(tx: Transaction) -> None:
    """Delete the jobs that are marked as deleted: from now on none of them can be restored."""
    await tx.execute(delete(jobs).where(jobs.c.state == "deleted"))


async def remove(tx: Transaction, job: int, *, person: int, chat: int | None = None) -> Job | None:
    """Delete a job of this person; returns it, or None if they have no such job (there)."""
    removed = await _find_job(tx, and_(jobs.c.id == job, _belongs_to(person, chat)))
    if removed is not None:
        await tx.execute(delete(jobs).where(jobs.c.id == job))
    return removed


async def remove_all(tx: Transaction, person: int, *, chat: int | None = None) -> None:
    """Delete every job of a person, there or in all chats."""
    await tx.execute(delete(jobs).where(_belongs_to(person, chat)))


async def remove_all_of_chat(tx: Transaction, chat: int) -> None:
    """Delete every job of a chat with all its topics."""
    await tx.execute(delete(jobs).where(_is_in_chat(chat)))


async def put_system_job(tx: Transaction, new_job: NewJob, *, now: float) -> None:
    """Store a system job under its name. An existing one keeps its state, and keeps its due time too unless
    its rule or its time zone has changed.
    """
    assert new_job.name is not None
    row = asdict(new_job) | {"lane": None, "made_at": now}
    inserted = upsert(jobs).values(row)
    new = inserted.excluded
    is_changed = or_(jobs.c.rule.is_distinct_from(new.rule), jobs.c.zone != new.zone)
    values = {name: new[name] for name in ("rule", "zone", "missed", "next_due", "text")}
    await tx.execute(inserted.on_conflict_do_update(index_elements=["name"], set_=values, where=is_changed))
    tx.changes.has_due_times = True


async def remove_system_jobs_except(tx: Transaction, kept_names: Sequence[str]) -> None:
    """Delete the system jobs whose name is not among these."""
    await tx.execute(delete(jobs).where(jobs.c.kind == "system", jobs.c.name.not_in(kept_names)))


def build_inbox_row(job: Job, *, late: float = 0.0, left_out: bool = False) -> dict[str, Any]:
    """The inbox row of a due time of this job.

    `late`: seconds after the due time. `left_out`: earlier due times were missed and are not made up for.
    """
    if job.kind == "system":
        body: dict[str, Any] = {"job": job.name}
    else:
        assert job.person is not None
        texts = QueuedTexts(job.person, job.person_name, (job.text,), late=late, left_out=left_out)
        body = texts.serialize()
    return {
        "kind": job.kind,
        "shape": "other",
        "lane": job.lane.key if job.lane else None,
        "sender": job.person,
        "body": json.dumps(body, ensure_ascii=False),
    }


def _belongs_to(person: int | None, chat: int | None) -> ColumnElement[bool]:
    """Whether a job is this person's (None: anybody's), in this chat (None: in whichever)."""
    is_theirs = jobs.c.person.is_not(None) if person is None else jobs.c.person == person
    if chat is None:
        return is_theirs
    return and_(is_theirs, _is_in_chat(chat))


def _is_in_chat(chat: int) -> ColumnElement[bool]:
    return or_(jobs.c.lane == Lane(chat).key, jobs.c.lane.startswith(f"{chat}:"))


async def _find_job(tx: Transaction, condition: ColumnElement[bool]) -> Job | None:
    return next(iter(await _list_jobs(tx, condition, 1)), None)


async def _list_jobs(tx: Transaction, condition: ColumnElement[bool], limit: int) -> list[Job]:
    query = _SELECT_JOBS.where(condition).order_by(jobs.c.name.nulls_first(), jobs.c.id).limit(limit)
    return [_to_job(row) for row in await tx.execute(query)]


def _to_job(row: Row[Any]) -> Job:
    computed = {
        "lane": Lane.parse(row.lane) if row.lane else None,
        "question": JobQuestion.parse(json.loads(row.question)) if row.question else None,
        "person_name": row.person_name or f"Person {row.person}",
        "reachable": row.reachable is not False,  # unknown counts as reachable
    }
    return Job(**row._asdict() | computed)
