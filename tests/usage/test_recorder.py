"""The recorder stores measured spans with every heartbeat, builds breakdowns once it can, and takes over what
an earlier process left.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.tables import accounts, inbox, lives, outbox, turns
from bot.db.usage import breakdowns
from bot.domain import InboxItem, Lane
from bot.usage import recorder
from bot.usage.intervals import Span, parse_spans, serialize_spans
from bot.usage.recorder import UsageRecorder
from bot.usage.timers import TurnTimers
from tests.db.usage.test_breakdowns import insert_item, insert_part, insert_turn
from tests.support.flaky_database import FlakyDatabase
from tests.support.turn_harness import SHUTDOWN_SECONDS

LANE = Lane(5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "HEARTBEAT_SECONDS", 0.005)


@asynccontextmanager
async def run_recorder(database: Database, timers: TurnTimers) -> AsyncIterator[None]:
    """A running recorder, which is stopped in good order."""
    usage_recorder = UsageRecorder(database, timers, shutdown_seconds=SHUTDOWN_SECONDS)
    await usage_recorder.start()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(usage_recorder.run())
        try:
            yield
        finally:
            usage_recorder.stop()


async def select_column(database: Database, query: Any) -> list[Any]:
    async with database.read_transaction() as tx:
        return list((await tx.execute(query)).scalars())


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 another task writes it
            await asyncio.sleep(0.002)


async def has_all_breakdowns(database: Database) -> bool:
    async with database.read_transaction() as tx:
        return await breakdowns.is_all_accounted(tx)


def taken_item(id: int, attempt: int = 1) -> InboxItem:
    return InboxItem(id, "update", "text", LANE, 5, {}, attempt, False, 100.0, 100.5)


async def test_a_process_says_when_it_began_and_that_it_ended_in_good_order(database: Database):
    async with run_recorder(database, TurnTimers(50.0)):
        assert await select_column(database, select(lives.c.ended_at)) == [None]
    assert await select_column(database, select(lives.c.began_at)) == [50.0]
    assert await select_column(database, select(lives.c.seen_at)) == await select_column(
        database, select(lives.c.ended_at)
    )


async def test_what_a_turn_is_at_is_stored_with_every_heartbeat(database: Database):
    turn_timers = TurnTimers()
    first = await insert_item(database, 1, "running")
    await insert_turn(database, first, state="running", ended_at=None)
    timer = turn_timers.open(taken_item(first), LANE)
    async with run_recorder(database, turn_timers):
        with timer.measure("seat wait"):
            await wait_until(lambda: has_stored_interval(database, first, "seat wait"))
    assert await select_column(database, select(accounts.c.turn)) == []


async def has_stored_interval(database: Database, item: int, kind: str) -> bool:
    [text] = await select_column(database, select(inbox.c.spans).where(inbox.c.id == item))
    return kind in {span.kind for span in parse_spans(text)}


async def test_a_delivered_turn_gets_its_breakdown_and_is_measured_no_more(database: Database):
    turn_timers = TurnTimers()
    first = await insert_item(database, 1)
    turn_id = await insert_turn(database, first)
    await insert_part(database, first, "open")
    timer = turn_timers.open(taken_item(first), LANE)
    timer.add_span(Span("first canvas", 101.0, 104.5))
    timer.hand_over()
    async with run_recorder(database, turn_timers):
        await wait_until(lambda: has_stored_interval(database, first, "first canvas"))
        timer.add_span(Span("Telegram", 104.5, 105.0))
        async with database.transaction() as tx:
            await tx.execute(outbox.update().values(state="done"))
        await wait_until(lambda: has_all_breakdowns(database))
        await wait_until(lambda: has_no_timers(turn_timers))
    assert await select_column(database, select(accounts.c.turn)) == [turn_id]
    assert await select_column(database, select(accounts.c.telegram)) == [0.5]
    assert await select_column(database, select(inbox.c.spans)) == [None]


async def has_no_timers(timers: TurnTimers) -> bool:
    return not [*timers]


async def test_what_an_earlier_process_left_is_taken_up_with_the_time_without_one(database: Database):
    async with run_recorder(database, TurnTimers(90.0)):
        pass
    async with database.transaction() as tx:
        await tx.execute(lives.update().values(seen_at=103.0, ended_at=None))
    measured = serialize_spans([Span("own", 101.0, 103.0)])
    first = await insert_item(database, 1, spans=measured)
    await insert_turn(database, first)
    await insert_part(database, first, "done", done_at=106.0)
    async with run_recorder(database, TurnTimers(104.0)):
        await wait_until(lambda: has_all_breakdowns(database))
    assert await select_column(database, select(accounts.c.down)) == [1.0]
    assert await select_column(database, select(accounts.c.own)) == [4.5]
    assert await select_column(database, select(accounts.c.whole)) == [6.0]


async def test_a_turn_found_running_is_ours_again_since_the_process_began(database: Database):
    first = await insert_item(database, 1, "running", turn=1)
    await insert_turn(database, first, state="running", ended_at=None)
    turn_timers = TurnTimers(104.0)
    async with run_recorder(database, turn_timers):
        assert turn_timers.open(taken_item(first, attempt=2), LANE).spans(105.0) == [
            Span("own", 104.0, 105.0)
        ]


async def test_missing_seconds_are_logged_and_not_invented(
    database: Database, caplog: pytest.LogCaptureFixture
):
    first = await insert_item(database, 1, spans="[]")
    await insert_turn(database, first)
    await insert_part(database, first, "done")
    with caplog.at_level(logging.WARNING):
        async with run_recorder(database, TurnTimers(200.0)):
            await wait_until(lambda: has_all_breakdowns(database))
    assert [record.__dict__["action"] for record in caplog.records] == ["keeper.gap"]
    assert await select_column(database, select(accounts.c.own)) == [0.5]


async def test_a_database_that_cannot_be_written_loses_no_breakdown(database: Database):
    turn_timers = TurnTimers()
    first = await insert_item(database, 1)
    await insert_turn(database, first)
    await insert_part(database, first, "done")
    flaky = FlakyDatabase(database)
    turn_timers.open(taken_item(first), LANE)
    async with run_recorder(flaky, turn_timers):
        flaky.full = True
        await asyncio.sleep(0.02)
        assert not await select_column(
            database, select(turns.c.id).join(accounts, accounts.c.turn == turns.c.id)
        )
        flaky.full = False
        await wait_until(lambda: has_no_timers(turn_timers))
    assert await select_column(database, select(accounts.c.turn)) == [1]


async def test_a_process_ends_even_if_nothing_can_be_written(database: Database):
    flaky = FlakyDatabase(database)
    async with run_recorder(flaky, TurnTimers()):
        flaky.full = True
    assert await select_column(database, select(lives.c.ended_at)) == [None]
