"""Conditions of queries: model calls by what of their usage is unknown, tool calls by how they ended."""

from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, case, or_, text

from bot.db.tables import ODD_CALL_SQL, model_calls, tool_calls

UnknownCount = Literal["any", "input", "cached", "output", "reasoning", "partial"]
"""Which count of a call is unknown; `partial`: only a running count from before its end is known."""
ANY_FAILURE = "failure"
"""The name of all endings that the report counts as failures, of turns and of tool calls."""
NOT_ENDED = "open"
"""The name of tool calls that have not ended."""
UNKNOWN_REFUSAL = "unknown"
"""The name of the reason of refused tool calls that are older than stored reasons."""
_call = model_calls.c
_tool_call = tool_calls.c

IS_PARTLY_COUNTED = and_(_call.usage_partial, _call.completion_tokens.is_not(None))
UNKNOWN_REASON: ColumnElement[str] = case(
    (_call.usage_missing.is_not(None), _call.usage_missing),
    (_call.outcome.is_(None), "the call has not ended"),
    else_="the server did not tell",
)
_UNKNOWN_COUNTS: dict[UnknownCount, ColumnElement[bool]] = {
    "input": _call.prompt_tokens.is_(None),
    "cached": _call.cached_tokens.is_(None),
    "output": _call.completion_tokens.is_(None),
    "reasoning": _call.reasoning_tokens.is_(None),
    "partial": IS_PARTLY_COUNTED,
}


def build_unknown_filter(count: UnknownCount, reason: str | None = None) -> list[Any]:
    """Conditions for calls of which this count is unknown; if a reason is given, for that reason."""
    is_unknown = or_(*_UNKNOWN_COUNTS.values()) if count == "any" else _UNKNOWN_COUNTS[count]
    conditions: list[Any] = [text(ODD_CALL_SQL), is_unknown]  # the first has an index
    if reason is not None:
        conditions.append(UNKNOWN_REASON.in_([reason]))
    return conditions


def build_tool_outcome_filter(name: str) -> list[ColumnElement[bool]]:
    """Conditions for tool calls that ended so.

    `name` is ANY_FAILURE, NOT_ENDED, an outcome, or `refused:` with a reason or UNKNOWN_REFUSAL.
    """
    outcome, _, refusal = name.partition(":")
    if outcome == ANY_FAILURE:
        return [_tool_call.outcome != "ok"]
    if outcome == NOT_ENDED:
        return [_tool_call.outcome.is_(None)]
    conditions = [_tool_call.outcome == outcome]
    if refusal == UNKNOWN_REFUSAL:
        conditions.append(_tool_call.refusal.is_(None))
    elif refusal:
        conditions.append(_tool_call.refusal == refusal)
    return conditions
