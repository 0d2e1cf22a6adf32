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
from bot.db.usage.counter_readings import Own, Reading
from bot.domain import CANVAS
from bot.errors import StoreUnavailable
from bot.llm import server_api as server
from bot.llm.server_api import Counters

EVERY = 600.0  # seconds between two readings
TRIES = 20  # how often a moment without a call of ours is looked for
PAUSE = 3.0  # seconds between two such looks
AGREE = 0.01  # the share of the server's tokens by which sums may differ and still agree
LEAST = 10_000  # tokens of gap in all that admins are told of first; then at ten times as many, and so on
SUBJECT = "counters"

NOTHING_BEFORE = "the first reading: nothing to compare with"
BEGAN_ANEW = "the server began anew: what it had counted before is lost"
AGREED = "the sums agree"
UNEXPLAINED = "nothing we know of explains it"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CountersAt:
    """Where counters are read: the endpoint's address as the ledger has it, and its key."""

    url: str
    key: str | None = None


class Reconciliation:
    """Reads, compares, stores; `tell` is given a subject and a text for the admins' feed."""

    def __init__(
        self, database: Database, where: CountersAt, tell: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._database = database
        self._where = where
        self._tell = tell

    async def run(self) -> None:
        """Take a reading now and then, until cancelled; a database that is busy is tried again next time."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.take()
            except StoreUnavailable as error:
                log.warning("no reading was stored: %s", error, extra={"action": "reconcile.failed"})

    async def take(self) -> Reading | None:
        """One reading, at a moment when none of our calls runs if one is found; None where nothing can be
        read.
        """
        for _ in range(TRIES - 1):
            found = await self._look()
            if found is None or not found[2]:
                break
            await asyncio.sleep(PAUSE)
        else:
            found = await self._look()
        if found is None:
            return None
        return await self._compare(*found)

    async def _look(self) -> tuple[Counters, float, int] | None:
        """Counters, when they were read, and how many calls of ours ran meanwhile."""
        now = time.time()
        counters = await server.counters(self._where.url, self._where.key)
        if counters is None:
            return None
        async with self._database.reading() as tx:
            return counters, now, await reconcile.unsettled(tx, self._where.url, since=now)

    async def _compare(self, counters: Counters, now: float, running: int) -> Reading:
        url = self._where.url
        async with self._database.transaction() as tx:
            before = await reconcile.latest(tx, url)
            since = now if before is None else before.read_at
            made = reading(
                url, before, counters, await reconcile.own(tx, url, since=since, until=now), now, running
            )
            known = await reconcile.gaps(tx, url)
            await reconcile.keep(tx, made)
        if (line := news(known, made)) is not None:
            await self._tell(SUBJECT, line)
        return made


def reading(url: str, before: Reading | None, now: Counters, own: Own, at: float, running: int) -> Reading:
    """The row for counters that stand so `at` this time, when `running` calls of ours were under way."""
    totals = asdict(now)
    if before is None:
        return Reading(url, at, None, totals, running, NOTHING_BEFORE)
    seen = _since(before, now)
    if seen is None:
        return Reading(url, at, None, totals, running, BEGAN_ANEW)
    gap = _gap(seen, own)
    return Reading(
        url,
        at,
        before.read_at,
        totals,
        running,
        explained(gap, seen, own, running + before.running),
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


def steps_per_canvas(seen: Counters) -> float | None:
    """Denoising steps a canvas took, its commit not counted; None where the server does not count them."""
    if not seen.steps or not seen.committed:
        return None
    return seen.steps / (seen.committed / CANVAS) - 1


def explained(gap: int | None, seen: Counters, own: Own, running: int) -> str:
    """What a gap of so many tokens comes from, in words; `running` calls were under way at its ends."""
    if gap is None:
        return "the server does not count tokens"
    if abs(gap) <= AGREE * ((seen.prompt_tokens or 0) + (seen.generated_tokens or 0)):
        return AGREED
    others = (seen.requests or 0) - own.requests
    causes = [
        (running > 0, f"{_times(running, 'call')} of ours ran while the counters were read"),
        (
            gap > 0 and others > 0,
            f"the server ended {_times(others, 'request')} more than we made: others use it, too",
        ),
        (
            gap > 0 and own.aborted > 0,
            f"{_times(own.aborted, 'call')} of ours broke off: their last canvas is unknown",
        ),
        (gap > 0 and own.uncounted > 0, f"{_times(own.uncounted, 'call')} of ours came back without usage"),
        (gap > 0 and own.decisions > 0, f"{_times(own.decisions, 'one-step read')} of ours may count"),
        (
            gap < 0,
            "the server counted less than its answers said: is another server behind this address, too?",
        ),
    ]
    return "; ".join(words for holds, words in causes if holds) or UNEXPLAINED


def news(before: int, made: Reading) -> str | None:
    """What the admins are told: only when all gaps, `before` and this one, come to LEAST, or to ten times as
    much.
    """
    after = abs(before + (made.gap or 0))
    mark = LEAST
    while mark * 10 <= after:
        mark *= 10
    if not abs(before) < mark <= after:
        return None
    return (
        f"The endpoint's own counters and this ledger differ by more than {mark:,} tokens by now. "
        f"Last time: {made.why}. /usage shows only what this gateway was told."
    )


def _since(before: Reading, now: Counters) -> Counters | None:
    """What was counted since then; None if a counter fell, for then the server began anew."""
    grown: dict[str, int | None] = {}
    for name, count in asdict(now).items():
        last = before.totals.get(name)
        if count is not None and last is not None and count < last:
            return None
        grown[name] = None if count is None or last is None else count - last
    return Counters(**grown)


def _gap(seen: Counters, own: Own) -> int | None:
    if seen.prompt_tokens is None or seen.generated_tokens is None:
        return None
    return seen.prompt_tokens + seen.generated_tokens - own.prompt - own.generated


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
