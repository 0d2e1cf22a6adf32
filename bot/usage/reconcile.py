"""Compares our own sums with the endpoint's counters at intervals, and notifies admins when the gap grows.

Owns the interval between readings and the explanation of a gap. `db` stores readings, `llm` reads counters.
"""

import asyncio
import logging
import time
from dataclasses import asdict, dataclass

from bot.db.engine import Database
from bot.db.usage import counter_readings
from bot.db.usage.counter_readings import CounterReading, OwnCounts
from bot.domain import CANVAS_TOKENS, NotifyAdmins
from bot.errors import StoreUnavailable
from bot.llm import server_api
from bot.llm.server_api import ServerCounters
from bot.translations.translator import ENGLISH, Translatable, defer

READ_INTERVAL_SECONDS = 600.0  # seconds between two readings
TOLERATED_SHARE = 0.01  # the part of the server's tokens by which sums may differ and still agree
# The total gap that admins are notified of first; the next notice is at ten times as much, and so on.
MIN_REPORTED_GAP_TOKENS = 10_000
NOTICE_SUBJECT = "counters"

FIRST_READING = "the first reading: nothing to compare with"
SERVER_RESTARTED = "the server began anew: what it had counted before is lost"
SUMS_AGREE = "the sums agree"
UNEXPLAINED = "nothing we know of explains it"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadingPace:
    """How often counters are read to find a moment without a call of ours, and the pause in between."""

    max_tries: int = 20
    retry_pause_seconds: float = 3.0


DEFAULT_PACE = ReadingPace()


@dataclass(frozen=True, slots=True)
class CountersEndpoint:
    """Where counters are read: the endpoint's address as calls are stored with it, and its key."""

    url: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class GapHistory:
    """The gaps before a reading, in tokens: of all readings together, and of the last three, newest first.

    A reading that agreed has a gap of 0 among the last three.
    """

    total: int
    newest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _CountersRead:
    """The endpoint's counters, when they were read, and how many calls of ours ran meanwhile."""

    counters: ServerCounters
    read_at: float
    running_calls: int


class Reconciliation:
    """Reads, compares and stores; `notify` gets a subject and a text for the admins."""

    def __init__(
        self,
        database: Database,
        endpoint: CountersEndpoint,
        notify: NotifyAdmins,
        *,
        pace: ReadingPace = DEFAULT_PACE,
        min_reported_gap: int = MIN_REPORTED_GAP_TOKENS,
    ) -> None:
        self._database = database
        self._endpoint = endpoint
        self._notify = notify
        self._pace = pace
        self._min_reported_gap = min_reported_gap

    async def run(self) -> None:
        """Take a reading at start, for the next to be compared with, and then now and then, until cancelled.

        If the database is busy, the next one is tried.
        """
        while True:
            try:
                await self.take_reading()
            except StoreUnavailable as error:
                log.warning("no reading was stored: %s", error, extra={"action": "reconcile.failed"})
            await asyncio.sleep(READ_INTERVAL_SECONDS)

    async def take_reading(self) -> CounterReading | None:
        """Store one reading, taken while none of our calls runs if there is such a moment.

        None where the endpoint shows no counters.
        """
        read = await self._read_counters()
        for _ in range(self._pace.max_tries - 1):
            if read is None or not read.running_calls:
                break
            await asyncio.sleep(self._pace.retry_pause_seconds)
            read = await self._read_counters()
        if read is None:
            return None
        return await self._store_comparison(read)

    async def _read_counters(self) -> _CountersRead | None:
        now = time.time()
        counters = await server_api.fetch_counters(self._endpoint.url, self._endpoint.key)
        if counters is None:
            return None
        async with self._database.read_transaction() as tx:
            running_calls = await counter_readings.count_unsettled(tx, self._endpoint.url, since=now)
        return _CountersRead(counters, now, running_calls)

    async def _store_comparison(self, read: _CountersRead) -> CounterReading:
        url = self._endpoint.url
        async with self._database.transaction() as tx:
            newest = await counter_readings.list_newest_of(tx, url, limit=3)
            previous = newest[0] if newest else None
            since = previous.read_at if previous else read.read_at
            own = await counter_readings.sum_own_calls(tx, url, since=since, until=read.read_at)
            reading = build_reading(url, previous, read.counters, own, read.read_at, read.running_calls)
            total = await counter_readings.sum_gaps(tx, url)
            await counter_readings.store(tx, reading)
        history = GapHistory(total, tuple(_gap_or_zero(past) for past in newest))
        notice = build_gap_notice(history, reading, self._min_reported_gap)
        if notice is not None:
            log.warning("%s", notice(ENGLISH), extra={"action": "reconcile.gap"})
            await self._notify(NOTICE_SUBJECT, notice)
        return reading


def build_reading(
    url: str,
    previous: CounterReading | None,
    counters: ServerCounters,
    own: OwnCounts,
    read_at: float,
    running_calls: int,
) -> CounterReading:
    """The row for `counters` at `read_at`, while `running_calls` of ours were under way."""
    totals = asdict(counters)
    if previous is None:
        return CounterReading(url, read_at, None, totals, running_calls, FIRST_READING)
    increase = _increase_since(previous, counters)
    if increase is None:
        return CounterReading(url, read_at, None, totals, running_calls, SERVER_RESTARTED)
    gap = _gap_tokens(increase, own)
    return CounterReading(
        url,
        read_at,
        previous.read_at,
        totals,
        running_calls,
        explain_gap(gap, increase, own, running_calls + previous.running),
        prompt_seen=increase.prompt_tokens,
        cached_seen=increase.cached_tokens,
        generated_seen=increase.generated_tokens,
        requests_seen=increase.requests,
        steps_seen=increase.steps,
        committed_seen=increase.committed,
        prompt_own=own.prompt,
        cached_own=own.cached,
        generated_own=own.generated,
        requests_own=own.requests,
        gap=gap,
        # A typed read takes steps without a canvas.
        steps_per_canvas=None if own.decisions else steps_per_canvas(increase),
    )


def steps_per_canvas(increase: ServerCounters) -> float | None:
    """Denoising steps per canvas without its commit; None where the server does not count them."""
    if not increase.steps or not increase.committed:
        return None
    return increase.steps / (increase.committed / CANVAS_TOKENS) - 1


def explain_gap(gap: int | None, increase: ServerCounters, own: OwnCounts, running_calls: int) -> str:
    """Why the sums differ by `gap` tokens; `running_calls` were under way at either of the two readings."""
    if gap is None:
        return "the server does not count tokens"
    if abs(gap) <= TOLERATED_SHARE * ((increase.prompt_tokens or 0) + (increase.generated_tokens or 0)):
        return SUMS_AGREE
    other_requests = (increase.requests or 0) - own.requests
    is_more = gap > 0
    causes = [
        (
            running_calls > 0,
            f"{_format_plural(running_calls, 'call')} of ours ran while the counters were read",
        ),
        (
            is_more and other_requests > 0,
            f"the server ended {_format_plural(other_requests, 'request')} more than we made:"
            " others use it, too",
        ),
        (
            is_more and own.aborted > 0,
            f"{_format_plural(own.aborted, 'call')} of ours broke off: not all that was computed is known",
        ),
        (
            is_more and own.uncounted > 0,
            f"{_format_plural(own.uncounted, 'call')} of ours came back without usage",
        ),
        (
            is_more and own.decisions > 0,
            f"{_format_plural(own.decisions, 'one-step read')} of ours may count",
        ),
        (
            gap < 0,
            "the server counted less than its answers said: is another server behind this address, too?",
        ),
    ]
    return "; ".join(text for applies, text in causes if applies) or UNEXPLAINED


def build_gap_notice(
    history: GapHistory, reading: CounterReading, min_gap: int = MIN_REPORTED_GAP_TOKENS
) -> Translatable | None:
    """The notice when the total gap reaches `min_gap` tokens, ten times as much, and so on.

    Three readings in a row must have a gap: a `canvasgram check`, or somebody who tries the endpoint, makes
    one, or two if it is between them that a reading is taken.
    """
    last_two = history.newest[:2]
    if not _gap_or_zero(reading) or len(last_two) < 2 or not all(last_two):
        return None
    total = history.total + (reading.gap or 0)
    reported_total = history.total
    if len(history.newest) < 3 or not history.newest[2]:  # no notice could be sent at the last two
        reported_total -= sum(last_two)
    threshold = min_gap
    while threshold * 10 <= abs(total):
        threshold *= 10
    if not abs(reported_total) < threshold <= abs(total):
        return None
    tokens = f"{threshold:,}"
    if total > 0:
        return defer(
            "The model server has counted over {tokens} tokens more than I have. "
            "The last time: {reason}. My figures cover only my own calls.",
            tokens=tokens,
            reason=reading.why,
        )
    return defer(
        "The model server has counted over {tokens} tokens fewer than I have. "
        "The last time: {reason}. My figures cover only my own calls.",
        tokens=tokens,
        reason=reading.why,
    )


def _gap_or_zero(reading: CounterReading) -> int:
    if reading.why == SUMS_AGREE:
        return 0
    return reading.gap or 0


def _increase_since(previous: CounterReading, counters: ServerCounters) -> ServerCounters | None:
    """What was counted since `previous`; None if a counter fell, because then the server restarted."""
    increase: dict[str, int | None] = {}
    for name, count in asdict(counters).items():
        previous_count = previous.totals.get(name)
        if count is None or previous_count is None:
            increase[name] = None
        elif count < previous_count:
            return None
        else:
            increase[name] = count - previous_count
    return ServerCounters(**increase)


def _gap_tokens(increase: ServerCounters, own: OwnCounts) -> int | None:
    if increase.prompt_tokens is None or increase.generated_tokens is None:
        return None
    return increase.prompt_tokens + increase.generated_tokens - own.prompt - own.generated


def _format_plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}s"
