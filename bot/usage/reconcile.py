"""Holds our own sums against the endpoint's counters from time to time, and tells the admins once when the
gap grows.

Owns the pace and the judgement of a gap; readings are stored by the db room, counters read by the agent room.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from bot.db.engine import Database
from bot.db.usage import counter_readings as reconcile
from bot.db.usage.counter_readings import CounterReading, OwnCounts
from bot.domain import CANVAS_TOKENS
from bot.errors import StoreUnavailable
from bot.llm import server_api as server
from bot.llm.server_api import ServerCounters

READ_INTERVAL_SECONDS = 600.0  # seconds between two readings
MAX_TRIES = 20  # how often a moment without a call of ours is looked for
RETRY_PAUSE_SECONDS = 3.0  # seconds between two such looks
TOLERATED_SHARE = 0.01  # the share of the server's tokens by which sums may differ and still agree
MIN_REPORTED_GAP_TOKENS = (
    10_000  # tokens of gap in all that admins are told of first; then at ten times as many, and so on
)
NOTICE_SUBJECT = "counters"

FIRST_READING = "the first reading: nothing to compare with"
SERVER_RESTARTED = "the server began anew: what it had counted before is lost"
SUMS_AGREE = "the sums agree"
UNEXPLAINED = "nothing we know of explains it"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CountersEndpoint:
    """Where counters are read: the endpoint's address as the ledger has it, and its key."""

    url: str
    key: str | None = None


class Reconciliation:
    """Reads, compares, stores; `tell` is given a subject and a text for the admins' feed."""

    def __init__(
        self, database: Database, endpoint: CountersEndpoint, notify: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._database = database
        self._endpoint = endpoint
        self._notify = notify

    async def run(self) -> None:
        """Take a reading now and then, until cancelled; a database that is busy is tried again next time."""
        while True:
            await asyncio.sleep(READ_INTERVAL_SECONDS)
            try:
                await self.take_reading()
            except StoreUnavailable as error:
                log.warning("no reading was stored: %s", error, extra={"action": "reconcile.failed"})

    async def take_reading(self) -> CounterReading | None:
        """One reading, at a moment when none of our calls runs if one is found; None where nothing can be
        read.
        """
        for _ in range(MAX_TRIES - 1):
            found = await self._read_counters()
            if found is None or not found[2]:
                break
            await asyncio.sleep(RETRY_PAUSE_SECONDS)
        else:
            found = await self._read_counters()
        if found is None:
            return None
        return await self._store_comparison(*found)

    async def _read_counters(self) -> tuple[ServerCounters, float, int] | None:
        """Counters, when they were read, and how many calls of ours ran meanwhile."""
        now = time.time()
        counters = await server.fetch_counters(self._endpoint.url, self._endpoint.key)
        if counters is None:
            return None
        async with self._database.read_transaction() as tx:
            return counters, now, await reconcile.count_unsettled(tx, self._endpoint.url, since=now)

    async def _store_comparison(
        self, counters: ServerCounters, now: float, running_calls: int
    ) -> CounterReading:
        url = self._endpoint.url
        async with self._database.transaction() as tx:
            before = await reconcile.find_latest(tx, url)
            since = now if before is None else before.read_at
            made = build_reading(
                url,
                before,
                counters,
                await reconcile.sum_own_calls(tx, url, since=since, until=now),
                now,
                running_calls,
            )
            known = await reconcile.sum_gaps(tx, url)
            await reconcile.store(tx, made)
        if (line := build_gap_notice(known, made)) is not None:
            await self._notify(NOTICE_SUBJECT, line)
        return made


def build_reading(
    url: str,
    previous: CounterReading | None,
    counters: ServerCounters,
    own: OwnCounts,
    read_at: float,
    running_calls: int,
) -> CounterReading:
    """The row for counters that stand so `at` this time, when `running` calls of ours were under way."""
    totals = asdict(counters)
    if previous is None:
        return CounterReading(url, read_at, None, totals, running_calls, FIRST_READING)
    seen = _increase_since(previous, counters)
    if seen is None:
        return CounterReading(url, read_at, None, totals, running_calls, SERVER_RESTARTED)
    gap = _gap_tokens(seen, own)
    return CounterReading(
        url,
        read_at,
        previous.read_at,
        totals,
        running_calls,
        explain_gap(gap, seen, own, running_calls + previous.running),
        prompt_seen=seen.prompt_tokens,
        cached_seen=seen.cached_tokens,
        generated_seen=seen.generated_tokens,
        requests_seen=seen.requests,
        steps_seen=seen.steps,
        committed_seen=seen.committed,
        prompt_own=own.prompt,
        cached_own=own.cached,
        generated_own=own.generated,
        requests_own=own.requests,
        gap=gap,
        steps_per_canvas=None if own.decisions else steps_per_canvas(seen),
    )


def steps_per_canvas(increase: ServerCounters) -> float | None:
    """Denoising steps a canvas took, its commit not counted; None where the server does not count them."""
    if not increase.steps or not increase.committed:
        return None
    return increase.steps / (increase.committed / CANVAS_TOKENS) - 1


def explain_gap(gap: int | None, increase: ServerCounters, own: OwnCounts, running_calls: int) -> str:
    """What a gap of so many tokens comes from, in words; `running` calls were under way at its ends."""
    if gap is None:
        return "the server does not count tokens"
    if abs(gap) <= TOLERATED_SHARE * ((increase.prompt_tokens or 0) + (increase.generated_tokens or 0)):
        return SUMS_AGREE
    others = (increase.requests or 0) - own.requests
    causes = [
        (
            running_calls > 0,
            f"{_format_plural(running_calls, 'call')} of ours ran while the counters were read",
        ),
        (
            gap > 0 and others > 0,
            f"the server ended {_format_plural(others, 'request')} more than we made: others use it, too",
        ),
        (
            gap > 0 and own.aborted > 0,
            f"{_format_plural(own.aborted, 'call')} of ours broke off: their last canvas is unknown",
        ),
        (
            gap > 0 and own.uncounted > 0,
            f"{_format_plural(own.uncounted, 'call')} of ours came back without usage",
        ),
        (
            gap > 0 and own.decisions > 0,
            f"{_format_plural(own.decisions, 'one-step read')} of ours may count",
        ),
        (
            gap < 0,
            "the server counted less than its answers said: is another server behind this address, too?",
        ),
    ]
    return "; ".join(words for holds, words in causes if holds) or UNEXPLAINED


def build_gap_notice(previous_gap: int, reading: CounterReading) -> str | None:
    """What the admins are told: only when all gaps, `before` and this one, come to LEAST, or to ten times as
    much.
    """
    after = abs(previous_gap + (reading.gap or 0))
    mark = MIN_REPORTED_GAP_TOKENS
    while mark * 10 <= after:
        mark *= 10
    if not abs(previous_gap) < mark <= after:
        return None
    return (
        f"The endpoint's own counters and this ledger differ by more than {mark:,} tokens by now. "
        f"Last time: {reading.why}. /usage shows only what this gateway was told."
    )


def _increase_since(previous: CounterReading, counters: ServerCounters) -> ServerCounters | None:
    """What was counted since then; None if a counter fell, for then the server began anew."""
    grown: dict[str, int | None] = {}
    for name, count in asdict(counters).items():
        last = previous.totals.get(name)
        if count is not None and last is not None and count < last:
            return None
        grown[name] = None if count is None or last is None else count - last
    return ServerCounters(**grown)


def _gap_tokens(increase: ServerCounters, own: OwnCounts) -> int | None:
    if increase.prompt_tokens is None or increase.generated_tokens is None:
        return None
    return increase.prompt_tokens + increase.generated_tokens - own.prompt - own.generated


def _format_plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
