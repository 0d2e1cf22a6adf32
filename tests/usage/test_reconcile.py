"""Our sums against the endpoint's counters: what a gap is put down to, when it is told, and what a restart
does.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.db.conversations import calls
from bot.db.conversations.calls import Closing, NewCall
from bot.db.engine import Database, connected
from bot.db.usage import counter_readings as reconcile
from bot.db.usage.counter_readings import Own, Reading
from bot.domain import Message, ModelRequest, Reply
from bot.errors import StoreUnavailable
from bot.http_server import serve
from bot.llm.client import Llm
from bot.llm.seats import Seats
from bot.llm.server_api import Counters
from bot.sim.vllm.server import Endpoint, Profile
from bot.usage import reconcile as room
from bot.usage.reconcile import CountersAt, Reconciliation
from tests.support.gateway import open_house

NONE = Own(0, 0, 0, 0, 0, 0, 0)
ASKED = ModelRequest(
    (Message("user", "@@repeat:300 word @@"),),
    (),
    "none",
    thinking=False,
    max_tokens=2048,
    session="s",
    lane="l",
)


@dataclass
class Office:
    """A gateway's ledger beside an endpoint that others may use, too."""

    database: Database
    endpoint: Endpoint
    url: str
    llm: Llm
    told: list[str] = field(default_factory=list)

    def reconciliation(self, url: str | None = None) -> Reconciliation:
        return Reconciliation(self.database, CountersAt(url or self.url), self.tell)

    async def tell(self, subject: str, text: str) -> None:
        assert subject == room.SUBJECT
        self.told.append(text)

    async def read(self) -> Reading:
        reading = await self.reconciliation().take()
        assert reading is not None
        return reading

    async def open(self) -> int:
        new = NewCall(None, 0, "bench", None, self.url, "m", False, 0, 0, 0, 0)
        async with self.database.transaction() as tx:
            return await calls.open_call(tx, new, now=time.time())

    async def close(self, call: int, reply: Reply | None) -> None:
        closing = Closing(call, reply, "ok" if reply and reply.finish_reason else "cancelled")
        async with self.database.transaction() as tx:
            await calls.close_call(tx, closing, now=time.time())

    async def call(self) -> Reply:
        """A call as the house makes it: written down before and after."""
        number = await self.open()
        reply = await self.ask()
        await self.close(number, reply)
        return reply

    async def ask(self) -> Reply:
        """A call nobody writes down: somebody else's."""
        return await self.llm.call(ASKED, lambda text: None, lambda: None)


@contextlib.asynccontextmanager
async def opened(database: Database, endpoint: Endpoint | None = None) -> AsyncIterator[Office]:
    endpoint = endpoint or Endpoint()
    async with serve(endpoint.app) as address:
        llm = Llm(f"{address}/v1", None, Seats(2))
        try:
            yield Office(database, endpoint, f"{address}/v1", llm)
        finally:
            await llm.close()


async def test_own_calls_agree_with_the_server_to_the_token(database: Database) -> None:
    async with opened(database) as office:
        first = await office.read()
        assert (first.since, first.gap, first.why) == (None, None, room.NOTHING_BEFORE)
        replies = [await office.call(), await office.call()]
        second = await office.read()
    assert second.since == first.read_at
    assert (second.gap, second.why, second.running) == (0, room.AGREED, 0)
    assert (
        second.generated_seen
        == second.generated_own
        == sum(one.usage.completion_tokens or 0 for one in replies)
    )
    assert second.prompt_seen == second.prompt_own == sum(one.usage.prompt_tokens or 0 for one in replies)
    assert second.cached_seen == second.cached_own
    assert (second.requests_seen, second.requests_own) == (2, 2)
    assert second.steps_per_canvas == 16
    assert office.told == []
    async with database.reading() as tx:
        assert await reconcile.latest(tx, office.url) == second
        steps = await reconcile.steps(tx, since=0, until=time.time())
    assert steps == reconcile.Steps(canvases=2 * 2, per_canvas=16)


async def test_what_others_asked_for_is_put_down_to_them_and_told_once_it_is_much(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LEAST", 400)
    async with opened(database) as office:
        await office.read()
        other = await office.ask()
        found = await office.read()
        assert found.gap == (other.usage.prompt_tokens or 0) + (other.usage.completion_tokens or 0)
        assert found.why == "the server ended 1 request more than we made: others use it, too"
        assert office.told == []
        await office.ask()
        await office.read()
        assert len(office.told) == 1
        assert "differ by more than 400 tokens" in office.told[0]
        await office.ask()
        await office.read()
        await office.read()
    assert len(office.told) == 1


async def test_a_call_broken_off_explains_the_canvas_nobody_saw(database: Database) -> None:
    async with opened(database) as office:
        await office.read()
        cut: list[Reply] = []
        number = await office.open()
        office.endpoint.hold()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(office.llm.call(ASKED, lambda text: None, lambda: None, cut.append))
            await office.endpoint.until(lambda: office.endpoint.running == 1)
            running.cancel()
        office.endpoint.release()
        await office.close(number, cut[0])
        found = await office.read()
    assert found.gap == office.endpoint.prompt_tokens
    assert found.why == (
        "1 call of ours broke off: their last canvas is unknown; 1 call of ours came back without usage"
    )


async def test_a_server_that_begins_anew_is_not_held_against_what_it_forgot(database: Database) -> None:
    async with opened(database) as office:
        await office.call()
        before = await office.read()
    made = room.reading(before.endpoint, before, Counters(1, 0, 1, 0, 0, 0), NONE, before.read_at + 1, 0)
    assert (made.since, made.gap, made.why) == (None, None, room.BEGAN_ANEW)


async def test_a_reading_waits_for_a_moment_without_calls_and_at_last_says_that_there_was_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "PAUSE", 0)
    monkeypatch.setattr(room, "TRIES", 3)
    async with opened(database) as office:
        await office.read()
        number = await office.open()
        await office.ask()
        busy = await office.read()
        assert busy.running == 1
        assert busy.why.startswith("1 call of ours ran while the counters were read")
        await office.close(number, None)
        after = await office.read()
    assert after.running == 0


async def test_an_endpoint_without_counters_gives_no_reading(database: Database) -> None:
    async with opened(database, Endpoint(profile=Profile.hosted_api())) as office:
        assert await office.reconciliation().take() is None
        assert await office.reconciliation("http://127.0.0.1:9/v1").take() is None
        async with database.reading() as tx:
            assert await reconcile.latest(tx, office.url) is None


async def test_the_house_takes_readings_beside_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "EVERY", 0.01)
    async with open_house(tmp_path) as house:
        house.ann.send("hello")
        await house.answered()
        async with connected(house.settings.database_url) as database:
            found = None
            while found is None or found.gap is None:
                async with database.reading() as tx:
                    found = await reconcile.latest(tx, house.settings.model_url)
    assert found.gap == 0


async def test_a_database_that_is_busy_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "EVERY", 0)
    tries = asyncio.Event()

    class Busy(Reconciliation):
        took = 0

        async def take(self) -> None:
            self.took += 1
            if self.took > 1:
                tries.set()
                await asyncio.Event().wait()
            raise StoreUnavailable("locked")

    async def tell(subject: str, text: str) -> None:
        raise AssertionError(text)

    async with (
        connected(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}") as database,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(Busy(database, CountersAt("http://127.0.0.1:9/v1"), tell).run())
        await tries.wait()
        running.cancel()


SEEN = Counters(10_000, 0, 1000, 10, 170, 2560)


@pytest.mark.parametrize(
    ("gap", "own", "running", "why"),
    [
        (None, NONE, 0, "the server does not count tokens"),
        (110, NONE, 0, room.AGREED),
        (-110, NONE, 0, room.AGREED),
        (111, replace(NONE, requests=10), 0, room.UNEXPLAINED),
        (
            -111,
            NONE,
            0,
            "the server counted less than its answers said: is another server behind this address, too?",
        ),
        (500, replace(NONE, requests=10, decisions=2), 0, "2 one-step reads of ours may count"),
        (500, replace(NONE, requests=10), 2, "2 calls of ours ran while the counters were read"),
    ],
)
def test_a_gap_is_put_in_words(gap: int | None, own: Own, running: int, why: str) -> None:
    assert room.explained(gap, SEEN, own, running) == why


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
def test_a_gap_is_told_at_ten_times_as_much_and_not_in_between(
    before: int, gap: int | None, mark: str | None
) -> None:
    told = room.news(before, Reading("u", 1.0, 0.0, {}, 0, "why", gap=gap))
    assert (told is None) == (mark is None)
    assert told is None or f"more than {mark} tokens" in told


def test_a_counter_the_server_lacks_stays_unknown() -> None:
    lacking = Counters(5, None, 5, 1)
    before = Reading("u", 1.0, None, {"prompt_tokens": 1, "generated_tokens": 1, "requests": 0}, 0, "")
    made = room.reading("u", before, lacking, replace(NONE, decisions=1), 2.0, 0)
    assert (made.prompt_seen, made.cached_seen, made.steps_seen, made.steps_per_canvas) == (
        4,
        None,
        None,
        None,
    )
    assert room.steps_per_canvas(lacking) is None
