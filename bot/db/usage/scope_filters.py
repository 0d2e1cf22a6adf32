"""The rows of the ledger that belong to a scope, as conditions of a query.

A turn belongs to a time span by when it was received, with all its calls; a call without a turn by when it
was made.
"""

from sqlalchemy import ColumnElement, exists, false, or_

from bot.db.tables import model_calls, turns
from bot.db.usage.usage_sums import Scope


def build_turn_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for turns: by their receipt, chat and person."""
    conditions = build_time_filter(turns.c.received_at, scope)
    if scope.chat is not None:
        is_topic = turns.c.lane.startswith(f"{scope.chat}:", autoescape=True)
        conditions.append(or_(turns.c.lane == scope.chat, is_topic))
    if scope.user is not None:
        conditions.append(turns.c.person == scope.user)
    return conditions


def build_turn_and_model_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for turns as above; if the scope names a model, only turns that called it."""
    if scope.model is None:
        return build_turn_filter(scope)
    called_model = exists().where(model_calls.c.turn == turns.c.id, model_calls.c.model == scope.model)
    # The query around it may read calls, too.
    return [*build_turn_filter(scope), called_model.correlate(turns)]


def build_turnless_call_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for calls without a turn: by the time they were made and their model."""
    conditions = build_time_filter(model_calls.c.created_at, scope)
    if scope.is_turns_only:
        conditions.append(false())
    if scope.model is not None:
        conditions.append(model_calls.c.model == scope.model)
    return conditions


def build_time_filter(column: ColumnElement[float], scope: Scope) -> list[ColumnElement[bool]]:
    """Conditions for rows whose time lies in the scope's time span."""
    conditions = list[ColumnElement[bool]]()
    if scope.since is not None:
        conditions.append(column >= scope.since)
    if scope.until is not None:
        conditions.append(column < scope.until)
    return conditions
