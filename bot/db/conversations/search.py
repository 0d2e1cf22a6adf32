"""The texts of a lane to search: messages, tool results and documents of all its conversations. Only reads.

Bounded in number (the newest) and in length. Functions work inside the caller's transaction `tx`.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, case, cast, func, select, type_coerce

from bot.db.tables import attachments, lanes, messages, tool_calls, turns
from bot.db.tables.base import Text
from bot.db.transaction import Transaction
from bot.domain import FilePage, Lane

MAX_TURNS = 10_000
MAX_RESULTS = 1000
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
    """A text of a chat. `source` names its origin, such as `the user` or `document lease.pdf`.

    `file`: the number of the kept file that it is a page of; None: it was said in a turn.
    """

    turn: int
    source: str
    made_at: float
    text: str
    file: int | None = None
    page: FilePage | None = None


@dataclass(frozen=True, slots=True)
class JoinedMessages:
    """The ids and texts of messages, each joined to one string; None: there is none.

    `has_results`: tools returned something in the same turns.
    """

    separator: str  # of the texts
    ids: str | None
    texts: str | None
    has_results: bool


async def load_messages(tx: Transaction, lane: Lane, period: SearchedPeriod | None = None) -> JoinedMessages:
    """What people and the assistant wrote in the newest turns that ended, in no order.

    It comes as one row, because thousands of rows take the interpreter from everybody else, and twice as
    long. To sort them by id takes the database longer than to read them.
    """
    separator = f"\x1e{secrets.token_hex(8)}\x1e"  # which nobody can have written
    text = func.substr(messages.c.text, 1, MAX_MESSAGE_CHARACTERS)
    is_said = messages.c.role != "tool"
    query = (
        select(
            func.aggregate_strings(cast(messages.c.id, String), ",").filter(is_said),
            type_coerce(func.aggregate_strings(text, separator).filter(is_said), Text),
            func.count().filter(~is_said) > 0,
        )
        .join(turns, messages.c.turn == turns.c.id)
        .where(messages.c.role.in_(("user", "assistant", "tool")), messages.c.text != "")
    )
    of_lane = select(turns.c.id).where(_may_be_found(lane, ("ended",)))
    if period is not None:
        of_lane = of_lane.where(turns.c.began_at < period.end)
    too_old = of_lane.order_by(turns.c.id.desc()).offset(MAX_TURNS).limit(1).scalar_subquery()
    query = query.where(_may_be_found(lane, ("ended",), period), turns.c.id > func.coalesce(too_old, 0))
    return JoinedMessages(separator, *(await tx.execute(query)).one())


def split_messages(joined: JoinedMessages) -> tuple[list[int], list[str]]:
    """The ids of messages and their texts, the newest first: takes time that an event loop does not have.

    No tuple is made for each, since that has Python look for garbage everywhere.
    """
    if not joined.ids or not joined.texts:
        return [], []
    ids = list(map(int, joined.ids.split(",")))
    texts = joined.texts.split(joined.separator)
    newest_first = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
    return [ids[index] for index in newest_first], [texts[index] for index in newest_first]


async def load_origins(tx: Transaction, ids: Collection[int]) -> dict[int, HistoryText]:
    """The turn, source and time of these messages, without their texts."""
    source = case((messages.c.role == "user", "the user"), else_="you")
    query = select(messages.c.id, messages.c.turn, source, messages.c.made_at)
    rows = await tx.execute(query.where(messages.c.id.in_(ids)))
    return {row[0]: HistoryText(*row[1:], text="") for row in rows}


async def load_results(
    tx: Transaction, lane: Lane, period: SearchedPeriod | None = None, *, excluded_tool: str
) -> list[HistoryText]:
    """What tools returned in ended turns, the newest first, without results of `excluded_tool`."""
    result_of = and_(tool_calls.c.turn == messages.c.turn, tool_calls.c.call_id == messages.c.call_id)
    query = (
        select(
            turns.c.id,
            "result of " + func.coalesce(tool_calls.c.name, "a tool"),
            messages.c.made_at,
            func.substr(messages.c.text, 1, MAX_MESSAGE_CHARACTERS, type_=Text),
        )
        .select_from(messages.join(turns, messages.c.turn == turns.c.id).outerjoin(tool_calls, result_of))
        .where(messages.c.role == "tool", messages.c.text != "")
        .where(tool_calls.c.name.is_distinct_from(excluded_tool))
    )
    return await _load_texts(tx, lane, query, ("ended",), MAX_RESULTS, period)


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
    if not lane.is_group:  # all are of its person, who has few in other chats
        query = query.where(attachments.c.person == lane.chat)
    return await _load_texts(tx, lane, query, ("ended", "running"), MAX_DOCUMENTS, period)


async def load_exchange(tx: Transaction, lane: Lane, turn: int) -> list[HistoryText]:
    """What was asked and answered in a turn of this lane; empty where nothing of it may be found."""
    query = (
        select(turns.c.id, messages.c.role, messages.c.made_at, messages.c.text)
        .select_from(messages.join(turns, messages.c.turn == turns.c.id))
        .where(turns.c.id == turn, messages.c.role.in_(("user", "assistant")), messages.c.text != "")
    )
    return (await _load_texts(tx, lane, query, ("ended",), MAX_RESULTS, None))[::-1]


async def _load_texts(
    tx: Transaction,
    lane: Lane,
    query: Select[Any],
    states: tuple[str, ...],
    limit: int,
    period: SearchedPeriod | None,
) -> list[HistoryText]:
    newest = query.where(_may_be_found(lane, states, period)).order_by(messages.c.id.desc()).limit(limit)
    return [HistoryText(*row) for row in await tx.execute(newest)]


def _may_be_found(
    lane: Lane, states: tuple[str, ...], period: SearchedPeriod | None = None
) -> ColumnElement[bool]:
    first = select(lanes.c.searchable_from).where(lanes.c.lane == lane.key).scalar_subquery()
    condition = and_(
        turns.c.lane == lane.key,
        turns.c.conversation >= func.coalesce(first, 1),
        turns.c.state.in_(states),
    )
    if period is None:
        return condition
    return and_(condition, messages.c.made_at >= period.start, messages.c.made_at < period.end)
