"""Which rows of the ledger a scope is about, as conditions of a query.

A turn belongs to a span of time by when it was received, with all its calls; a call without a turn by when it
was made.
"""

from sqlalchemy import ColumnElement, exists, false, or_

from bot.db.tables import model_calls, turns
from bot.db.usage.usage_sums import Scope

_m = model_calls.c
_t = turns.c


def build_turn_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Which turns: by their receipt, chat and person."""
    found: list[ColumnElement[bool]] = build_time_filter(_t.received_at, scope)
    if scope.chat is not None:
        found.append(or_(_t.lane == scope.chat, _t.lane.startswith(f"{scope.chat}:", autoescape=True)))
    if scope.user is not None:
        found.append(_t.person == scope.user)
    return found


def build_turn_and_model_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """The same, and where a model is meant only turns that asked it."""
    if scope.model is None:
        return build_turn_filter(scope)
    asked = exists().where(_m.turn == _t.id, _m.model == scope.model)
    return [*build_turn_filter(scope), asked]


def build_turnless_call_filter(scope: Scope) -> list[ColumnElement[bool]]:
    """Which calls without a turn."""
    found = build_time_filter(_m.created_at, scope)
    if scope.is_turns_only:
        found.append(false())
    if scope.model is not None:
        found.append(_m.model == scope.model)
    return found


def build_time_filter(column: ColumnElement[float], scope: Scope) -> list[ColumnElement[bool]]:
    """What lies in this span of time."""
    first = [] if scope.since is None else [column >= scope.since]
    return first + ([] if scope.until is None else [column < scope.until])
