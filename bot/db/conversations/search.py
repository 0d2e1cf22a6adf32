"""The texts of a lane to search: messages, tool results and documents of all its conversations. Only reads.

Bounded in number (the newest) and in length. Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, case, func, select

from bot.db.tables import attachments, lanes, messages, tool_calls, turns
from bot.db.tables.base import Text
from bot.db.transaction import Transaction
from bot.domain import Lane

MAX_MESSAGES = 4000
MAX_DOCUMENTS = 20
MAX_MESSAGE_CHARACTERS = 8000
MAX_DOCUMENT_CHARACTERS = 500_000


@dataclass(frozen=True, slots=True)
class SearchedPeriod:
    """From one moment to another (epoch seconds), the latter left out."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class HistoryText:
    """A text of a chat. `source` names its origin, such as `the user` or `document lease.pdf`."""

    turn: int
    source: str
    made_at: float
    text: str


async def load_messages(
    tx: Transaction, lane: Lane, period: SearchedPeriod | None = None, *, excluded_tool: str | None
) -> list[HistoryText]:
    """The messages of the ended turns, the newest first, without results of `excluded_tool`; None: of any."""
    source = case(
        (messages.c.role == "user", "the user"),
        (messages.c.role == "assistant", "you"),
        else_="result of " + func.coalesce(tool_calls.c.name, "a tool"),
    )
    result_of = and_(tool_calls.c.turn == messages.c.turn, tool_calls.c.call_id == messages.c.call_id)
    query = (
        select(
            turns.c.id,
            source,
            messages.c.made_at,
            func.substr(messages.c.text, 1, MAX_MESSAGE_CHARACTERS, type_=Text),
        )
        .select_from(messages.join(turns, messages.c.turn == turns.c.id).outerjoin(tool_calls, result_of))
        .where(messages.c.text != "")
    )
    if excluded_tool is None:
        query = query.where(messages.c.role != "tool")
    else:
        query = query.where(tool_calls.c.name.is_distinct_from(excluded_tool))
    return await _load_texts(tx, lane, query, ("ended",), MAX_MESSAGES, period)


async def load_documents(
    tx: Transaction, lane: Lane, period: SearchedPeriod | None = None
) -> list[HistoryText]:
    """The texts of attachments, the newest first.

    Those of the running turn are included, because its prompt may hold only a part of them.
    """
    query = (
        select(
            turns.c.id,
            attachments.c.kind + " " + attachments.c.name,
            messages.c.made_at,
            func.substr(attachments.c.text, 1, MAX_DOCUMENT_CHARACTERS, type_=Text),
        )
        .select_from(
            attachments.join(messages, attachments.c.message == messages.c.id).join(
                turns, messages.c.turn == turns.c.id
            )
        )
        .where(attachments.c.text.is_not(None))
    )
    return await _load_texts(tx, lane, query, ("ended", "running"), MAX_DOCUMENTS, period)


async def load_exchange(tx: Transaction, lane: Lane, turn: int) -> list[HistoryText]:
    """What was asked and answered in a turn of this lane; empty where nothing of it may be found."""
    query = (
        select(turns.c.id, messages.c.role, messages.c.made_at, messages.c.text)
        .select_from(messages.join(turns, messages.c.turn == turns.c.id))
        .where(turns.c.id == turn, messages.c.role.in_(("user", "assistant")), messages.c.text != "")
    )
    return (await _load_texts(tx, lane, query, ("ended",), MAX_MESSAGES, None))[::-1]


async def _load_texts(
    tx: Transaction,
    lane: Lane,
    query: Select[Any],
    states: tuple[str, ...],
    limit: int,
    period: SearchedPeriod | None,
) -> list[HistoryText]:
    first = select(lanes.c.searchable_from).where(lanes.c.lane == lane.key).scalar_subquery()
    may_be_found = and_(
        turns.c.lane == lane.key,
        turns.c.conversation >= func.coalesce(first, 1),
        turns.c.state.in_(states),
    )
    if period is not None:
        query = query.where(messages.c.made_at >= period.start, messages.c.made_at < period.end)
    newest = query.where(may_be_found).order_by(messages.c.id.desc()).limit(limit)
    return [HistoryText(*row) for row in await tx.execute(newest)]
