"""Turns one by one, the newest first, a page at a time. Only reads.

A page looks at no more than MAX_EXAMINED turns, however few of them match: it is bounded on any ledger, and
the next one goes on behind the last turn that was looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    exists,
    false,
    func,
    or_,
    select,
    true,
    union_all,
)

from bot.db.tables import accounts, model_calls, tool_calls, turns, verdicts
from bot.db.transaction import Transaction
from bot.db.usage.call_filters import (
    ANY_FAILURE,
    UnknownCount,
    build_tool_outcome_filter,
    build_unknown_filter,
)
from bot.db.usage.ledger_columns import IS_FAILED_TURN
from bot.db.usage.rankings import RankedTurn, load_ranked_turns
from bot.db.usage.scope_filters import build_call_filter, build_turn_filter, build_turnless_call_filter
from bot.db.usage.turn_steps import load_breakdowns
from bot.db.usage.usage_sums import Scope

MAX_EXAMINED = 30_000
Place = tuple[float, int]
"""Where a turn stands in the list: its receipt (epoch seconds) and its id."""
_turn = turns.c
_tool_call = tool_calls.c
_call = model_calls.c


@dataclass(frozen=True, slots=True)
class TurnSelection:
    """Which turns are listed; a field that is None does not restrict them.

    `unknown` and `unknown_reason`: turns with a model call whose usage is unknown so. `tool_outcome`: turns
    with a call of the scope's tool, or of any, that ended so, in the words of `build_tool_outcome_filter`.

    Of a model and a purpose of the scope, turns have a call with both. `ending` is ANY_FAILURE, an ending, or
    the state of turns that have none, such as `running`. `longer_than`: in seconds of the whole turn, which
    only turns with an account have.
    """

    scope: Scope
    ending: str | None = None
    longer_than: float | None = None
    more_steps_than: int | None = None
    unknown: UnknownCount | None = None
    unknown_reason: str | None = None
    tool_outcome: str | None = None

    @property
    def has_turnless_calls(self) -> bool:
        """Whether calls of unknown usage that belong to no turn are meant, too."""
        of_turns = (self.ending, self.longer_than, self.more_steps_than, self.tool_outcome)
        return self.unknown is not None and not self.scope.is_turns_only and of_turns == (None,) * 4


@dataclass(frozen=True, slots=True)
class ListedTurn:
    """A turn with its sums. `steps` is 0 without a call; `verdict` None: nobody judged it.

    `unknown_calls` and `tool_calls` count those that the selection is about; 0 if it is about none.
    `seconds` are those of its account, by the column; empty without one.
    """

    sums: RankedTurn
    state: str
    thinking_why: str
    steps: int
    verdict: str | None
    unknown_calls: int
    tool_calls: int
    seconds: Mapping[str, float]


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
    return TurnListPage(await _load_turns(tx, selection, ids), last)


async def count_turnless_calls(tx: Transaction, selection: TurnSelection) -> int:
    """Calls of the selection's unknown usage that belong to no turn, so that no list of turns has them."""
    if not selection.has_turnless_calls:
        return 0
    conditions = (_call.turn.is_(None), *build_turnless_call_filter(selection.scope))
    query = (
        select(func.count()).select_from(model_calls).where(*conditions, *_build_unknown_filter(selection))
    )
    return int((await tx.execute(query)).scalar_one())


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
    if of_call := [*build_call_filter(scope), *_build_unknown_filter(selection)]:
        filters.append(exists().where(_call.turn == turn, *of_call))
    if scope.endpoint is not None:
        filters.append(exists().where(_turn.id == turn, _turn.endpoint == scope.endpoint))
    if of_tool_call := _build_tool_call_filter(selection):
        filters.append(exists().where(_tool_call.turn == turn, *of_tool_call))
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


def _build_unknown_filter(selection: TurnSelection) -> list[ColumnElement[bool]]:
    if selection.unknown is None:
        return []
    return build_unknown_filter(selection.unknown, selection.unknown_reason)


def _build_tool_call_filter(selection: TurnSelection) -> list[ColumnElement[bool]]:
    """Conditions for tool calls; none if the selection is about no tool call."""
    conditions = list[ColumnElement[bool]]()
    if selection.scope.tool is not None:
        conditions.append(_tool_call.name == selection.scope.tool)
    if selection.tool_outcome is not None:
        conditions += build_tool_outcome_filter(selection.tool_outcome)
    return conditions


async def _load_turns(
    tx: Transaction, selection: TurnSelection, ids: Sequence[int]
) -> tuple[ListedTurn, ...]:
    steps = select(func.max(_call.step)).where(_call.turn == _turn.id).scalar_subquery()
    # One person who finds it bad is enough, as in the report; "bad" comes before "good".
    verdict = select(func.min(verdicts.c.value)).where(verdicts.c.turn == _turn.id).scalar_subquery()
    of_call = [*build_call_filter(selection.scope), *_build_unknown_filter(selection)]
    unknown_calls = _count_rows(_call.turn, of_call if selection.unknown is not None else [false()])
    matching_tool_calls = _count_rows(_tool_call.turn, _build_tool_call_filter(selection) or [false()])
    columns = (_turn.id, _turn.state, _turn.thinking_why, func.coalesce(steps, 0), verdict)
    query = select(*columns, unknown_calls, matching_tool_calls)
    selected = (await tx.execute(query.where(_turn.id.in_(ids)))).all()
    seconds = await load_breakdowns(tx, ids)
    rows = {row[0]: (*row[1:], seconds.get(row[0], {})) for row in selected}
    return tuple(ListedTurn(sums, *rows[sums.turn]) for sums in await load_ranked_turns(tx, ids))


def _count_rows(turn: ColumnElement[Any], conditions: Sequence[ColumnElement[bool]]) -> ScalarSelect[int]:
    """How many rows of the turn's own meet the conditions; `turn` is their column for it."""
    return select(func.count()).where(turn == _turn.id, *conditions).scalar_subquery()
