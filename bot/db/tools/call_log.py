"""The log of tool calls for admins: who called what, where, with which arguments and outcome.

Only reads; bot.db.conversations.calls writes the rows. Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, select

from bot.db.tables import approvals, tool_calls, turns
from bot.db.transaction import Transaction

# In the order of the fields of ToolCallRecord.
_COLUMNS: tuple[Column[Any], ...] = (
    tool_calls.c.id,
    tool_calls.c.turn,
    turns.c.lane,
    turns.c.person,
    tool_calls.c.name,
    tool_calls.c.arguments,
    tool_calls.c.size,
    tool_calls.c.began_at,
    tool_calls.c.ended_at,
    tool_calls.c.outcome,
    tool_calls.c.refusal,
    tool_calls.c.state,
    approvals.c.answer,
    approvals.c.answered_by,
    approvals.c.asked_at,
    approvals.c.answered_at,
)
_CALLS_WITH_TURNS = tool_calls.join(turns, turns.c.id == tool_calls.c.turn)
_CALLS_WITH_APPROVALS = _CALLS_WITH_TURNS.outerjoin(approvals, approvals.c.id == tool_calls.c.approval)


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """One tool call.

    `arguments` are JSON as the model wrote them; `size` counts the characters of the full result. `outcome`
    None: it has not ended, see `state`. `refusal`: why a refused one was not run. `answer` is a person's;
    None: nobody was asked (`asked_at` is None as well), or nobody has answered yet.
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
    refusal: str | None
    state: str
    answer: str | None
    answered_by: int | None
    asked_at: float | None
    answered_at: float | None


async def list_newest(tx: Transaction, *, name: str | None = None, limit: int) -> list[ToolCallRecord]:
    """The newest calls, or those of one tool, the newest first."""
    query = select(*_COLUMNS).select_from(_CALLS_WITH_APPROVALS).order_by(tool_calls.c.id.desc()).limit(limit)
    if name is not None:
        query = query.where(tool_calls.c.name == name)
    rows: Iterable[Any] = await tx.execute(query)
    return [ToolCallRecord(*row) for row in rows]
