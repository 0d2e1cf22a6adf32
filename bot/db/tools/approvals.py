"""Approval questions about tool calls, their answers, and allowances given for later calls.

A question holds the arguments as they were shown, and only those may run later. Functions work inside the
caller's transaction `tx`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Row, and_, delete, func, insert, select, update

from bot.db.tables import allowances, approvals, outbox, tool_calls
from bot.db.tables import turns as turn_rows
from bot.db.transaction import Transaction
from bot.domain import Lane

ApprovalAnswer = Literal["once", "here", "given", "denied", "expired", "stopped"]
ApproverKind = Literal["asker", "admins"]

_IS_OPEN = approvals.c.answer.is_(None)


@dataclass(frozen=True, slots=True)
class NewApprovalQuestion:
    """A question about a call.

    `hash` is of the tool's definition, `who` may answer, `why` it is asked. `binding`: what an allowance
    would cover (see the table); None: none can be given.
    """

    turn: int
    step: int
    call_id: str
    tool: str
    arguments: str
    hash: str
    asker: int
    lane: Lane
    who: ApproverKind
    why: str
    binding: str | None
    expires_at: float


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """A stored question; `answer` None: it is open. `answered_by` None: no person answered it.

    `reply`: what they said, if the answer was given in words.
    """

    id: int
    turn: int
    step: int
    call_id: str
    tool: str
    arguments: str
    hash: str
    asker: int
    lane: Lane
    who: ApproverKind
    binding: str | None
    asked_at: float
    expires_at: float
    answer: ApprovalAnswer | None
    reply: str | None
    answered_by: int | None


@dataclass(frozen=True, slots=True)
class Allowance:
    """A person's calls of a tool in a chat that need no approval until a moment (epoch seconds)."""

    id: int
    person: int
    chat: int
    tool: str
    binding: str
    until: float


@dataclass(frozen=True, slots=True)
class AllowanceKey:
    """What an allowance must match to cover a call; `hash` is of the tool's definition."""

    person: int
    chat: int
    tool: str
    hash: str
    binding: str


async def insert_question(tx: Transaction, new_question: NewApprovalQuestion, *, now: float) -> int:
    """Store a question, and that its call waits for it; returns its id."""
    row = asdict(new_question) | {"lane": new_question.lane.key, "asked_at": now}
    inserted = await tx.execute(insert(approvals).values(row).returning(approvals.c.id))
    question = int(inserted.scalar_one())
    tx.changes.has_questions = True
    call = and_(
        tool_calls.c.turn == new_question.turn,
        tool_calls.c.step == new_question.step,
        tool_calls.c.call_id == new_question.call_id,
    )
    await tx.execute(update(tool_calls).where(call).values(approval=question))
    return question


async def link_messages(tx: Transaction, question: int, outbox_rows: Sequence[int]) -> None:
    """Store that these rows of the outbox ask the question."""
    await tx.execute(update(outbox).where(outbox.c.id.in_(outbox_rows)).values(approval=question))


async def list_messages(tx: Transaction, question: int) -> list[tuple[int, Lane]]:
    """The rows of the outbox that ask a question, with their lanes."""
    query = select(outbox.c.id, outbox.c.lane).where(outbox.c.approval == question)
    return [(row.id, Lane.parse(row.lane)) for row in await tx.execute(query.order_by(outbox.c.id))]


async def find(tx: Transaction, question: int, *, to_answer: bool = False) -> ApprovalQuestion | None:
    """This question, if there is one; `to_answer`: another answer to it waits for this transaction's end."""
    query = select(approvals).where(approvals.c.id == question)
    if to_answer:
        query = query.with_for_update()
    row = (await tx.execute(query)).one_or_none()
    if row:
        return _to_question(row)
    return None


async def list_answered_turns(tx: Transaction, answered_turns: Iterable[int]) -> list[int]:
    """Those of these turns that have no open question left, for the caller to resume.

    Two questions of a turn may be answered at once: the turn is locked, so that the later of the two sees the
    other's answer.
    """
    ids = {*answered_turns}
    locked = select(turn_rows.c.id).where(turn_rows.c.id.in_(ids)).order_by(turn_rows.c.id)
    await tx.execute(locked.with_for_update())
    waiting = select(approvals.c.turn).where(_IS_OPEN, approvals.c.turn.in_(ids))
    return sorted(ids - {*(await tx.execute(waiting)).scalars()})


async def find_asked(
    tx: Transaction, lane: Lane, person: int, tool: str, *, received_at: float, now: float
) -> tuple[int, int | None] | None:
    """Find the question of a tool that is open, and was when a message of its person came to this lane.

    Returns its id and that of the message which asks it, None while that is being sent.
    """
    query = (
        select(approvals.c.id, outbox.c.message_id)
        .join(outbox, outbox.c.approval == approvals.c.id)
        .where(_IS_OPEN, approvals.c.expires_at > now, approvals.c.asked_at < received_at)
        .where(approvals.c.lane == lane.key, approvals.c.asker == person, approvals.c.tool == tool)
        .where(outbox.c.tries > 0)
        .order_by(outbox.c.id.desc())
        .limit(1)
    )
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else (row.id, row.message_id)


async def load_of_turn(tx: Transaction, turn: int) -> dict[tuple[int, str], ApprovalQuestion]:
    """The questions of a turn, by step and call id."""
    rows = await tx.execute(select(approvals).where(approvals.c.turn == turn).order_by(approvals.c.id))
    return {(row.step, row.call_id): _to_question(row) for row in rows}


async def list_open(
    tx: Transaction,
    *,
    turns: Sequence[int] | None = None,
    person: int | None = None,
    expired_by: float | None = None,
) -> list[ApprovalQuestion]:
    """Open questions, the oldest first.

    `turns`: only of these turns; `person`: only about calls of their turns; `expired_by`: only those that
    expire at this moment (epoch seconds) or before.
    """
    query = select(approvals).where(_IS_OPEN).order_by(approvals.c.id)
    if turns is not None:
        query = query.where(approvals.c.turn.in_(turns))
    if person is not None:
        query = query.where(approvals.c.asker == person)
    if expired_by is not None:
        query = query.where(approvals.c.expires_at <= expired_by)
    return [_to_question(row) for row in await tx.execute(query)]


async def find_next_expiry(tx: Transaction) -> float | None:
    """When the next open question expires (epoch seconds); None: none is open."""
    query = select(func.min(approvals.c.expires_at)).where(_IS_OPEN)
    next_expiry: float | None = (await tx.execute(query)).scalar_one()
    return next_expiry


async def store_answer(
    tx: Transaction,
    question: int,
    answer: ApprovalAnswer,
    answered_by: int | None,
    reply: str | None = None,
    *,
    now: float,
) -> bool:
    """Store the answer; False if there was one before. `answered_by` None: no person answered."""
    if_open = update(approvals).where(approvals.c.id == question, _IS_OPEN)
    values = {"answer": answer, "reply": reply, "answered_by": answered_by, "answered_at": now}
    stored = await tx.execute(if_open.values(values))
    return stored.rowcount > 0


async def allow(tx: Transaction, key: AllowanceKey, *, until: float, given_by: int, now: float) -> None:
    """Allow calls that match `key` until then (epoch seconds); replaces an allowance with the same key."""
    await tx.execute(delete(allowances).where(_matches_key(key)))
    row = asdict(key) | {"until": until, "given_by": given_by, "given_at": now}
    await tx.execute(insert(allowances).values(row))


async def find_giver(tx: Transaction, key: AllowanceKey, *, now: float) -> int | None:
    """Who gave the allowance that covers such calls now; None: there is none."""
    query = select(allowances.c.given_by).where(_matches_key(key), allowances.c.until > now).limit(1)
    giver: int | None = (await tx.execute(query)).scalar_one_or_none()
    return giver


async def list_allowances(tx: Transaction, person: int | None, *, now: float) -> list[Allowance]:
    """A person's allowances in all chats, or everybody's (None), the newest first."""
    query = select(allowances).where(allowances.c.until > now).order_by(allowances.c.id.desc())
    if person is not None:
        query = query.where(allowances.c.person == person)
    return [
        Allowance(row.id, row.person, row.chat, row.tool, row.binding, row.until)
        for row in await tx.execute(query)
    ]


async def revoke(tx: Transaction, allowance: int, person: int | None) -> bool:
    """Revoke an allowance; False if there is none, or it is not this person's (None: of any person)."""
    condition = allowances.c.id == allowance
    if person is not None:
        condition &= allowances.c.person == person
    return (await tx.execute(delete(allowances).where(condition))).rowcount > 0


async def revoke_all(tx: Transaction, *, person: int | None = None, chat: int | None = None) -> None:
    """Revoke all allowances of a person, and all in a chat."""
    if person is not None:
        await tx.execute(delete(allowances).where(allowances.c.person == person))
    if chat is not None:
        await tx.execute(delete(allowances).where(allowances.c.chat == chat))


def _matches_key(key: AllowanceKey) -> Any:
    return and_(*(allowances.c[name] == value for name, value in asdict(key).items()))


def _to_question(row: Row[Any]) -> ApprovalQuestion:
    fields = {name: getattr(row, name) for name in ApprovalQuestion.__slots__}
    return ApprovalQuestion(**fields | {"lane": Lane.parse(row.lane)})
