"""What model calls took, read back from their rows: of one turn, call by call, of a person, and of all,
ranked.

Reads only; the rows are written by calls.py as the calls happen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import accounts, model_calls, people, turns
from bot.db.usage.turn_steps import load_breakdown
from bot.domain import CANVAS_TOKENS, CallOutcome, CallPurpose, EndpointRole, Lane

_CANVASES = (model_calls.c.completion_tokens + (CANVAS_TOKENS - 1)) // CANVAS_TOKENS
_CALL_BEGAN_AT = case(
    (model_calls.c.purpose == "decision", model_calls.c.created_at), else_=model_calls.c.seat_at
)
_CANVAS_COST = case(
    (model_calls.c.purpose != "decision", _CANVASES)
)  # a reading is one step, and costs no canvas

_IS_PARTLY_UNKNOWN = or_(
    model_calls.c.prompt_tokens.is_(None),
    model_calls.c.completion_tokens.is_(None),
    model_calls.c.usage_partial.is_(True),
)
_CALL_SUM_COLUMNS = (
    func.count(model_calls.c.id).label("calls"),
    func.sum(model_calls.c.prompt_tokens).label("inputs"),
    func.sum(model_calls.c.completion_tokens).label("outputs"),
    func.sum(_CANVAS_COST).label("canvases"),
    func.sum(case((_IS_PARTLY_UNKNOWN, 1), else_=0)).label("gaps"),
)
_TURN_SECONDS = func.coalesce(accounts.c.whole, turns.c.ended_at - turns.c.received_at)
_TURN_SUM_COLUMNS = (func.count(turns.c.id), func.coalesce(func.sum(_TURN_SECONDS), 0.0))
_TURNS_WITH_ACCOUNTS = turns.outerjoin(accounts, accounts.c.turn == turns.c.id)


@dataclass(frozen=True, slots=True)
class SpendingSums:
    """Sums over model calls. Tokens are None when no call told; `whole` False: some did not, it was at least
    so much.

    `canvases` is an estimate, ceil(output / 256) a call. `seconds` go from messages received to answers
    delivered, and to turns ended where there is no account.
    """

    turns: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    canvases: int | None
    seconds: float
    is_complete: bool


@dataclass(frozen=True, slots=True)
class CallSpending:
    """One model call of a turn; `again` says why its step was asked once more, `outcome` None: it still runs.

    `seconds` go from its seat to its end (a decision has none, and goes from its making), `waited` is the
    wait for the seat; None where a time is not known.
    """

    purpose: CallPurpose
    again: str | None
    model: str
    thinking: bool
    prompt_tokens: int | None
    cached_tokens: int | None
    canvases: int | None
    seconds: float | None
    waited: float | None
    outcome: CallOutcome | None


@dataclass(frozen=True, slots=True)
class TurnSpending:
    """An ended turn in its details: what was decided about it, and its calls in order.

    `endpoint_why` says why it was answered where it was; None: there was one endpoint. `account` is its
    seconds by kind in the order of a turn, `whole` first; empty until the answer stands in the chat.
    """

    id: int
    thinking: bool
    thinking_why: str
    endpoint: EndpointRole
    endpoint_why: str | None
    seconds: float
    calls: tuple[CallSpending, ...]
    account: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RankedSpender:
    """A person or a chat, by `name`, and what it took."""

    name: str
    spending: SpendingSums


@dataclass(frozen=True, slots=True)
class SpendingOverview:
    """What everybody took together, and the people and the chats that took the most canvases, most first."""

    total: SpendingSums
    people: tuple[RankedSpender, ...]
    chats: tuple[RankedSpender, ...]


async def find_newest_turn(tx: AsyncConnection, lane: Lane) -> int | None:
    """The lane's newest ended turn."""
    ended = select(turns.c.id).where(turns.c.lane == lane.key, turns.c.ended_at.is_not(None))
    return (
        await tx.execute(ended.order_by(turns.c.ended_at.desc(), turns.c.id.desc()).limit(1))
    ).scalar_one_or_none()


async def sum_turn(tx: AsyncConnection, turn: int) -> SpendingSums:
    """What a turn took in all."""
    return await _load_sums(tx, turns.c.id == turn)


async def sum_person(tx: AsyncConnection, person: int, begin: float) -> SpendingSums:
    """What all turns of a person took that began at `begin` (epoch seconds) or later."""
    return await _load_sums(tx, and_(turns.c.person == person, turns.c.began_at >= begin))


async def load_details(tx: AsyncConnection, lane: Lane, turn: int) -> TurnSpending | None:
    """An ended turn call by call; None if the lane has no such turn."""
    mine = select(turns).where(turns.c.id == turn, turns.c.lane == lane.key, turns.c.ended_at.is_not(None))
    found = (await tx.execute(mine)).one_or_none()
    if found is None:
        return None
    columns = (
        model_calls.c.purpose,
        model_calls.c.again,
        model_calls.c.model,
        model_calls.c.thinking,
        model_calls.c.prompt_tokens,
        model_calls.c.cached_tokens,
        _CANVAS_COST.label("canvases"),
        (model_calls.c.ended_at - _CALL_BEGAN_AT).label("seconds"),
        (model_calls.c.seat_at - model_calls.c.created_at).label("waited"),
        model_calls.c.outcome,
    )
    rows = await tx.execute(select(*columns).where(model_calls.c.turn == turn).order_by(model_calls.c.id))
    calls = tuple(CallSpending(**row._asdict()) for row in rows)
    kept = await load_breakdown(tx, turn)
    return TurnSpending(
        turn,
        found.thinking,
        found.thinking_why,
        found.endpoint,
        found.endpoint_why,
        kept.get("whole", found.ended_at - found.received_at),
        calls,
        kept,
    )


async def load_overview(tx: AsyncConnection, begin: float, limit: int) -> SpendingOverview:
    """What all turns took that were received at `begin` (epoch seconds) or later, and who took most."""
    shares = await _load_shares(tx, begin)
    persons, lanes = (_rank_spenders(_sum_by_key(shares, place), limit) for place in (0, 1))
    names = await _load_names(tx, [int(one.name) for one in persons])
    named = tuple(RankedSpender(names.get(int(one.name), one.name), one.spending) for one in persons)
    return SpendingOverview(_add_up(list(shares.values())), named, lanes)


def _sum_by_key(shares: Mapping[tuple[int, str], SpendingSums], key_index: int) -> dict[str, SpendingSums]:
    """What those of one person, or of one lane, took."""
    found: dict[str, list[SpendingSums]] = {}
    for key, spent in shares.items():
        found.setdefault(str(key[key_index]), []).append(spent)
    return {name: _add_up(some) for name, some in found.items()}


def _rank_spenders(sums_by_name: Mapping[str, SpendingSums], limit: int) -> tuple[RankedSpender, ...]:
    ordered = sorted(
        sums_by_name.items(), key=lambda one: (one[1].canvases is None, -(one[1].canvases or 0), one[0])
    )
    return tuple(RankedSpender(name, one) for name, one in ordered[:limit])


def _add_up(sums: Sequence[SpendingSums]) -> SpendingSums:
    return SpendingSums(
        sum(one.turns for one in sums),
        sum(one.calls for one in sums),
        _sum_known(one.input_tokens for one in sums),
        _sum_known(one.output_tokens for one in sums),
        _sum_known(one.canvases for one in sums),
        sum(one.seconds for one in sums),
        is_complete=all(one.is_complete for one in sums),
    )


def _sum_known(counts: Iterable[int | None]) -> int | None:
    told = [one for one in counts if one is not None]
    if told:
        return sum(told)
    return None


async def _load_names(tx: AsyncConnection, ids: Sequence[int]) -> dict[int, str]:
    rows = await tx.execute(select(people.c.id, people.c.name).where(people.c.id.in_(ids)))
    return {row.id: row.name for row in rows}


async def _load_sums(tx: AsyncConnection, condition: ColumnElement[bool]) -> SpendingSums:
    counted = (
        select(*_CALL_SUM_COLUMNS)
        .select_from(turns.join(model_calls, model_calls.c.turn == turns.c.id))
        .where(condition)
    )
    calls, inputs, outputs, canvases, gaps = (await tx.execute(counted)).one()
    count, seconds = (
        await tx.execute(select(*_TURN_SUM_COLUMNS).select_from(_TURNS_WITH_ACCOUNTS).where(condition))
    ).one()
    return SpendingSums(count, calls, inputs, outputs, canvases, seconds, is_complete=not gaps)


async def _load_shares(tx: AsyncConnection, begin: float) -> dict[tuple[int, str], SpendingSums]:
    """What each person took in each lane; turn by turn first, in the order of their rows, which needs no
    sorting.
    """
    oldest = select(func.min(turns.c.id)).where(turns.c.received_at >= begin).scalar_subquery()
    keys = (turns.c.person, turns.c.lane)
    since = (turns.c.id >= oldest, turns.c.received_at >= begin)
    a_turn = select(model_calls.c.turn, *_CALL_SUM_COLUMNS).where(model_calls.c.turn >= oldest)
    one = a_turn.group_by(model_calls.c.turn).subquery()
    sums = [func.sum(column) for column in list(one.c)[1:]]
    counted = (
        select(*keys, *sums)
        .select_from(one.join(turns, turns.c.id == one.c.turn))
        .where(*since)
        .group_by(*keys)
    )
    calls = {(row[0], row[1]): tuple(row[2:]) for row in await tx.execute(counted)}
    shares = {}
    took = select(*keys, *_TURN_SUM_COLUMNS).select_from(_TURNS_WITH_ACCOUNTS).where(*since).group_by(*keys)
    for person, lane, count, seconds in await tx.execute(took):
        called, inputs, outputs, canvases, gaps = calls.get((person, lane), (0, None, None, None, 0))
        shares[person, lane] = SpendingSums(
            count, called, inputs, outputs, canvases, seconds, is_complete=not gaps
        )
    return shares
