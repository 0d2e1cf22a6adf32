"""What model calls took: of one turn, of a person, and of everybody, ranked.

Only reads; bot.db.conversations.calls writes the rows. Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select

from bot.db.tables import accounts, groups, model_calls, people, turns
from bot.db.transaction import Transaction
from bot.db.usage.ledger_columns import CANVAS_COST, IS_COUNTED, count_when, sum_seconds
from bot.db.usage.scope_filters import build_turn_filter
from bot.db.usage.usage_sums import Scope
from bot.domain import Lane

_CALL_SUM_COLUMNS = (
    func.count(model_calls.c.id).label("calls"),
    func.sum(model_calls.c.prompt_tokens).label("inputs"),
    func.sum(model_calls.c.completion_tokens).label("outputs"),
    func.sum(CANVAS_COST).label("canvases"),
    count_when(~IS_COUNTED).label("gaps"),
)
_TURN_SECONDS = func.coalesce(accounts.c.whole, turns.c.ended_at - turns.c.received_at)
_TURN_SUM_COLUMNS = (func.count(turns.c.id), sum_seconds(_TURN_SECONDS))
_TURNS_WITH_ACCOUNTS = turns.outerjoin(accounts, accounts.c.turn == turns.c.id)
_NO_CALLS = (0, None, None, None, 0)


@dataclass(frozen=True, slots=True)
class SpendingSums:
    """Sums over turns and their model calls.

    Tokens are None when no call reported them. `is_complete` False: some calls did not, the sums are lower
    bounds. `canvases` is an estimate: ceil(output tokens / 256) for each call. `seconds` go from messages
    received to answers delivered; where there is no account, to the end of the turn.
    """

    turns: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    canvases: int | None
    seconds: float
    is_complete: bool


@dataclass(frozen=True, slots=True)
class NewestTurn:
    """What the newest turn took in all, and whether a person stopped it."""

    id: int
    spending: SpendingSums
    was_stopped: bool = False


@dataclass(frozen=True, slots=True)
class RankedSpender:
    """A person or a chat by name, and what they took."""

    name: str
    spending: SpendingSums


@dataclass(frozen=True, slots=True)
class SpendingOverview:
    """What everybody took, and the people and chats that took the most canvases, the most first."""

    total: SpendingSums
    people: tuple[RankedSpender, ...]
    chats: tuple[RankedSpender, ...]


async def load_newest_turn(tx: Transaction, lane: Lane) -> NewestTurn | None:
    """The lane's newest ended turn, but for those that a used up allowance refused."""
    is_last = and_(
        turns.c.lane == lane.key, turns.c.ended_at.is_not(None), turns.c.ending.is_distinct_from("limit")
    )
    ended = select(turns.c.id, turns.c.ending).where(is_last)
    newest = ended.order_by(turns.c.ended_at.desc(), turns.c.id.desc()).limit(1)
    row = (await tx.execute(newest)).one_or_none()
    if row is None:
        return None
    sums = await _load_sums(tx, [turns.c.id == row.id])
    return NewestTurn(row.id, sums[()], row.ending == "stopped")


async def sum_turns(tx: Transaction, scope: Scope) -> SpendingSums:
    """What the turns of a person, a chat with all its topics, or everybody took."""
    return (await _load_sums(tx, build_turn_filter(scope)))[()]


async def load_overview(tx: Transaction, begin: float, limit: int) -> SpendingOverview:
    """What all turns took that were received at `begin` (epoch seconds) or later, and who took the most.

    `limit` is the number of people and of chats.
    """
    in_time = build_turn_filter(Scope(since=begin))
    shares = await _load_sums(tx, in_time, turns.c.person, turns.c.lane)
    persons = _rank_spenders(_sum_by_key(shares, 0), limit)
    lanes = _rank_spenders(_sum_by_key(shares, 1), limit)
    chats = [Lane.parse(spender.name).chat for spender in lanes]
    names = await _load_names(tx, [*(int(spender.name) for spender in persons), *chats])
    return SpendingOverview(
        total=_add_up(list(shares.values())),
        people=tuple(
            RankedSpender(names.get(int(spender.name), spender.name), spender.spending) for spender in persons
        ),
        chats=tuple(
            RankedSpender(_name_lane(spender.name, names.get(chat)), spender.spending)
            for spender, chat in zip(lanes, chats, strict=True)
        ),
    )


def _name_lane(key: str, name: str | None) -> str:
    return key if name is None else f"{name} ({key})"


def _sum_by_key(shares: Mapping[tuple[Any, ...], SpendingSums], key_index: int) -> dict[str, SpendingSums]:
    """Add up the shares of each person (`key_index` 0) or of each lane (1)."""
    sums_by_key: dict[str, list[SpendingSums]] = {}
    for key, sums in shares.items():
        sums_by_key.setdefault(str(key[key_index]), []).append(sums)
    return {key: _add_up(sums) for key, sums in sums_by_key.items()}


def _rank_spenders(sums_by_name: Mapping[str, SpendingSums], limit: int) -> tuple[RankedSpender, ...]:
    spenders = [RankedSpender(name, sums) for name, sums in sums_by_name.items()]
    return tuple(sorted(spenders, key=_get_rank)[:limit])


def _get_rank(spender: RankedSpender) -> tuple[bool, int, str]:
    """Sorts the most canvases first and unknown ones last, then by name."""
    canvases = spender.spending.canvases
    return canvases is None, -(canvases or 0), spender.name


def _add_up(all_sums: Sequence[SpendingSums]) -> SpendingSums:
    return SpendingSums(
        turns=sum(sums.turns for sums in all_sums),
        calls=sum(sums.calls for sums in all_sums),
        input_tokens=_sum_known(sums.input_tokens for sums in all_sums),
        output_tokens=_sum_known(sums.output_tokens for sums in all_sums),
        canvases=_sum_known(sums.canvases for sums in all_sums),
        seconds=sum(sums.seconds for sums in all_sums),
        is_complete=all(sums.is_complete for sums in all_sums),
    )


def _sum_known(counts: Iterable[int | None]) -> int | None:
    """The sum of the counts that are known; None if none is."""
    known_counts = [count for count in counts if count is not None]
    if known_counts:
        return sum(known_counts)
    return None


async def _load_names(tx: Transaction, ids: Sequence[int]) -> dict[int, str]:
    rows = await tx.execute(select(people.c.id, people.c.name).where(people.c.id.in_(ids)))
    titles = await tx.execute(select(groups.c.chat, groups.c.title).where(groups.c.chat.in_(ids)))
    return {row.id: row.name for row in rows} | {row.chat: row.title for row in titles}


async def _load_sums(
    tx: Transaction, conditions: Sequence[ColumnElement[bool]], *keys: ColumnElement[Any]
) -> dict[tuple[Any, ...], SpendingSums]:
    """The sums by these keys, such as (person, lane); without keys there is one, by ()."""
    turns_with_calls = turns.join(model_calls, model_calls.c.turn == turns.c.id)
    call_sums = select(*keys, *_CALL_SUM_COLUMNS).select_from(turns_with_calls)
    turn_sums = select(*keys, *_TURN_SUM_COLUMNS).select_from(_TURNS_WITH_ACCOUNTS)
    size = len(keys)
    call_rows = await tx.execute(call_sums.where(*conditions).group_by(*keys))
    calls_by_key = {tuple(row[:size]): row[size:] for row in call_rows}
    sums = {}
    for row in await tx.execute(turn_sums.where(*conditions).group_by(*keys)):
        turn_count, seconds = row[size:]
        calls, inputs, outputs, canvases, gaps = calls_by_key.get(tuple(row[:size]), _NO_CALLS)
        sums[tuple(row[:size])] = SpendingSums(
            turn_count, calls, inputs, outputs, canvases, seconds, is_complete=not gaps
        )
    return sums
