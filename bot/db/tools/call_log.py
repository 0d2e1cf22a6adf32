"""Tool calls as they were made, for admins to look through: who, where, with what, and what came of it.

Reads only; the rows are written by calls.py as the calls happen. Functions work inside the caller's
transaction `tx`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import approvals, tool_calls, turns

_c = tool_calls.c
_t = turns.c
_a = approvals.c
_COLUMNS: tuple[Column[Any], ...] = (
    *(_c.id, _c.turn, _t.lane, _t.person, _c.name, _c.arguments, _c.size),
    *(_c.began_at, _c.ended_at, _c.outcome, _c.state, _a.answer, _a.answered_by, _a.asked_at, _a.answered_at),
)


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """One tool call; `arguments` are JSON as they came. `size` is in characters of the whole result.

    `outcome` None: it has not ended, `state` says how it stands. `answer` is a person's, None: nobody was
    asked, or has answered yet (`asked_at`).
    """

    id: int
    turn: int
    lane: str
    person: int
    name: str
    arguments: str
    size: int | None
    began_at: float | None
    ended_at: float | None
    outcome: str | None
    state: str
    answer: str | None
    answered_by: int | None
    asked_at: float | None
    answered_at: float | None


async def list_newest(tx: AsyncConnection, *, name: str | None = None, limit: int) -> list[ToolCallRecord]:
    """The newest calls, or those of one tool, the newest first."""
    joined = tool_calls.join(turns, _t.id == _c.turn).outerjoin(approvals, _a.id == _c.approval)
    query = select(*_COLUMNS).select_from(joined).order_by(_c.id.desc()).limit(limit)
    if name is not None:
        query = query.where(_c.name == name)
    rows: Iterable[Any] = await tx.execute(query)
    return [ToolCallRecord(*row) for row in rows]
