"""Compares our own sums with the endpoint's counters at intervals, and notifies admins when the gap grows.

Behind a router the counters of all servers are added up, and compared only while each of them shows its own.
Owns the interval between readings and the explanation of a gap. `db` stores readings, `llm` reads counters.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial

from bot.canvases import CANVAS_TOKENS
from bot.db.engine import Database
from bot.db.usage import counter_readings
from bot.db.usage.counter_readings import CounterReading, CounterTotals, OwnCounts
from bot.domain import NotifyAdmins
from bot.errors import StoreUnavailable
from bot.llm import server_api
from bot.llm.server_api import ServerCounters
from bot.translations.formats import format_number
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
    """Where counters are read: the endpoint's address as calls are stored with it, and its key.

    `servers`: the addresses of all servers behind it; empty: it is the only one. A reply has at most
    `max_reply_tokens`.
    """

    url: str
    key: str | None = None
    servers: tuple[str, ...] = ()
    max_reply_tokens: int = 0


@dataclass(frozen=True, slots=True)
class GapHistory:
    """The gaps before a reading, in tokens: of all readings together, and of the last three, newest first.

    A reading that agreed has a gap of 0 among the last three.
    """

    total: int
    newest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _CountersRead:
    """The counters of each server by its address, when they were read, and how many calls of ours ran
    meanwhile.

    A server that shows none has None.
    """

    counters: Mapping[str, ServerCounters | None]
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

        None where an endpoint of one server shows no counters, or a later reading is stored. Of several, a
        reading without totals says which showed none, and the next one is compared with the last at which all
        did.
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
        endpoint = self._endpoint
        servers = endpoint.servers or (endpoint.url,)
        fetched = await asyncio.gather(
            *(server_api.fetch_counters(server, endpoint.key) for server in servers)
        )
        if not endpoint.servers and fetched == [None]:
            return None
        async with self._database.read_transaction() as tx:
            running_calls = await counter_readings.count_unsettled(tx, self._endpoint.url, since=now)
        return _CountersRead(dict(zip(servers, fetched, strict=True)), now, running_calls)

    async def _store_comparison(self, read: _CountersRead) -> CounterReading | None:
        url = self._endpoint.url
        async with self._database.transaction() as tx:
            newest = await counter_readings.list_newest_of(tx, url, limit=3)
            if newest and newest[0].read_at >= read.read_at:
                return None  # this process was paused, and another one leads by now
            previous = await counter_readings.find_newest_whole(tx, url)
            since = previous.read_at if previous else read.read_at
            own = await counter_readings.sum_own_calls(
                tx,
                url,
                since=since,
                until=read.read_at,
                max_reply_tokens=self._endpoint.max_reply_tokens,
            )
            reading = build_reading(url, previous, read.counters, own, read.read_at, read.running_calls)
            total = await counter_readings.sum_gaps(tx, url)
            await counter_readings.store(tx, reading)
        history = GapHistory(total, tuple(_gap_or_zero(past) for past in newest))
        notice = build_gap_notice(history, reading, self._min_reported_gap)
        if not reading.totals and (not newest or newest[0].why != reading.why):
            notice = defer(
                "The model servers' counters can't be compared with mine: {reason}.", reason=reading.why
            )
        if notice is not None:
            log.warning("%s", notice(ENGLISH), extra={"action": "reconcile.gap"})
            await self._notify(NOTICE_SUBJECT, notice)
        return reading


def build_reading(
    url: str,
    previous: CounterReading | None,
    counters: Mapping[str, ServerCounters | None],
    own: OwnCounts,
    read_at: float,
    running_calls: int,
) -> CounterReading:
    """The row for the servers' `counters` at `read_at`, while `running_calls` of ours were under way."""
    silent = [server for server, shown in counters.items() if shown is None]
    if silent:
        return CounterReading(url, read_at, None, {}, running_calls, _explain_silence(silent))
    totals = {server: asdict(shown) for server, shown in counters.items() if shown is not None}
    obstacle = _find_obstacle(previous, totals)
    if previous is None or obstacle is not None:
        return CounterReading(url, read_at, None, totals, running_calls, obstacle or FIRST_READING)
    increase = _sum_increases(previous.totals, totals)
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
    tolerated = TOLERATED_SHARE * ((increase.prompt_tokens or 0) + (increase.generated_tokens or 0))
    if abs(gap) <= tolerated:
        return SUMS_AGREE
    other_requests = (increase.requests or 0) - own.requests
    is_more = gap > 0
    excess = gap - own.max_unknown  # requests of others that were broken off are in no counter of requests
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
            own.max_unknown > 0 and excess > tolerated and other_requests <= 0,
            f"at least {excess:,} of the tokens are not ours: others use it, too",
        ),
        (
            gap < 0,
            "the server counted less than its answers said: if several are behind this address, name each in"
            " MODEL_METRICS_URLS",
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
    tokens = partial(format_number, number=threshold)
    if total > 0:
        return defer(
            "The model server has counted at least {tokens} tokens more than I have. Last time: {reason}. "
            "My figures cover only my own calls.",
            tokens=tokens,
            reason=reading.why,
        )
    return defer(
        "The model server has counted at least {tokens} tokens fewer than I have. Last time: {reason}. My "
        "figures cover only my own calls.",
        tokens=tokens,
        reason=reading.why,
    )


def _gap_or_zero(reading: CounterReading) -> int:
    if reading.why == SUMS_AGREE:
        return 0
    return reading.gap or 0


def _explain_silence(servers: list[str]) -> str:
    return f"no counters came from {' and '.join(servers)}, so nothing is compared"


def _find_obstacle(previous: CounterReading | None, totals: CounterTotals) -> str | None:
    """Why the counters cannot be compared with those of `previous`; None: they can."""
    if previous is None or previous.totals.keys().isdisjoint(totals):
        return FIRST_READING
    if new := [server for server in totals if server not in previous.totals]:
        return f"the first reading of {' and '.join(new)}: nothing to compare with"
    restarted = [server for server in totals if _has_restarted(previous.totals[server], totals[server])]
    if restarted and len(totals) > 1:
        return f"{' and '.join(restarted)} began anew: what it had counted before is lost"
    return SERVER_RESTARTED if restarted else None


def _has_restarted(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> bool:
    """Whether a counter fell."""
    counts = [(before.get(name), count) for name, count in after.items()]
    return any(later < earlier for earlier, later in counts if earlier is not None and later is not None)


def _sum_increases(before: CounterTotals, after: CounterTotals) -> ServerCounters:
    """What all servers counted in between; None for a counter that one of them lacks."""
    increase: dict[str, int | None] = {}
    for name in asdict(ServerCounters()):
        counts = [(before[server].get(name), after[server].get(name)) for server in after]
        known = [later - earlier for earlier, later in counts if earlier is not None and later is not None]
        increase[name] = sum(known) if len(known) == len(counts) else None
    return ServerCounters(**increase)


def _gap_tokens(increase: ServerCounters, own: OwnCounts) -> int | None:
    if increase.prompt_tokens is None or increase.generated_tokens is None:
        return None
    return increase.prompt_tokens + increase.generated_tokens - own.prompt - own.generated


def _format_plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}s"
