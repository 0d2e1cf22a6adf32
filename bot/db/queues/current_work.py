"""What runs and what waits at this moment, for admins to look at. Only reads, and no texts of people."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, FromClause, ScalarSelect, Select, case, func, or_, select, text

from bot.db.tables import (
    approvals,
    groups,
    inbox,
    jobs,
    lives,
    notices,
    outbox,
    people,
    share_holds,
    sources,
    strangers,
    tools,
    turns,
)
from bot.db.transaction import Transaction
from bot.db.usage.ledger_columns import IS_FAILED_TURN
from bot.domain import DAY_SECONDS, ItemKind

MAX_ROWS = 12  # of each list
SIGN_OF_LIFE_SECONDS = 75  # an idle gateway gives one a minute; a busy disk may delay it
UNKNOWN_DAYS = 7  # for which sends of unknown outcome are listed
_item = inbox.c
_IS_PENDING = (
    sources.c.enabled,
    tools.c.enabled,
    or_(tools.c.pending.is_not(None), tools.c.flagged.is_not(None)),
)
_sent = outbox.c
_copies = outbox.alias("copies")


@dataclass(frozen=True, slots=True)
class RunningItem:
    """An inbox item at work; `lane` None: a control item, or a job of the gateway itself."""

    kind: ItemKind
    lane: str | None
    sender: int | None
    since: float | None


@dataclass(frozen=True, slots=True)
class WaitingLane:
    """A lane in which items wait: how many, and since when the oldest does."""

    lane: str | None
    items: int
    since: float


@dataclass(frozen=True, slots=True)
class UnknownSend:
    """A message of which nobody knows whether it arrived, and that was not sent again."""

    id: int
    lane: str
    made_at: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """A tool call that waits for an answer; `who` (asker or admins) may give it."""

    id: int
    tool: str
    asker: int
    lane: str
    who: str
    asked_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class LastNotice:
    """The last notice to admins about a subject."""

    subject: str
    text: str
    told_at: float


@dataclass(frozen=True, slots=True)
class NextJob:
    """A job that is due at `due_at`; `name` is None unless it is the gateway's own."""

    kind: ItemKind
    name: str | None
    person_name: str | None
    due_at: float


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A gateway among several that has not ended in order: how many shares of the chats are noted as its own.

    `seen_at`: its last sign of life.
    """

    life: int
    began_at: float
    seen_at: float
    shares: int


@dataclass(frozen=True, slots=True)
class CurrentWork:
    """All of it, each list bounded; `parked`: turns that wait for a person.

    `failed`: turns of the last day. `strangers`, `groups` and `tools` wait for an admin, who lets them in or
    accepts what is new of them.
    `seen_at`: the last sign of life of a gateway (None: none ever ran). `running_at`: of one that has not
    ended in order; `began_at`: since when the newest of them runs. `replicas`: empty for a gateway that is
    alone on its database.
    """

    seen_at: float | None
    running_at: float | None
    began_at: float | None
    replicas: tuple[ReplicaRow, ...]
    running: tuple[RunningItem, ...]
    waiting: tuple[WaitingLane, ...]
    waiting_items: int
    parked: int
    failed: int
    strangers: int
    groups: int
    tools: int
    unknown: tuple[UnknownSend, ...]
    approvals: tuple[OpenApproval, ...]
    notices: tuple[LastNotice, ...]
    next_jobs: tuple[NextJob, ...]


async def load_current_work(tx: Transaction, *, now: float) -> CurrentWork:
    """What runs and waits now, and how many turns failed that came in the last day."""
    has_not_ended = lives.c.ended_at.is_(None)
    signs_of_life = select(
        func.max(lives.c.seen_at),
        func.max(case((has_not_ended, lives.c.seen_at))),
        func.max(case((has_not_ended, lives.c.began_at))),
    )
    seen_at, running_at, began_at = (await tx.execute(signs_of_life)).one()
    counts = select(_item.state, func.count()).where(_item.state.in_(("new", "parked"))).group_by(_item.state)
    by_state = {row[0]: int(row[1]) for row in await tx.execute(counts)}
    running = select(_item.kind, _item.lane, _item.sender, _item.taken_at).where(_item.state == "running")
    waiting = (
        select(_item.lane, func.count(), func.min(_item.received_at))
        .where(_item.state == "new")
        .group_by(_item.lane)
        .order_by(func.min(_item.received_at))
    )
    failed, asking_strangers, asking_groups, pending_tools = (
        await tx.execute(
            select(
                _count(turns, turns.c.received_at >= now - DAY_SECONDS, IS_FAILED_TURN),
                _count(strangers),
                _count(groups, groups.c.state == "asked"),
                _count(tools.join(sources, sources.c.name == tools.c.source), *_IS_PENDING),
            )
        )
    ).one()
    return CurrentWork(
        seen_at=seen_at,
        running_at=running_at,
        began_at=began_at,
        replicas=tuple(ReplicaRow(*row) for row in await _load(tx, _SELECT_REPLICAS)),
        running=tuple(RunningItem(*row) for row in await _load(tx, running.order_by(_item.taken_at))),
        waiting=tuple(WaitingLane(*row) for row in await _load(tx, waiting)),
        waiting_items=by_state.get("new", 0),
        parked=by_state.get("parked", 0),
        failed=failed,
        strangers=asking_strangers,
        groups=asking_groups,
        tools=pending_tools,
        unknown=tuple(UnknownSend(*row) for row in await _load(tx, _select_unknown(now))),
        approvals=tuple(OpenApproval(*row) for row in await _load(tx, _SELECT_APPROVALS)),
        notices=tuple(LastNotice(*row) for row in await _load(tx, _SELECT_NOTICES)),
        next_jobs=tuple(NextJob(*row) for row in await _load(tx, _SELECT_JOBS)),
    )


def _select_unknown(now: float) -> Select[Any]:
    columns: tuple[Column[Any], ...] = (_sent.id, _sent.lane, _sent.made_at, _sent.error)
    sent_again = select(_copies.c.id).where(_copies.c.copy_of == _sent.id).exists()
    since = now - UNKNOWN_DAYS * DAY_SECONDS
    query = select(*columns).where(_sent.state == "unknown", _sent.made_at >= since, ~sent_again)
    return query.order_by(_sent.id.desc())


def _count(rows: FromClause, *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(func.count()).select_from(rows).where(*conditions).scalar_subquery()


async def _load(tx: Transaction, query: Select[Any]) -> list[Any]:
    return list((await tx.execute(query.limit(MAX_ROWS))).all())


_SELECT_REPLICAS: Select[Any] = (
    select(lives.c.id, lives.c.began_at, lives.c.seen_at, func.count())
    .select_from(lives.join(share_holds, share_holds.c.life == lives.c.id))
    .where(share_holds.c.ended_at.is_(None), lives.c.ended_at.is_(None))
    .group_by(lives.c.id, lives.c.began_at, lives.c.seen_at)
    .order_by(lives.c.id)
)
_approval = approvals.c
_SELECT_APPROVALS: Select[Any] = (
    select(
        _approval.id,
        _approval.tool,
        _approval.asker,
        _approval.lane,
        _approval.who,
        _approval.asked_at,
        _approval.expires_at,
    )
    .where(_approval.answer.is_(None))
    .order_by(_approval.expires_at)
)
_SELECT_NOTICES: Select[Any] = select(notices).order_by(notices.c.told_at.desc())
_SELECT_JOBS: Select[Any] = (
    select(jobs.c.kind, jobs.c.name, people.c.name, jobs.c.next_due)
    .select_from(jobs.outerjoin(people, people.c.id == jobs.c.person))
    .where(text("jobs.state = 'active'"), jobs.c.next_due.is_not(None))
    .order_by(jobs.c.next_due)
)
