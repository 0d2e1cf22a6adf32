"""Readings of an endpoint's own counters beside what our calls add up to in the same time: stored, and read
back.

Functions work inside the caller's transaction `tx`. What a gap means is the usage room's to judge.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, and_, case, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import model_calls, readings

MAX_CALL_SECONDS = (
    86_400.0  # seconds; no call runs longer, so that an index finds all that may have ended since some time
)

CounterTotals = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """What the calls to an endpoint that ended in some time add up to, by the counts the server sent with
    each.

    `requests` are those the server ended itself; `aborted` were torn off, `uncounted` came without usage,
    `decisions` are one-step reads. `cached` is None when a call did not tell.
    """

    prompt: int
    cached: int | None
    generated: int
    requests: int
    aborted: int
    uncounted: int
    decisions: int


@dataclass(frozen=True, slots=True)
class CounterReading:
    """One row: counters at `read_at`, and what was counted since the row before (`since` None: nothing to
    compare).

    Counts are None where the server lacks a counter. `gap` is in tokens, `running` counts calls of ours under
    way.
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


@dataclass(frozen=True, slots=True)
class CanvasSteps:
    """What the server itself counted while it was read: canvases, and denoising steps for each of them."""

    canvases: int
    steps_per_canvas: float | None


async def count_unsettled(tx: AsyncConnection, endpoint: str, *, since: float) -> int:
    """How many calls to this endpoint still run, or ended after `since`."""
    late = or_(model_calls.c.outcome.is_(None), model_calls.c.ended_at > since)
    query = select(func.count()).where(_is_recent(endpoint, since), late)
    return int((await tx.execute(query)).scalar_one())


async def sum_own_calls(tx: AsyncConnection, endpoint: str, *, since: float, until: float) -> OwnCounts:
    """What our calls took that ended after `since` and at `until` at the latest."""
    read = model_calls.c.purpose == "decision"
    by_server = and_(model_calls.c.finish_reason.is_not(None), model_calls.c.finish_reason != "brake")
    counted = model_calls.c.completion_tokens.is_not(None)
    untold = and_(counted, model_calls.c.cached_tokens.is_(None))
    query = select(
        _sum_where(~read, model_calls.c.prompt_tokens),
        _sum_where(~read, model_calls.c.cached_tokens),
        _sum_where(~read, model_calls.c.completion_tokens),
        _sum_where(and_(~read, by_server)),
        _sum_where(and_(~read, ~by_server)),
        _sum_where(and_(~read, ~counted)),
        _sum_where(read),
        _sum_where(and_(~read, untold)),
    ).where(_is_recent(endpoint, since), model_calls.c.ended_at > since, model_calls.c.ended_at <= until)
    prompt, cached, generated, requests, aborted, uncounted, decisions, silent = (
        await tx.execute(query)
    ).one()
    return OwnCounts(prompt, None if silent else cached, generated, requests, aborted, uncounted, decisions)


async def find_latest(tx: AsyncConnection, endpoint: str) -> CounterReading | None:
    """The newest reading of this endpoint."""
    newest = (
        select(readings).where(readings.c.endpoint == endpoint).order_by(readings.c.read_at.desc()).limit(1)
    )
    row = (await tx.execute(newest)).mappings().one_or_none()
    if row is None:
        return None
    kept = {name: value for name, value in row.items() if name != "id"}
    return CounterReading(**kept | {"totals": json.loads(row["totals"])})


async def store(tx: AsyncConnection, reading: CounterReading) -> None:
    """Store a reading."""
    await tx.execute(insert(readings), asdict(reading) | {"totals": json.dumps(dict(reading.totals))})


async def sum_gaps(tx: AsyncConnection, endpoint: str) -> int:
    """All gaps added up, in tokens: what a call under way shifts from one reading to the next cancels out."""
    query = select(func.coalesce(func.sum(readings.c.gap), 0)).where(readings.c.endpoint == endpoint)
    return int((await tx.execute(query)).scalar_one())


async def sum_steps(
    tx: AsyncConnection, *, since: float, until: float, canvas_tokens: int = 256
) -> CanvasSteps:
    """The server's own steps in the readings of that time, over all endpoints; those told apart from other
    reads.
    """
    clear = case((readings.c.steps_per_canvas.is_not(None), readings.c.committed_seen))
    weighted = func.sum(readings.c.steps_per_canvas * readings.c.committed_seen)
    query = select(func.coalesce(func.sum(clear), 0), weighted).where(
        readings.c.read_at.between(since, until)
    )
    committed, steps_of_all = (await tx.execute(query)).one()
    return CanvasSteps(committed // canvas_tokens, steps_of_all / committed if committed else None)


def _is_recent(endpoint: str, since: float) -> ColumnElement[bool]:
    return and_(model_calls.c.endpoint == endpoint, model_calls.c.created_at > since - MAX_CALL_SECONDS)


def _sum_where(
    condition: ColumnElement[bool], column: ColumnElement[int] | None = None
) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1 if column is None else column))), 0)
