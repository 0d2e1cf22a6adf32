"""What goes on in another replica has an account that adds up, however its chat changed hands."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import select

from bot.db import share_holds, shares
from bot.db.conversations import calls
from bot.db.conversations import turns as turn_states
from bot.db.engine import Database, open_database
from bot.db.shares import ShareHold
from bot.db.tables import accounts, inbox, lives, outbox, turns
from bot.db.usage import breakdowns
from bot.domain import InboxItem, Lane
from bot.errors import ShareLost
from bot.turns.call_ledger import CallLedger
from bot.usage.intervals import INTERVAL_ORDER, Span, column_name, serialize_spans
from bot.usage.recorder import UsageRecorder
from bot.usage.timers import TurnTimers
from tests.db.usage.test_breakdowns import insert_item, insert_part, insert_turn
from tests.support.postgresql import PostgresServer
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, hang_forever, make_reply
from tests.turns.test_call_ledger import NEW_CALL, REQUEST, load_rows

LANE = Lane(5)


class MeasuringReplica:
    """What of a replica measures turns; it holds shares and is given times by the test."""

    def __init__(self, database: Database, began_at: float) -> None:
        self.timers = TurnTimers(began_at)
        self.holds: dict[int, ShareHold] = {}
        self.recorder = UsageRecorder(
            database, self.timers, shutdown_seconds=SHUTDOWN_SECONDS, holds=self.holds
        )
        self._database = database

    async def take(self, now: float) -> None:
        async with self._database.transaction() as tx:
            kept = self.holds.values()
            [hold] = await share_holds.take_over(tx, [LANE.share], self.recorder.life, now=now, kept=kept)
            if hold != self.holds.get(hold.share):
                await self.recorder.take_over(tx, [LANE.share], now=now)
        self.holds[hold.share] = hold

    async def give(self, now: float, *, beats: bool = False) -> None:
        """Give the share away; `beats`: a heartbeat comes between the decision and its transaction."""
        hold = self.holds.pop(LANE.share)
        if beats:
            await self.beat()
        async with self._database.transaction() as tx:
            await self.recorder.give_away(tx, [LANE.share], now=now)
            await share_holds.end_holds(tx, [hold], now=now)
        self.recorder.abandon([LANE.share])

    async def beat(self) -> None:
        """Store one heartbeat, and what is known by then."""
        await self.recorder._beat()

    async def be_seen(self, now: float) -> None:
        """Have its last heartbeat been at this time."""
        async with self._database.transaction() as tx:
            await tx.execute(lives.update().where(lives.c.id == self.recorder.life).values(seen_at=now))


@pytest.fixture
async def database(postgresql_server: PostgresServer) -> AsyncIterator[Database]:
    with postgresql_server.open_database() as url:
        async with open_database(url) as database:
            yield database


@asynccontextmanager
async def without_gap(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Whatever happens in the block, no second of a turn is left unmeasured."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.message for record in caplog.records] == []


async def start_replica(database: Database, began_at: float) -> MeasuringReplica:
    replica = MeasuringReplica(database, began_at)
    await replica.recorder.start()
    return replica


async def load_account(database: Database) -> dict[str, float]:
    """The only account; it adds up to the millisecond."""
    async with database.read_transaction() as tx:
        [row] = (await tx.execute(select(accounts))).all()
        assert await breakdowns.is_all_accounted(tx)
    seconds = {column_name(kind): row._mapping[column_name(kind)] for kind in INTERVAL_ORDER}
    assert sum(seconds.values()) == pytest.approx(row.whole, abs=0.0005)
    return {kind: round(value, 3) for kind, value in seconds.items() if value}


async def insert_running(database: Database, now: float, **item: Any) -> int:
    """A turn that runs: received ten seconds ago, taken up half a second later."""
    times = {"received_at": now - 10, "taken_at": now - 9.5}
    number = await insert_item(database, 1, "running", **times, **item)
    turn = await insert_turn(
        database, number, state="running", ending=None, received_at=now - 10, began_at=now - 9, ended_at=None
    )
    async with database.transaction() as tx:
        await tx.execute(inbox.update().values(turn=turn))
    return number


async def finish(database: Database, item: int, ended_at: float, done_at: float) -> None:
    async with database.transaction() as tx:
        await tx.execute(inbox.update().values(state="done", spans=inbox.c.spans))
        await tx.execute(turns.update().values(state="ended", ending="answered", ended_at=ended_at))
    await insert_part(database, item, "done", made_at=ended_at, sent_at=done_at, done_at=done_at)


def taken_again(item: int, now: float) -> InboxItem:
    return InboxItem(item, "update", "text", LANE, 5, {}, 2, False, now - 10, now, stored_spans="[]")


@pytest.mark.parametrize("idle_seconds", [0.0, 55.0])
async def test_a_killed_replica_s_turn_was_down_from_its_last_sign_of_life_on(
    database: Database, caplog: pytest.LogCaptureFixture, idle_seconds: float
):
    now = time.time() - 20
    async with without_gap(caplog):
        killed = await start_replica(database, now - 100)
        await killed.take(now - 90)
        spans = None if idle_seconds else serialize_spans([Span("own", now - 9.5, now - 4)])
        item = await insert_running(database, now, spans=spans)
        await killed.be_seen(now - 4 - idle_seconds)
        other = await start_replica(database, now - 50)
        await other.take(now)
        other.timers.open(taken_again(item, now + 0.25), LANE).hand_over()
        await finish(database, item, ended_at=now, done_at=now)
        await other.beat()
    expected = {"intake": 0.5, "own": 5.5, "down": 4.0}
    if idle_seconds:  # nothing after the turn's beginning is known to have been done
        expected = {"intake": 0.5, "own": 0.5, "down": 9.0}
    assert await load_account(database) == expected


async def test_a_turn_given_away_in_order_was_down_only_while_nobody_held_its_chat(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    async with without_gap(caplog):
        first = await start_replica(database, now - 100)
        await first.take(now - 90)
        item = await insert_running(database, now)
        first.timers.open(InboxItem(item, "update", "text", LANE, 5, {}, 1, False, now - 10, now - 9.5), LANE)
        await first.give(now)
        assert not [*first.timers]
        second = await start_replica(database, now - 50)
        await second.take(now + 0.25)
        second.timers.open(taken_again(item, now + 0.5), LANE).hand_over()
        await finish(database, item, ended_at=now + 0.5, done_at=now + 1)
        await second.give(now + 2)
        await first.take(now + 2)  # comes back when all was delivered
        await first.beat()
        await second.beat()
    account = await load_account(database)
    assert account == {"intake": 0.5, "own": 10.25, "down": 0.25}


async def test_a_delivered_turn_is_not_forgotten_while_its_chat_is_given_away(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    async with without_gap(caplog):
        first = await start_replica(database, now - 100)
        await first.take(now - 90)
        item = await insert_running(database, now, spans=serialize_spans([Span("own", now - 9.5, now - 4)]))
        timer = first.timers.open(
            InboxItem(item, "update", "text", LANE, 5, {}, 1, False, now - 10, now - 9.5), LANE
        )
        await finish(database, item, ended_at=now - 3, done_at=now)
        timer.has_ended = True
        await first.give(now + 1, beats=True)
        second = await start_replica(database, now - 50)
        await second.take(now + 1.25)
        await second.beat()
    assert await load_account(database) == {"intake": 0.5, "own": 9.5}


async def test_a_turn_was_down_once_its_replica_had_lost_its_chat_though_it_lived_on(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    async with without_gap(caplog):
        first = await start_replica(database, now - 100)
        await first.take(now - 90)
        spans = serialize_spans([Span("own", now - 9.5, now - 7)])
        item = await insert_running(database, now, spans=spans)
        await first.be_seen(now - 5)  # its session has ended meanwhile, and another one has the lock
        second = await start_replica(database, now - 50)
        await second.take(now - 4)
        second.timers.open(taken_again(item, now - 4), LANE).hand_over()
        await finish(database, item, ended_at=now, done_at=now)
        await second.beat()
    assert await load_account(database) == {"intake": 0.5, "own": 6.5, "down": 3.0}


async def test_a_replica_that_takes_its_own_share_again_measures_on(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    async with without_gap(caplog):
        replica = await start_replica(database, now - 100)
        await replica.take(now - 90)
        item = await insert_running(database, now)
        timer = replica.timers.open(
            InboxItem(item, "update", "text", LANE, 5, {}, 1, False, now - 10, now - 9.5), LANE
        )
        await replica.be_seen(now - 9)
        await replica.take(now)  # with a new session, before anybody else had it
        timer.hand_over()
        await finish(database, item, ended_at=now, done_at=now)
        await replica.beat()
    assert await load_account(database) == {"intake": 0.5, "own": 9.5}


async def test_a_share_that_was_lost_to_another_and_back_has_both_gaps(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    async with without_gap(caplog):
        first = await start_replica(database, now - 100)
        await first.take(now - 90)
        spans = serialize_spans([Span("own", now - 9.5, now - 7)])
        item = await insert_running(database, now, spans=spans)
        await first.be_seen(now - 7)
        second = await start_replica(database, now - 50)
        await second.take(now - 6)
        await first.be_seen(now - 1)  # it lives on, without the share
        await second.be_seen(now - 4)
        async with database.transaction() as tx:
            measured = [Span("own", now - 9.5, now - 7), Span("own", now - 6, now - 4)]
            await tx.execute(inbox.update().values(spans=serialize_spans(measured)))
        await first.take(now - 3)
        first.timers.open(taken_again(item, now - 3), LANE).hand_over()
        await finish(database, item, ended_at=now, done_at=now)
        await first.beat()
    assert await load_account(database) == {"intake": 0.5, "own": 7.5, "down": 2.0}


async def test_a_delivery_that_a_killed_replica_left_is_accounted_by_the_next(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    async with without_gap(caplog):
        killed = await start_replica(database, now - 100)
        await killed.take(now - 90)
        spans = serialize_spans([Span("own", now - 9.5, now - 4)])
        item = await insert_running(database, now, spans=spans)
        await killed.be_seen(now - 3)  # between the turn's end and its delivery
        await finish(database, item, ended_at=now - 4, done_at=now + 2)
        async with database.transaction() as tx:
            await tx.execute(inbox.update().values(spans=serialize_spans([Span("own", now - 9.5, now - 3)])))
            await tx.execute(outbox.update().values(state="sending"))
        other = await start_replica(database, now - 50)
        await other.take(now)
        await other.beat()
        async with database.transaction() as tx:
            await tx.execute(outbox.update().values(state="unknown"))
        await other.beat()
    assert await load_account(database) == {"intake": 0.5, "own": 8.5, "down": 3.0}


async def test_what_another_replica_ends_is_accounted_where_its_chat_is(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    async with without_gap(caplog):
        holder = await start_replica(database, now - 100)
        await holder.take(now - 90)
        ending = await start_replica(database, now - 50)
        spans = serialize_spans([Span("own", now - 9.5, now - 8)])
        wait = {"asked_at": now - 8, "agreed_at": now, "retaken_at": now}
        item = await insert_running(database, now, spans=spans, **wait)
        async with database.transaction() as tx:
            await turn_states.fail(tx, item, reason="their access was removed", now=now)
            await tx.execute(inbox.update().values(state="done"))
        await ending.beat()
        await holder.beat()
    assert await load_account(database) == {"intake": 0.5, "own": 1.5, "approval_wait": 8.0}


async def test_the_turn_of_a_group_that_moved_is_accounted_once(
    database: Database, caplog: pytest.LogCaptureFixture
):
    now = time.time() - 20
    moved_lane = next(lane for lane in map(Lane, range(6, 99)) if lane.share != LANE.share)
    async with without_gap(caplog):
        holder = await start_replica(database, now - 100)
        await holder.take(now - 90)
        other = await start_replica(database, now - 100)
        async with database.transaction() as tx:
            [hold] = await share_holds.take_over(tx, [moved_lane.share], other.recorder.life, now=now - 90)
        other.holds[moved_lane.share] = hold
        item = await insert_running(database, now)
        timer = holder.timers.open(
            InboxItem(item, "update", "text", LANE, 5, {}, 1, False, now - 10, now - 9.5), LANE
        )
        await holder.beat()
        timer.has_ended = True
        await finish(database, item, ended_at=now, done_at=now + 1)
        async with database.transaction() as tx:
            await tx.execute(inbox.update().values(spans=serialize_spans(timer.spans(now))))
            for table in (inbox, turns):
                await tx.execute(table.update().values(lane=moved_lane.key))
        await holder.beat()
        assert not [*holder.timers]
        await other.beat()
    assert await load_account(database) == {"intake": 0.5, "own": 10.5}


async def test_a_call_for_a_chat_that_another_replica_has_by_now_is_closed_all_the_same(database: Database):
    replica = await start_replica(database, 1.0)
    other = await start_replica(database, 1.0)
    await replica.take(2.0)
    hold = replica.holds[LANE.share]
    ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS, life=replica.recorder.life)
    model = ScriptedModel([hang_forever, make_reply("Yes.")])
    with shares.work_under(hold):
        async with asyncio.TaskGroup() as tasks:
            cancelled = tasks.create_task(ledger.call_once(model, REQUEST, NEW_CALL))
            await model.was_called.wait()
            call_result = await ledger.call_once(model, REQUEST, NEW_CALL)
            await other.take(3.0)
            cancelled.cancel()
        with pytest.raises(ShareLost):
            async with database.transaction() as tx:
                await calls.close_call(tx, call_result.closing, now=4.0)
        await ledger.close(call_result.closing)
    assert [outcome for outcome, *_ in await load_rows(database)] == ["cancelled", "ok"]
