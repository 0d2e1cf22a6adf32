"""Jobs: what people and the house want done later, and the due times that have become inbox rows. Works
inside `tx`.

`next_due` is the truth. A due time is one row of the inbox, whoever writes it and however often.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import inbox, jobs, people
from bot.domain import Lane

JobKind = Literal["reminder", "task", "house"]
MissedRunPolicy = Literal["once", "skip"]
JobState = Literal["active", "paused", "done"]
MAX_JOBS = 10_000  # of all jobs

_IS_OPEN = jobs.c.state.in_(("active", "paused"))
_IS_DUE = and_(jobs.c.state == "active", jobs.c.next_due <= bindparam("now"))
_JOBS_WITH_OWNERS = jobs.outerjoin(people, people.c.id == jobs.c.person)
_SELECT_DUE = (
    select(jobs, people.c.name.label("called"), people.c.reachable)
    .select_from(_JOBS_WITH_OWNERS)
    .where(_IS_DUE)
    .order_by(jobs.c.next_due, jobs.c.id)
    .limit(bindparam("most"))
)
_SELECT_JOB = (
    select(jobs, people.c.name.label("called"), people.c.reachable)
    .select_from(_JOBS_WITH_OWNERS)
    .where(jobs.c.id == bindparam("of"))
)
_SELECT_NEXT_DUE = select(func.min(jobs.c.next_due)).where(jobs.c.state == "active")
_INSERT_DUE_ITEM = upsert(inbox).on_conflict_do_nothing(
    index_elements=["job", "due_at"], index_where=inbox.c.job.is_not(None)
)
_ADVANCE_JOB = (
    update(jobs)
    .where(jobs.c.id == bindparam("of"), jobs.c.next_due == bindparam("was"), jobs.c.state == "active")
    .values(next_due=bindparam("then"), last_due=func.coalesce(bindparam("due"), jobs.c.last_due))
)
_FINISH_JOB = (  # nothing of it is under way, and nothing will be
    update(jobs)
    .where(jobs.c.id == bindparam("of"), jobs.c.next_due.is_(None), jobs.c.state == "active")
    .values(state="done")
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job as it is made: `rule` is None for one that is due once, `name` is that of a house job.

    `next_due` None: only when it is ordered.
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
    """A stored job. `called` is its person's name, `reachable` whether messages reach them."""

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
    called: str = ""
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class FiredJob:
    """A job that was due: when it was due first, the inbox row to be written (None: it was missed), when it
    is next.

    `paused`: why it is not due any more until its person says so; with `then` as it `was`, nobody can tell
    when it is.
    """

    job: int
    previous_due: float
    due_at: float | None
    next_due: float | None
    row: Mapping[str, Any] | None = None
    pause_reason: str | None = None


async def add(tx: AsyncConnection, new_job: NewJob, *, now: float) -> int:
    """Keep a job; its id."""
    row = asdict(new_job) | {"lane": new_job.lane.key if new_job.lane else None, "made_at": now}
    return int((await tx.execute(insert(jobs).values(row).returning(jobs.c.id))).scalar_one())


async def find(tx: AsyncConnection, job: int) -> Job | None:
    """The job with this id."""
    row = (await tx.execute(_SELECT_JOB, {"of": job})).one_or_none()
    if row:
        return _to_job(row)
    return None


async def find_system_job(tx: AsyncConnection, name: str) -> Job | None:
    """The house job of this name."""
    return await _find_job(tx, jobs.c.name == name)


async def list_of_person(tx: AsyncConnection, person: int, *, limit: int = 100) -> list[Job]:
    """The jobs of somebody that are not over, the oldest first."""
    return await _list_jobs(tx, and_(jobs.c.person == person, _IS_OPEN), limit)


async def list_system_jobs(tx: AsyncConnection) -> list[Job]:
    """The house's own jobs, by name."""
    return await _list_jobs(tx, jobs.c.kind == "house", 1000)


async def count_open(tx: AsyncConnection, person: int) -> tuple[int, int]:
    """How many jobs that are not over this person has, and all people together."""
    mine = func.count(jobs.c.id).filter(jobs.c.person == person)
    row = (
        await tx.execute(select(mine, func.count(jobs.c.id)).where(_IS_OPEN, jobs.c.person.is_not(None)))
    ).one()
    return int(row[0]), int(row[1])


async def list_due(tx: AsyncConnection, *, now: float, limit: int) -> list[Job]:
    """Jobs that are due, the one that waits longest first."""
    return [_to_job(row) for row in await tx.execute(_SELECT_DUE, {"now": now, "most": limit})]


async def find_next_due(tx: AsyncConnection) -> float | None:
    """When the next job is due; None if none is."""
    first: float | None = (await tx.execute(_SELECT_NEXT_DUE)).scalar()
    return first


async def fire(tx: AsyncConnection, fired_jobs: Sequence[FiredJob], *, now: float) -> None:
    """Make due times inbox rows, each once, and move their jobs on, unless somebody has done so meanwhile."""
    rows = [
        dict(one.row) | {"job": one.job, "due_at": one.due_at, "received_at": now}
        for one in fired_jobs
        if one.row
    ]
    if rows:
        await tx.execute(_INSERT_DUE_ITEM, rows)
    moved = [
        {"of": one.job, "was": one.previous_due, "then": one.next_due, "due": one.due_at if one.row else None}
        for one in fired_jobs
    ]
    if moved:
        await tx.execute(_ADVANCE_JOB, moved)
    for one in fired_jobs:
        if one.pause_reason:
            await pause(tx, one.job, reason=one.pause_reason)
    over = [{"of": one.job} for one in fired_jobs if one.row is None and one.next_due is None]
    if over:
        await tx.execute(_FINISH_JOB, over)


async def run_now(tx: AsyncConnection, job: int, row: Mapping[str, Any], *, now: float) -> bool:
    """Write an inbox row of a job beside its due times; False while an earlier one is not done."""
    waits = and_(inbox.c.job == job, inbox.c.state.in_(("new", "running", "parked")))
    if (await tx.execute(select(inbox.c.id).where(waits).limit(1))).one_or_none() is not None:
        return False
    made = await tx.execute(_INSERT_DUE_ITEM, dict(row) | {"job": job, "due_at": now, "received_at": now})
    return made.rowcount == 1


async def list_ahead_of_clock(tx: AsyncConnection, *, now: float) -> list[tuple[Job, float]]:
    """Active jobs that were done at a moment still to come, for the clock was put back since.

    And the last due time of each that lies behind us, or when it was made.
    """
    ahead = and_(jobs.c.state == "active", jobs.c.rule.is_not(None), jobs.c.last_due > now)
    found = await _list_jobs(tx, ahead, MAX_JOBS)
    behind = select(inbox.c.job, func.max(inbox.c.due_at)).where(inbox.c.due_at <= now).group_by(inbox.c.job)
    if found:
        last = {
            int(row[0]): float(row[1]) for row in await tx.execute(behind.where(inbox.c.job.is_not(None)))
        }
    else:
        last = {}
    return [(job, last.get(job.id, min(job.made_at, now))) for job in found]


async def set_next_due(
    tx: AsyncConnection, job: int, next_due: float | None, *, zone: str | None = None
) -> None:
    """When a job is due next; `zone` if it goes by another one from now on."""
    changed = {"next_due": next_due} | ({"zone": zone} if zone else {})
    await tx.execute(update(jobs).where(jobs.c.id == job).values(changed))


async def pause(tx: AsyncConnection, job: int, *, reason: str | None = None) -> None:
    """It is not due any more until it is resumed; `why` if the house does it."""
    await tx.execute(update(jobs).where(jobs.c.id == job).values(state="paused", why_paused=reason))


async def resume(tx: AsyncConnection, job: int, next_due: float) -> None:
    """It is due again."""
    changed = {"state": "active", "why_paused": None, "failures": 0, "next_due": next_due}
    await tx.execute(update(jobs).where(jobs.c.id == job).values(changed))


async def remove(tx: AsyncConnection, job: int, *, person: int) -> Job | None:
    """Delete a job of this person; the job, or None if they have no such job."""
    found = await _find_job(tx, and_(jobs.c.id == job, jobs.c.person == person))
    if found is not None:
        await tx.execute(delete(jobs).where(jobs.c.id == job))
    return found


async def remove_all(tx: AsyncConnection, person: int) -> None:
    """Delete every job of somebody."""
    await tx.execute(delete(jobs).where(jobs.c.person == person))


async def put_system_job(tx: AsyncConnection, new_job: NewJob, *, now: float) -> None:
    """Keep a house job under its name. One that is there keeps its state, and its due time unless it has a
    new rule.
    """
    assert new_job.name is not None
    row = asdict(new_job) | {"lane": None, "made_at": now}
    made = upsert(jobs).values(row)
    other = or_(jobs.c.rule.is_distinct_from(made.excluded.rule), jobs.c.zone != made.excluded.zone)
    changed = {name: made.excluded[name] for name in ("rule", "zone", "missed", "next_due", "text")}
    await tx.execute(made.on_conflict_do_update(index_elements=["name"], set_=changed, where=other))


async def remove_system_jobs_except(tx: AsyncConnection, kept_names: Sequence[str]) -> None:
    """Delete the house jobs whose name is not among these."""
    await tx.execute(delete(jobs).where(jobs.c.kind == "house", jobs.c.name.not_in(kept_names)))


def build_inbox_row(job: Job, *, late: float = 0.0, left_out: bool = False) -> dict[str, Any]:
    """The inbox row of a due time of this job: `late` seconds after it, `left_out` if earlier ones were
    missed.
    """
    if job.kind == "house":
        body: dict[str, Any] = {"job": job.name}
    else:
        body = {"person": job.person, "name": job.called, "texts": [job.text]}
        body |= {"late": late, "left_out": left_out} if late or left_out else {}
    return {
        "kind": job.kind,
        "shape": "other",
        "lane": job.lane.key if job.lane else None,
        "sender": job.person,
        "body": json.dumps(body, ensure_ascii=False),
    }


async def _find_job(tx: AsyncConnection, condition: ColumnElement[bool]) -> Job | None:
    return next(iter(await _list_jobs(tx, condition, 1)), None)


async def _list_jobs(tx: AsyncConnection, condition: ColumnElement[bool], limit: int) -> list[Job]:
    query = select(jobs, people.c.name.label("called"), people.c.reachable).select_from(_JOBS_WITH_OWNERS)
    return [
        _to_job(row)
        for row in await tx.execute(query.where(condition).order_by(jobs.c.name, jobs.c.id).limit(limit))
    ]


def _to_job(row: Row[Any]) -> Job:
    told = row._asdict()
    lane = Lane.parse(row.lane) if row.lane else None
    reachable = row.reachable is not False
    return Job(
        **told | {"lane": lane, "called": row.called or f"Person {row.person}", "reachable": reachable}
    )
