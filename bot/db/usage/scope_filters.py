"""The rows of the ledger that belong to a scope, as conditions of a query.

A turn belongs to a time span by when it was received, with all its calls; a call without a turn by when it
was made.
"""

from sqlalchemy import ColumnElement, Text, cast, exists, false, func, or_, select

from bot.db.tables import groups, model_calls, tool_calls, turns
from bot.db.usage.usage_sums import Scope

OUTSIDE_TOPICS = ":0"
"""Follows the number of a chat of which only what was written outside its topics is meant."""


def build_turn_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for turns by what is theirs: receipt, chat, person, endpoint, thinking and tools."""
    conditions = build_time_filter(turns.c.received_at, scope)
    if scope.chat is not None:
        conditions.append(_build_chat_filter(scope.chat))
    if scope.user is not None:
        conditions.append(turns.c.person == scope.user)
    if scope.endpoint is not None:
        conditions.append(turns.c.endpoint == scope.endpoint)
    if scope.thinking is not None:
        conditions.append(turns.c.thinking == scope.thinking)
    if scope.tool is not None:
        callers = select(tool_calls.c.turn).where(tool_calls.c.name == scope.tool)
        conditions.append(turns.c.id.in_(callers))
    return conditions


def _build_chat_filter(chat: str) -> ColumnElement[bool]:
    number, colon, topic = chat.removesuffix(OUTSIDE_TOPICS).partition(":")
    own_number = select(cast(groups.c.chat, Text)).where(cast(groups.c.other_chat, Text) == number)
    lane = func.coalesce(own_number.scalar_subquery(), number).concat(colon + topic)
    if chat.endswith(OUTSIDE_TOPICS):
        return turns.c.lane == lane
    return or_(turns.c.lane == lane, turns.c.lane.startswith(lane.concat(":")))


def build_calling_turn_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for turns as above; if the scope restricts calls, only turns that made such a call."""
    call_conditions = build_call_filter(scope)
    if not call_conditions:
        return build_turn_filter(scope)
    made_call = exists(model_calls.c.turn).where(model_calls.c.turn == turns.c.id, *call_conditions)
    # The query around it may read calls, too.
    return [*build_turn_filter(scope), made_call.correlate(turns)]


def build_call_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for calls by what is theirs: model and purpose."""
    conditions = list[ColumnElement[bool]]()
    if scope.model is not None:
        conditions.append(model_calls.c.model == scope.model)
    if scope.purpose is not None:
        conditions.append(model_calls.c.purpose == scope.purpose)
    return conditions


def build_turnless_call_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for calls without a turn: by the time they were made, their model and purpose."""
    conditions = [*build_time_filter(model_calls.c.created_at, scope), *build_call_filter(scope)]
    if scope.is_turns_only:
        conditions.append(false())
    return conditions


def build_time_filter(column: ColumnElement[float], scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for rows whose time lies in the scope's time span."""
    conditions = list[ColumnElement[bool]]()
    if scope.since is not None:
        conditions.append(column >= scope.since)
    if scope.until is not None:
        conditions.append(column < scope.until)
    return conditions
