"""What a lane's current conversation holds in words: its messages, tool results and documents. Only reads.

Bounded: the newest so many, of each so much. Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import attachments, lanes, messages, tool_calls, turns
from bot.domain import Lane

MESSAGES = 4000
DOCUMENTS = 20
LONGEST_MESSAGE = 8000  # characters
LONGEST_DOCUMENT = 500_000


@dataclass(frozen=True, slots=True)
class Said:
    """Something said or sent. `source` says in words whose it is, such as `the user` or `document lease.pdf`."""

    source: str
    made_at: float
    text: str


async def said(tx: AsyncConnection, lane: Lane, *, leave_out: str) -> list[Said]:
    """What was said in the ended turns, the newest first, without results of the tool `leave_out`."""
    source = case(
        (messages.c.role == "user", "the user"),
        (messages.c.role == "assistant", "you"),
        else_="result of " + func.coalesce(tool_calls.c.name, "a tool"),
    )
    result_of = and_(tool_calls.c.turn == messages.c.turn, tool_calls.c.call_id == messages.c.call_id)
    query = (
        select(source, messages.c.made_at, func.substr(messages.c.text, 1, LONGEST_MESSAGE))
        .select_from(messages.join(turns, messages.c.turn == turns.c.id).outerjoin(tool_calls, result_of))
        .where(messages.c.text != "", tool_calls.c.name.is_distinct_from(leave_out))
    )
    return await _read(tx, lane, query, ("ended",), MESSAGES)


async def documents(tx: AsyncConnection, lane: Lane) -> list[Said]:
    """The texts of what was sent, the newest first; also in the turn that runs, whose prompt may hold only a
    part.
    """
    query = (
        select(
            attachments.c.kind + " " + attachments.c.name,
            messages.c.made_at,
            func.substr(attachments.c.text, 1, LONGEST_DOCUMENT),
        )
        .select_from(
            attachments.join(messages, attachments.c.message == messages.c.id).join(
                turns, messages.c.turn == turns.c.id
            )
        )
        .where(attachments.c.text.is_not(None))
    )
    return await _read(tx, lane, query, ("ended", "running"), DOCUMENTS)


async def _read(
    tx: AsyncConnection, lane: Lane, query: Select[Any], states: tuple[str, ...], most: int
) -> list[Said]:
    now = select(lanes.c.conversation).where(lanes.c.lane == lane.key).scalar_subquery()
    here = and_(turns.c.lane == lane.key, turns.c.conversation == now, turns.c.state.in_(states))
    return [
        Said(*row) for row in await tx.execute(query.where(here).order_by(messages.c.id.desc()).limit(most))
    ]
