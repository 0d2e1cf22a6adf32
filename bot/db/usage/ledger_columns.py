"""Expressions over rows of the ledger that several sums share: what counts as what, and how it is added."""

from typing import Any, Final

from sqlalchemy import ColumnElement, Text, and_, case, cast, func, literal_column

from bot.canvases import CANVAS_TOKENS, TYPED_READ_PURPOSES
from bot.db.tables import model_calls, turns

_call = model_calls.c

ANSWERED_ENDINGS: Final = ("answered", "cut")
UNANSWERED_ENDINGS: Final = ("stopped", "edited", "limit")  # as a person or a limit wants it
IS_FAILED_TURN: Final = turns.c.ending.not_in((*ANSWERED_ENDINGS, *UNANSWERED_ENDINGS))

CANVASES: Final = (_call.completion_tokens + (CANVAS_TOKENS - 1)) // CANVAS_TOKENS
"""Of the output alone: what a typed read writes costs none."""
IS_TYPED_READ: Final = _call.purpose.in_(TYPED_READ_PURPOSES)
CANVAS_COST: Final = case((~IS_TYPED_READ, CANVASES))
"""The canvases of a call; NULL where they are unknown, or it costs none."""

IS_COUNTED: Final = and_(
    _call.prompt_tokens.is_not(None), _call.completion_tokens.is_not(None), ~_call.usage_partial
)
"""The server told the input and the whole output of a call."""


def sum_known(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The sum of what is known, 0 if nothing is."""
    return func.coalesce(func.sum(column), 0)


def sum_when(condition: ColumnElement[bool], column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The same over rows of which `condition` is true."""
    return sum_known(case((condition, column)))


def sum_seconds(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The sum of the seconds that are known, 0.0 if none are."""
    return func.coalesce(func.sum(column), 0.0)


def count_when(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    """How many rows there are of which `condition` is true."""
    return func.count(case((condition, 1)))


def join_person_and_model(person: ColumnElement[int], model: ColumnElement[str]) -> ColumnElement[str]:
    """The key of the calls of a person to a model; NULL without a person."""
    return cast(person, Text) + literal_column("' '") + model
