"""Sums of tool calls, and of the questions that people were asked about them, in total or by group.

Only reads. scope_filters says which rows belong to a scope.
"""

from typing import Any, Literal

from sqlalchemy import ColumnElement, func, literal, select

from bot.db.tables import approvals, tool_calls, turns
from bot.db.transaction import Transaction
from bot.db.usage.ledger_columns import sum_seconds
from bot.db.usage.report_sums import TURN_GROUPS, get_turn_group_column
from bot.db.usage.scope_filters import build_calling_turn_filter
from bot.db.usage.usage_sums import ApprovalSums, GroupBy, Scope, ToolSums

_turn = turns.c
_tool_call = tool_calls.c
_approval = approvals.c


async def sum_tool_calls(
    tx: Transaction, scope: Scope, group: GroupBy | Literal["tool"] | None
) -> list[ToolSums]:
    """Tool calls by group, outcome and refusal; by `model` and `purpose` there is one group (key None)."""
    key = _get_tool_group_column(scope, group, _tool_call.name)
    seconds = _tool_call.ended_at - _tool_call.began_at
    columns = (
        key,
        _tool_call.outcome,
        func.count(),
        func.count(seconds),
        sum_seconds(seconds),
        _tool_call.refusal,
    )
    query = select(*columns).group_by(
        *_list_group_columns(group, key, _tool_call.outcome), _tool_call.refusal
    )
    if scope.is_everything and group not in TURN_GROUPS:
        query = query.select_from(tool_calls)
    else:
        query = query.select_from(turns.join(tool_calls, _tool_call.turn == _turn.id)).where(
            *build_calling_turn_filter(scope), *_build_name_filter(scope, _tool_call.name)
        )
    return [ToolSums(*row) for row in await tx.execute(query)]


async def sum_approvals(
    tx: Transaction, scope: Scope, group: GroupBy | Literal["tool"] | None
) -> list[ApprovalSums]:
    """Tool calls that a person was asked about, by group and answer.

    By `model` and `purpose` there is one group (key None).
    """
    key = _get_tool_group_column(scope, group, _approval.tool)
    waited = sum_seconds(_approval.answered_at - _approval.asked_at)
    query = select(key, _approval.answer, func.count(), waited).select_from(
        approvals.join(turns, _approval.turn == _turn.id)
    )
    query = query.where(*build_calling_turn_filter(scope), *_build_name_filter(scope, _approval.tool))
    query = query.group_by(*_list_group_columns(group, key, _approval.answer))
    return [ApprovalSums(row[0], row[1], row[2], row[3]) for row in await tx.execute(query)]


def _get_tool_group_column(
    scope: Scope, group: GroupBy | Literal["tool"] | None, name_column: ColumnElement[str]
) -> ColumnElement[Any]:
    if group == "tool":
        return name_column
    return get_turn_group_column(scope, group, literal(None))


def _list_group_columns(
    group: GroupBy | Literal["tool"] | None, key: ColumnElement[Any], other_column: ColumnElement[Any]
) -> list[ColumnElement[Any]]:
    if group == "tool" or group in TURN_GROUPS:
        return [key, other_column]
    return [other_column]


async def list_tool_seconds(tx: Transaction, scope: Scope) -> list[tuple[str, float]]:
    """One row for each tool call that ended: (name, seconds)."""
    seconds = (_tool_call.ended_at - _tool_call.began_at).label("seconds")
    query = select(_tool_call.name, seconds).select_from(turns.join(tool_calls, _tool_call.turn == _turn.id))
    conditions = (*build_calling_turn_filter(scope), *_build_name_filter(scope, _tool_call.name))
    ended = query.where(*conditions, seconds.is_not(None))
    return list(await tx.execute(ended))


def _build_name_filter(scope: Scope, name_column: ColumnElement[str]) -> list[ColumnElement[bool]]:
    return [] if scope.tool is None else [name_column == scope.tool]
