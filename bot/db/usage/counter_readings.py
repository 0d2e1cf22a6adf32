"""Readings of an endpoint's own counters, with the sums of our calls over the same time.

What a gap between the two means is judged by bot.usage. Functions work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, RowMapping, and_, func, insert, or_, select

from bot.canvases import CANVASES, TOKENS, OutputUnit
from bot.db.tables import model_calls, readings
from bot.db.transaction import Transaction
from bot.db.usage.ledger_columns import IS_TYPED_READ, count_when, sum_known, sum_when
from bot.db.usage.scope_filters import build_time_filter
from bot.db.usage.usage_sums import Scope, ServerSums
from bot.domain import BRAKE_FINISH_REASON, MAX_TURN_SECONDS

# No call runs longer, so the index on `created_at` finds every call that may have ended since some time.
_MAX_IMAGE_TOKENS = 1_120  # the most that a Gemma 4 takes for one

CounterTotals = Mapping[str, Mapping[str, int | None]]
"""The counters of each server by its address; empty where one of them showed none."""

_NO_TOTALS = "{}"  # as stored
_JUDGED_CALLS = 50
_MIN_JUDGED_TOKENS = 64  # a shorter reply may be one block of either kind
_MAX_PIECE_TOKENS = 16  # that come at once where a model writes token by token, some guessed ahead


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """Sums over our calls to an endpoint that ended in some time, by the usage the server sent with each.

    `requests` counts those that the server ended itself, `aborted` those that were broken off, `uncounted`
    those without usage although the server ended them, `decisions` typed reads that were answered. `cached`
    is None if a call did not report it. `max_unknown` bounds the tokens of calls that ended without their
    counts or still ran at the end.
    """

    prompt: int
    cached: int | None
    generated: int
    requests: int
    aborted: int
    uncounted: int
    decisions: int
    max_unknown: int = 0


@dataclass(frozen=True, slots=True)
class CounterReading:
    """One reading: the counters at `read_at`, and what was counted since the reading before, at `since`.

    `since` None: there is nothing to compare with. `…_seen` are the counts of all servers, `…_own` ours; None
    where one of them lacks a counter. `gap` is in tokens; `running` counts calls of ours in progress.
    """

    endpoint: str
    read_at: float
    since: float | None
    totals: CounterTotals
    running: int
    why: str
    prompt_seen: int | None = None
    cached_seen: int | None = None
    generated_seen: int | None = None
    requests_seen: int | None = None
    steps_seen: int | None = None
    committed_seen: int | None = None
    prompt_own: int | None = None
    cached_own: int | None = None
    generated_own: int | None = None
    requests_own: int | None = None
    gap: int | None = None
    steps_per_canvas: float | None = None


async def count_unsettled(tx: Transaction, endpoint: str, *, since: float) -> int:
    """How many calls to this endpoint still run, or ended after `since` (epoch seconds)."""
    is_unsettled = or_(model_calls.c.outcome.is_(None), model_calls.c.ended_at > since)
    query = select(func.count()).where(_is_recent(endpoint, since), is_unsettled)
    return int((await tx.execute(query)).scalar_one())


async def sum_own_calls(
    tx: Transaction, endpoint: str, *, since: float, until: float, max_reply_tokens: int
) -> OwnCounts:
    """Sum our calls that ended after `since` and not after `until`; a reply has at most so many tokens."""
    by_server = and_(
        model_calls.c.finish_reason.is_not(None), model_calls.c.finish_reason != BRAKE_FINISH_REASON
    )
    is_counted = model_calls.c.completion_tokens.is_not(None)
    lacks_cached = and_(is_counted, model_calls.c.cached_tokens.is_(None))
    query = select(
        sum_when(~IS_TYPED_READ, model_calls.c.prompt_tokens).label("prompt"),
        sum_when(~IS_TYPED_READ, model_calls.c.cached_tokens).label("cached"),
        sum_when(~IS_TYPED_READ, model_calls.c.completion_tokens).label("generated"),
        count_when(and_(~IS_TYPED_READ, by_server)).label("requests"),
        count_when(and_(~IS_TYPED_READ, ~by_server)).label("aborted"),
        count_when(and_(~IS_TYPED_READ, by_server, ~is_counted)).label("uncounted"),
        count_when(and_(IS_TYPED_READ, model_calls.c.outcome == "ok")).label("decisions"),
        count_when(and_(~IS_TYPED_READ, lacks_cached)).label("without_cached"),
    ).where(_is_recent(endpoint, since), model_calls.c.ended_at > since, model_calls.c.ended_at <= until)
    sums = (await tx.execute(query)).one()
    still_ran = or_(model_calls.c.outcome.is_(None), model_calls.c.ended_at > until)
    unknown = select(sum_known(_MAX_PROMPT_TOKENS + max_reply_tokens)).where(
        _is_recent(endpoint, since),
        model_calls.c.created_at <= until,
        or_(model_calls.c.ended_at > since, still_ran),
        or_(still_ran, ~by_server, ~is_counted, model_calls.c.usage_partial, IS_TYPED_READ),
    )
    return OwnCounts(
        prompt=sums.prompt,
        cached=None if sums.without_cached else sums.cached,
        generated=sums.generated,
        requests=sums.requests,
        aborted=sums.aborted,
        uncounted=sums.uncounted,
        decisions=sums.decisions,
        max_unknown=int((await tx.execute(unknown)).scalar_one()),
    )


async def list_newest_of(tx: Transaction, endpoint: str, *, limit: int) -> list[CounterReading]:
    """The readings of this endpoint, the newest first."""
    query = select(readings).where(readings.c.endpoint == endpoint).order_by(readings.c.read_at.desc())
    return [_to_reading(row) for row in (await tx.execute(query.limit(limit))).mappings()]


async def find_newest_whole(tx: Transaction, endpoint: str) -> CounterReading | None:
    """The newest reading of this endpoint at which every server showed its counters."""
    query = select(readings).where(readings.c.endpoint == endpoint, readings.c.totals != _NO_TOTALS)
    row = (await tx.execute(query.order_by(readings.c.read_at.desc()).limit(1))).mappings().first()
    return _to_reading(row) if row is not None else None


async def find_output_unit(tx: Transaction) -> OutputUnit:
    """Whether the first endpoint writes canvases, by its counters, or else by its newest calls.

    A vLLM without a diffusion model has no counters of diffusion. Until anything is known it does.
    """
    query = select(readings.c.totals).where(readings.c.totals != _NO_TOTALS)
    totals = (await tx.execute(query.order_by(readings.c.id.desc()).limit(1))).scalar_one_or_none()
    if totals is not None:
        counters = json.loads(totals).values()
        has_canvases = any(
            counts.get("generated_tokens") is None or counts.get("committed") is not None
            for counts in counters
        )
        return CANVASES if has_canvases else TOKENS
    newest = select(model_calls.c.blocks, model_calls.c.completion_tokens).where(
        model_calls.c.outcome == "ok"
    )
    rows = await tx.execute(newest.order_by(model_calls.c.id.desc()).limit(_JUDGED_CALLS))
    long_calls = [row for row in rows if (row.completion_tokens or 0) >= _MIN_JUDGED_TOKENS]
    is_in_blocks = any(row.completion_tokens > _MAX_PIECE_TOKENS * row.blocks for row in long_calls)
    return CANVASES if is_in_blocks or not long_calls else TOKENS


async def list_newest(
    tx: Transaction, scope: Scope, limit: int, *, except_why: str | None = None
) -> list[CounterReading]:
    """The readings of a time span, the newest first; chat, user and model of the scope are ignored.

    With `except_why`, those that have a gap, and not for this reason.
    """
    query = select(readings).where(*build_time_filter(readings.c.read_at, scope))
    if except_why is not None:
        query = query.where(readings.c.gap != 0, readings.c.why != except_why)
    newest = query.order_by(readings.c.read_at.desc(), readings.c.id.desc()).limit(limit)
    return [_to_reading(row) for row in (await tx.execute(newest)).mappings()]


async def store(tx: Transaction, reading: CounterReading) -> None:
    """Store a reading."""
    await tx.execute(insert(readings), asdict(reading) | {"totals": json.dumps(reading.totals)})


async def sum_gaps(tx: Transaction, endpoint: str) -> int:
    """The sum of all gaps in tokens; what a running call shifts from one reading to the next cancels out."""
    query = select(sum_known(readings.c.gap)).where(readings.c.endpoint == endpoint)
    return int((await tx.execute(query)).scalar_one())


async def sum_server_counters(tx: Transaction, scope: Scope) -> ServerSums:
    """Sums of the endpoints' counters over the time span; chat, user and model of the scope are ignored."""
    columns = (
        func.count(),
        func.sum(readings.c.steps_seen),
        func.sum(readings.c.committed_seen),
        func.sum(readings.c.gap),
    )
    is_compared = readings.c.since.is_not(None)
    query = select(*columns).where(is_compared, *build_time_filter(readings.c.read_at, scope))
    row = (await tx.execute(query)).one()
    return ServerSums(row[0], row[1], row[2], row[3])


def _to_reading(row: RowMapping) -> CounterReading:
    fields = {name: value for name, value in row.items() if name != "id"}
    totals = json.loads(row["totals"])
    if not all(isinstance(counters, dict) for counters in totals.values()):  # as one server's were stored
        totals = {row["endpoint"]: totals}
    return CounterReading(**fields | {"totals": totals})


def _is_recent(endpoint: str, since: float) -> ColumnElement[bool]:
    return and_(model_calls.c.endpoint == endpoint, model_calls.c.created_at > since - MAX_TURN_SECONDS)


# A token is a character at least, but for scripts that hardly occur.
_MAX_PROMPT_TOKENS = (
    func.coalesce(model_calls.c.chars_system, 0)
    + func.coalesce(model_calls.c.chars_tools, 0)
    + func.coalesce(model_calls.c.chars_notes, 0)
    + func.coalesce(model_calls.c.chars_history, 0)
    + model_calls.c.images * _MAX_IMAGE_TOKENS
)
