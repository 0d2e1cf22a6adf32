"""Turns one by one, the newest first, a page at a time. Only reads.

A page looks at no more than MAX_EXAMINED turns, however few of them match: it is bounded on any ledger, and
the next one goes on behind the last turn that was looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, or_, select, true, union_all

from bot.db.tables import accounts, model_calls, tool_calls, turns, verdicts
from bot.db.transaction import Transaction
from bot.db.usage.rankings import RankedTurn, load_ranked_turns
from bot.db.usage.report_sums import IS_FAILED_TURN
from bot.db.usage.scope_filters import build_call_filter, build_turn_filter
from bot.db.usage.usage_sums import Scope

MAX_EXAMINED = 30_000
ANY_FAILURE = "failure"
"""The name of all endings that the report counts as failures."""
Place = tuple[float, int]
"""Where a turn stands in the list: its receipt (epoch seconds) and its id."""
_turn = turns.c
_call = model_calls.c


@dataclass(frozen=True, slots=True)
class TurnSelection:
    """Which turns are listed; a field that is None does not restrict them.

    Of a model and a purpose of the scope, turns have a call with both. `ending` is ANY_FAILURE, an ending, or
    the state of turns that have none, such as `running`. `longer_than`: in seconds of the whole turn, which
    only turns with an account have.
    """

    scope: Scope
    ending: str | None = None
    longer_than: float | None = None
    more_steps_than: int | None = None


@dataclass(frozen=True, slots=True)
class ListedTurn:
    """A turn with its sums. `steps` is 0 without a call; `verdict` None: nobody judged it."""

    sums: RankedTurn
    state: str
    thinking_why: str
    steps: int
    verdict: str | None


@dataclass(frozen=True, slots=True)
class TurnListPage:
    """Turns of a page. `next` is the place behind which the next page begins; None: no more."""

    turns: tuple[ListedTurn, ...]
    next: Place | None


async def list_turns(
    tx: Transaction,
    selection: TurnSelection,
    *,
    before: Place | None,
    limit: int,
    max_examined: int = MAX_EXAMINED,
) -> TurnListPage:
    """The newest turns of the selection behind the place `before`."""
    places, last = await _find_places(tx, selection, before, limit + 1, max_examined)
    if len(places) > limit:
        last = places[limit - 1]
    ids = [turn for _, turn in places[:limit]]
    return TurnListPage(await _load_turns(tx, ids), last)


async def _find_places(
    tx: Transaction, selection: TurnSelection, before: Place | None, limit: int, max_examined: int
) -> tuple[list[Place], Place | None]:
    """The newest places that match, and the last one that was looked at, if the search ended there."""
    newest = _select_places(selection, before)
    if not _build_filters(selection, _turn.id):
        return await _list_places(tx, newest.limit(limit)), None
    examined = newest.limit(max_examined).cte("examined")  # read once, though it is used twice
    matching = select(examined, false().label("is_last")).where(*_build_filters(selection, examined.c.id))
    matching = matching.order_by(examined.c.received_at.desc(), examined.c.id.desc()).limit(limit)
    last = select(examined, true()).offset(max_examined - 1).limit(1)
    both = union_all(select(matching.subquery()), select(last.subquery()))
    rows = (await tx.execute(both)).all()
    places = [(row[0], row[1]) for row in rows if not row[2]]
    return places, next(((row[0], row[1]) for row in rows if row[2]), None)


async def _list_places(tx: Transaction, query: Select[Any]) -> list[Place]:
    return [(row[0], row[1]) for row in await tx.execute(query)]


def _select_places(selection: TurnSelection, before: Place | None) -> Select[Any]:
    """Turns by the conditions that the index of receipts has, the newest first."""
    indexed = replace(selection.scope, endpoint=None, tool=None)
    query = select(_turn.received_at, _turn.id).where(*build_turn_filter(indexed))
    if before is not None:
        at, turn = before
        is_same_moment = and_(_turn.received_at == at, _turn.id < turn)
        query = query.where(_turn.received_at <= at, or_(_turn.received_at < at, is_same_moment))
    return query.order_by(_turn.received_at.desc(), _turn.id.desc())


def _build_filters(selection: TurnSelection, turn: ColumnElement[int]) -> list[ColumnElement[bool]]:
    """The other conditions, each a search for the turn's own rows."""
    filters = list[ColumnElement[bool]]()
    scope = selection.scope
    if of_call := build_call_filter(scope):
        filters.append(exists().where(_call.turn == turn, *of_call))
    if scope.endpoint is not None:
        filters.append(exists().where(_turn.id == turn, _turn.endpoint == scope.endpoint))
    if scope.tool is not None:
        filters.append(exists().where(tool_calls.c.turn == turn, tool_calls.c.name == scope.tool))
    if selection.ending is not None:
        is_ending = func.coalesce(_turn.ending, _turn.state) == selection.ending
        if selection.ending == ANY_FAILURE:
            is_ending = IS_FAILED_TURN
        filters.append(exists().where(_turn.id == turn, is_ending))
    if selection.longer_than is not None:
        is_longer = accounts.c.whole > selection.longer_than
        filters.append(exists().where(accounts.c.turn == turn, is_longer))
    if selection.more_steps_than is not None:
        has_step = _call.step > selection.more_steps_than
        filters.append(exists().where(_call.turn == turn, has_step))
    return filters


async def _load_turns(tx: Transaction, ids: Sequence[int]) -> tuple[ListedTurn, ...]:
    steps = select(func.max(_call.step)).where(_call.turn == _turn.id).scalar_subquery()
    # One person who finds it bad is enough, as in the report; "bad" comes before "good".
    verdict = select(func.min(verdicts.c.value)).where(verdicts.c.turn == _turn.id).scalar_subquery()
    query = select(_turn.id, _turn.state, _turn.thinking_why, func.coalesce(steps, 0), verdict)
    rows = {row[0]: row[1:] for row in await tx.execute(query.where(_turn.id.in_(ids)))}
    return tuple(ListedTurn(sums, *rows[sums.turn]) for sums in await load_ranked_turns(tx, ids))
