"""Our sums against the endpoint's counters: how a gap is explained, when it is reported, and what a restart
does.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import update

from bot.db.conversations import calls
from bot.db.conversations.calls import CallCompletion, NewCall
from bot.db.engine import Database, open_database
from bot.db.tables import readings
from bot.db.usage import counter_readings
from bot.db.usage.counter_readings import CounterReading, OwnCounts
from bot.domain import CallPurpose, Message, ModelRequest, Reply
from bot.errors import StoreUnavailable
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.llm.server_api import ServerCounters
from bot.translations.translator import ENGLISH, Translatable
from bot.usage import reconcile
from bot.usage.reconcile import (
    DEFAULT_PACE,
    MIN_REPORTED_GAP_TOKENS,
    CountersEndpoint,
    GapHistory,
    ReadingPace,
    Reconciliation,
)
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.gateway import running_gateway

NO_CALLS = OwnCounts(0, 0, 0, 0, 0, 0, 0)
REQUEST = ModelRequest(
    (Message("user", "@@repeat:300 word @@"),),
    (),
    "none",
    thinking=False,
    max_tokens=2048,
    session="s",
    lane="l",
)


@dataclass
class ReconcileHarness:
    """A gateway's calls beside an endpoint that others may use, too."""

    database: Database
    endpoint: ScriptedEndpoint
    url: str
    llm: ModelClient
    notices: list[str] = field(default_factory=list)
    pace: ReadingPace = DEFAULT_PACE
    min_reported_gap: int = MIN_REPORTED_GAP_TOKENS

    def make_reconciliation(self, url: str | None = None) -> Reconciliation:
        return Reconciliation(
            self.database,
            CountersEndpoint(url or self.url, max_reply_tokens=REQUEST.max_tokens),
            self.notify,
            pace=self.pace,
            min_reported_gap=self.min_reported_gap,
        )

    async def notify(self, subject: str, text: Translatable) -> None:
        assert subject == reconcile.NOTICE_SUBJECT
        self.notices.append(text(ENGLISH))

    async def take_reading(self) -> CounterReading:
        reading = await self.make_reconciliation().take_reading()
        assert reading is not None
        return reading

    async def open_call(self, *, purpose: CallPurpose = "bench", prompt_characters: int = 0) -> int:
        new = NewCall(None, 0, purpose, None, self.url, "m", False, 0, 0, 0, prompt_characters)
        async with self.database.transaction() as tx:
            return await calls.open_call(tx, new, now=time.time())

    async def close_call(self, call: int, reply: Reply | None) -> None:
        closing = CallCompletion(call, reply, "ok" if reply and reply.finish_reason else "cancelled")
        async with self.database.transaction() as tx:
            await calls.close_call(tx, closing, now=time.time())

    async def make_recorded_call(self) -> Reply:
        """A call as the gateway makes it: stored before and after."""
        number = await self.open_call()
        reply = await self.make_foreign_call()
        await self.close_call(number, reply)
        return reply

    async def make_foreign_call(self) -> Reply:
        """A call of somebody else, which is not stored."""
        return await self.llm.call(REQUEST, lambda text: None, lambda: None)


@contextlib.asynccontextmanager
async def open_harness(
    database: Database, endpoint: ScriptedEndpoint | None = None
) -> AsyncIterator[ReconcileHarness]:
    endpoint = endpoint or ScriptedEndpoint()
    async with serve(endpoint.app) as address:
        llm = ModelClient(f"{address}/v1", None, SeatLimiter(2))
        try:
            yield ReconcileHarness(database, endpoint, f"{address}/v1", llm)
        finally:
            await llm.close()


async def test_own_calls_agree_with_the_server_to_the_token(database: Database) -> None:
    async with open_harness(database) as harness:
        first = await harness.take_reading()
        assert (first.since, first.gap, first.why) == (None, None, reconcile.FIRST_READING)
        replies = [await harness.make_recorded_call(), await harness.make_recorded_call()]
        second = await harness.take_reading()
    assert second.since == first.read_at
    assert (second.gap, second.why, second.running) == (0, reconcile.SUMS_AGREE, 0)
    assert (
        second.generated_seen
        == second.generated_own
        == sum(reply.usage.completion_tokens or 0 for reply in replies)
    )
    assert second.prompt_seen == second.prompt_own == sum(reply.usage.prompt_tokens or 0 for reply in replies)
    assert second.cached_seen == second.cached_own
    assert (second.requests_seen, second.requests_own) == (2, 2)
    assert second.steps_per_canvas == 16
    assert harness.notices == []
    async with database.read_transaction() as tx:
        assert await counter_readings.list_newest_of(tx, harness.url, limit=2) == [second, first]


async def test_what_others_requested_is_attributed_to_them_and_reported_once_it_is_much(
    database: Database,
) -> None:
    async with open_harness(database) as harness:
        harness.min_reported_gap = 400
        await harness.take_reading()
        foreign = await harness.make_foreign_call()
        reading = await harness.take_reading()
        assert reading.gap == (foreign.usage.prompt_tokens or 0) + (foreign.usage.completion_tokens or 0)
        assert reading.why == "the server ended 1 request more than we made: others use it, too"
        assert harness.notices == []
        await harness.make_foreign_call()
        await harness.take_reading()
        assert harness.notices == []
        await harness.make_foreign_call()
        await harness.take_reading()
        assert len(harness.notices) == 1
        assert "at least 400 tokens more than I have" in harness.notices[0]
        await harness.make_foreign_call()
        await harness.take_reading()
        await harness.take_reading()
    assert len(harness.notices) == 1


async def test_an_aborted_call_explains_the_canvas_that_nobody_saw(database: Database) -> None:
    async with open_harness(database) as harness:
        await harness.take_reading()
        cut: list[Reply] = []
        number = await harness.open_call()
        harness.endpoint.hold()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(
                harness.llm.call(REQUEST, lambda text: None, lambda: None, cut.append)
            )
            await harness.endpoint.wait_until(lambda: harness.endpoint.running == 1)
            running.cancel()
        await harness.endpoint.wait_until(lambda: harness.endpoint.running == 0)
        harness.endpoint.release()
        await harness.close_call(number, cut[0])
        reading = await harness.take_reading()
    assert reading.gap == harness.endpoint.prompt_tokens
    assert reading.why == ("1 call of ours broke off: not all that was computed is known")


async def test_a_call_that_broke_off_explains_only_as_much_as_it_can_have_taken(database: Database) -> None:
    """Streams of others that were broken off are in no count of requests."""
    async with open_harness(database) as harness:
        await harness.close_call(await harness.open_call(prompt_characters=2_501), None)
        async with database.read_transaction() as tx:
            own = await counter_readings.sum_own_calls(
                tx, harness.url, since=0, until=time.time(), max_reply_tokens=2_048
            )
    assert (own.aborted, own.max_unknown) == (1, 4_549)
    broke_off = "1 call of ours broke off: not all that was computed is known"
    explained = ServerCounters(prompt_tokens=2_501, generated_tokens=2_048, requests=0)
    assert reconcile.explain_gap(4_549, explained, own, 0) == broke_off
    unexplained = ServerCounters(prompt_tokens=600_000, generated_tokens=1_559, requests=0)
    others = "at least 597,010 of the tokens are not ours: others use it, too"
    assert reconcile.explain_gap(601_559, unexplained, own, 0) == f"{broke_off}; {others}"


async def test_a_read_that_the_server_refused_explains_nothing(database: Database) -> None:
    async with open_harness(database) as harness:
        await harness.close_call(await harness.open_call(purpose="decision"), None)
        async with database.read_transaction() as tx:
            own = await counter_readings.sum_own_calls(
                tx, harness.url, since=0, until=time.time(), max_reply_tokens=2_048
            )
    assert own.decisions == 0


async def test_a_restarted_server_is_not_compared_with_what_it_forgot(database: Database) -> None:
    async with open_harness(database) as harness:
        await harness.make_recorded_call()
        before = await harness.take_reading()
    counters = {before.endpoint: ServerCounters(1, 0, 1, 0, 0, 0)}
    reading = reconcile.build_reading(before.endpoint, before, counters, NO_CALLS, before.read_at + 1, 0)
    assert (reading.since, reading.gap, reading.why) == (None, None, reconcile.SERVER_RESTARTED)


async def test_counters_of_several_servers_are_added_up_while_each_of_them_shows_its_own(
    database: Database,
) -> None:
    """Behind a router: one server is away for a while, comes back, and restarts."""
    other = ScriptedEndpoint()
    async with open_harness(database) as harness, serve(other.app) as other_address:
        servers = (harness.url.removesuffix("/v1"), other_address)
        endpoint = CountersEndpoint(harness.url, None, servers)
        other_llm = ModelClient(f"{other_address}/v1", None, SeatLimiter(2))
        harness.pace = ReadingPace(max_tries=1)

        async def take_reading(*, at: tuple[str, ...] = servers) -> CounterReading:
            reconciliation = Reconciliation(
                database, replace(endpoint, servers=at), harness.notify, pace=harness.pace
            )
            reading = await reconciliation.take_reading()
            assert reading is not None
            return reading

        async def call_other() -> None:
            number = await harness.open_call()
            await harness.close_call(number, await other_llm.call(REQUEST, lambda text: None, lambda: None))

        try:
            assert (await take_reading()).why == reconcile.FIRST_READING
            await harness.make_recorded_call()
            await call_other()
            whole = await take_reading()
            assert (whole.gap, whole.why, whole.requests_seen) == (0, reconcile.SUMS_AGREE, 2)

            away = "http://127.0.0.1:9"
            await call_other()
            for _ in range(2):
                silent = await take_reading(at=(servers[0], away))
                assert (silent.since, silent.gap, silent.totals) == (None, None, {})
                assert silent.why == f"no counters came from {away}, so nothing is compared"
            assert harness.notices == [
                f"The model servers' counters can't be compared with mine: {silent.why}."
            ]
            back = await take_reading()
            assert (back.since, back.gap, back.requests_seen) == (whole.read_at, 0, 1)
        finally:
            await other_llm.close()

    restarted = {servers[0]: ServerCounters(9999, 0, 9999, 99, 99, 9999), servers[1]: ServerCounters(1)}
    reading = reconcile.build_reading(harness.url, back, restarted, NO_CALLS, back.read_at + 1, 0)
    assert reading.gap is None
    assert reading.why == f"{servers[1]} began anew: what it had counted before is lost"
    added = {**restarted, "http://third": ServerCounters(5)}
    reading = reconcile.build_reading(harness.url, back, added, NO_CALLS, back.read_at + 1, 0)
    assert reading.why == "the first reading of http://third: nothing to compare with"


async def test_the_counters_of_one_server_as_older_versions_stored_them_are_its_own(
    database: Database,
) -> None:
    async with open_harness(database) as harness:
        await harness.take_reading()
        async with database.transaction() as tx:
            totals = asdict(ServerCounters(0, 0, 0, 0, 0, 0))
            await tx.execute(update(readings).values(totals=json.dumps(totals)))
        await harness.make_recorded_call()
        assert (await harness.take_reading()).gap == 0


async def test_a_reading_waits_for_a_moment_without_calls_and_at_last_says_that_there_was_none(
    database: Database,
) -> None:
    async with open_harness(database) as harness:
        harness.pace = ReadingPace(max_tries=3, retry_pause_seconds=0)
        await harness.take_reading()
        number = await harness.open_call()
        await harness.make_foreign_call()
        busy = await harness.take_reading()
        assert busy.running == 1
        assert busy.why.startswith("1 call of ours ran while the counters were read")
        await harness.close_call(number, None)
        after = await harness.take_reading()
    assert after.running == 0


async def test_an_endpoint_without_counters_gives_no_reading(database: Database) -> None:
    async with open_harness(database, ScriptedEndpoint(profile=ServerProfile.hosted_api())) as harness:
        assert await harness.make_reconciliation().take_reading() is None
        assert await harness.make_reconciliation("http://127.0.0.1:9/v1").take_reading() is None
        async with database.read_transaction() as tx:
            assert await counter_readings.list_newest_of(tx, harness.url, limit=1) == []


async def test_the_gateway_takes_readings_while_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "READ_INTERVAL_SECONDS", 0.01)
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("hello")
        await gateway.wait_for_texts()
        async with open_database(gateway.settings.database_url) as database, asyncio.timeout(60):
            reasons = list[str]()
            while reasons != [reconcile.SUMS_AGREE]:  # one taken during a call says other things
                await asyncio.sleep(0.02)  # no event says so
                async with database.read_transaction() as tx:
                    newest = await counter_readings.list_newest_of(tx, gateway.settings.model_url, limit=1)
                reasons = [reading.why for reading in newest]


async def test_the_first_reading_is_taken_at_start(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path) as gateway,
        open_database(gateway.settings.database_url) as database,
        asyncio.timeout(60),
    ):
        newest: list[CounterReading] = []
        while not newest:
            await asyncio.sleep(0.01)  # no event says so
            async with database.read_transaction() as tx:
                newest = await counter_readings.list_newest_of(tx, gateway.settings.model_url, limit=1)
    assert newest[0].since is None


async def test_a_database_that_is_busy_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "READ_INTERVAL_SECONDS", 0)
    tries = asyncio.Event()

    class Busy(Reconciliation):
        took = 0

        async def take_reading(self) -> None:
            self.took += 1
            if self.took > 1:
                tries.set()
                await asyncio.Event().wait()
            raise StoreUnavailable("locked")

    async def tell(subject: str, text: Translatable) -> None:
        raise AssertionError(text)

    async with (
        open_database(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}") as database,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(Busy(database, CountersEndpoint("http://127.0.0.1:9/v1"), tell).run())
        await tries.wait()
        running.cancel()


COUNTERS = ServerCounters(10_000, 0, 1000, 10, 170, 2560)


@pytest.mark.parametrize(
    ("gap", "own", "running", "reason"),
    [
        (None, NO_CALLS, 0, "the server does not count tokens"),
        (110, NO_CALLS, 0, reconcile.SUMS_AGREE),
        (-110, NO_CALLS, 0, reconcile.SUMS_AGREE),
        (111, replace(NO_CALLS, requests=10), 0, reconcile.UNEXPLAINED),
        (
            -111,
            NO_CALLS,
            0,
            "the server counted less than its answers said: if several are behind this address, name each in"
            " MODEL_METRICS_URLS",
        ),
        (500, replace(NO_CALLS, requests=10, decisions=2), 0, "2 one-step reads of ours may count"),
        (500, replace(NO_CALLS, requests=10), 2, "2 calls of ours ran while the counters were read"),
    ],
)
def test_a_gap_is_explained(gap: int | None, own: OwnCounts, running: int, reason: str) -> None:
    assert reconcile.explain_gap(gap, COUNTERS, own, running) == reason


@pytest.mark.parametrize(
    ("before", "gap", "mark"),
    [
        (0, 9_999, None),
        (0, 10_000, "10,000"),
        (9_999, 1, "10,000"),
        (10_000, 50_000, None),
        (60_000, 50_000, "100,000"),
        (0, 2_000_000, "1,000,000"),
        (-9_999, -1, "10,000"),
        (20_000, -15_000, None),
        (20_000, None, None),
    ],
)
def test_a_gap_is_reported_at_ten_times_as_much_and_not_in_between(
    before: int, gap: int | None, mark: str | None
) -> None:
    notice = reconcile.build_gap_notice(
        GapHistory(before, (1, 1, 1)), CounterReading("u", 1.0, 0.0, {}, 0, "why", gap=gap)
    )
    assert (notice is None) == (mark is None)
    assert notice is None or f"at least {mark} tokens" in notice(ENGLISH)


def test_two_gaps_are_not_reported_and_those_that_go_on_are_once() -> None:
    """What `canvasgram check` takes beside a gateway is one gap, or two; a second program's go on."""

    def read(*gaps: int) -> list[bool]:
        notices = []
        for number, gap in enumerate(gaps):
            history = GapHistory(sum(gaps[:number]), gaps[max(0, number - 3) : number][::-1])
            why = "others use it" if gap else reconcile.SUMS_AGREE
            reading = CounterReading("u", 1.0, 0.0, {}, 0, why, gap=gap)
            notices.append(reconcile.build_gap_notice(history, reading) is not None)
        return notices

    assert read(0, 30_000, 0, 30_000, 0) == [False] * 5
    assert read(0, 15_000, 15_000, 0, 15_000, 15_000, 0) == [False] * 7
    assert read(0, 30_000, 100, 100, 100) == [False, False, False, True, False]
    assert read(20_000, 20_000, 20_000, 20_000, 50_000, 50_000) == [False, False, True, False, True, False]


def test_a_counter_the_server_lacks_stays_unknown() -> None:
    lacking = ServerCounters(5, None, 5, 1)
    totals = {"u": {"prompt_tokens": 1, "generated_tokens": 1, "requests": 0}}
    before = CounterReading("u", 1.0, None, totals, 0, "")
    reading = reconcile.build_reading("u", before, {"u": lacking}, replace(NO_CALLS, decisions=1), 2.0, 0)
    assert (reading.prompt_seen, reading.cached_seen, reading.steps_seen, reading.steps_per_canvas) == (
        4,
        None,
        None,
        None,
    )
    assert reconcile.steps_per_canvas(lacking) is None
