"""The time of delivery counts as Telegram's, and only for the turns of its own lane."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from bot.db.engine import Database
from bot.db.transaction import Transaction
from bot.domain import InboxItem, Lane, Part
from bot.sim.telegram.server import BotApiCall, FloodLimits
from bot.telegram.delivery.sender import Sender
from bot.usage.timers import TurnTimer, TurnTimers
from tests.support.delivery_harness import ANN, DeliveryHarness
from tests.support.telegram.server import BotApiFault, ScriptedBotApi


@pytest.fixture
async def harness(patience: None, database: Database) -> AsyncIterator[DeliveryHarness]:
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    api.person(ANN.chat, "Ann")
    async with api.serve_on_loopback() as url:
        yield DeliveryHarness(api, url, database)


def open_turn_timer(sender: Sender, item: int = 1, lane: Lane = ANN) -> TurnTimer:
    """Open the timer of a turn whose answer is about to be stored."""
    turn_timers: TurnTimers = sender._turn_timers
    claimed = InboxItem(item, "update", "text", lane, 7, {}, 1, False, 0.0, turn_timers.began_at)
    return turn_timers.open(claimed, lane)


def measure_seconds(watch: TurnTimer, kind: str) -> float:
    return sum(span.end - span.begin for span in watch.spans(0.0) if span.kind == kind)


async def wait_until_measured(harness: DeliveryHarness, sender: Sender, watch: TurnTimer) -> None:
    await harness.store_parts((Part("hello"),))
    watch.has_ended = True
    await sender.wait_until_idle()


async def test_a_slow_answer_of_telegram_is_telegrams(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.slow(0.1), "sendMessage")
    async with harness.run_sender() as sender:
        watch = open_turn_timer(sender)
        await wait_until_measured(harness, sender, watch)
    assert measure_seconds(watch, "Telegram") >= 0.1
    assert measure_seconds(watch, "back-off") == 0


async def test_a_flood_is_telegrams_wish_and_no_back_off_of_ours(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.flood(1), "sendMessage")
    async with harness.run_sender() as sender:
        watch = open_turn_timer(sender)
        await wait_until_measured(harness, sender, watch)
    assert measure_seconds(watch, "Telegram") >= 1
    assert measure_seconds(watch, "back-off") == 0


async def test_another_lane_is_not_charged(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.slow(0.05), "sendMessage")
    async with harness.run_sender() as sender:
        watch = open_turn_timer(sender)
        other_timer = open_turn_timer(sender, 2, Lane(8))
        await wait_until_measured(harness, sender, watch)
    assert [span.kind for span in other_timer.spans(0.0)] == ["own"]


async def test_an_outcome_that_is_not_committed_yet_is_measured_on(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        watch = open_turn_timer(sender)
        is_held = asyncio.Event()
        can_write = asyncio.Event()

        async def wait(tx: Transaction) -> None:
            is_held.set()
            await can_write.wait()

        def hold_writes(call: BotApiCall) -> bool:
            sender._write_queue.enqueue(wait)
            return False

        harness.api.inject_fault(BotApiFault(), "sendMessage", when=hold_writes)
        await harness.store_parts((Part("hello"),))
        watch.has_ended = True
        await is_held.wait()
        while not sender._write_queue._pending:  # noqa: ASYNC110  # the outcome; no event says so
            await asyncio.sleep(0.01)
        now = time.time()
        last = sender._turn_timers.spans(watch, now)[-1]
        can_write.set()
        await sender.wait_until_idle()
    assert (last.kind, last.end) == ("own", now)


async def test_what_is_left_when_the_sender_stops_is_measured_on(harness: DeliveryHarness):
    flood = harness.api.inject_fault(BotApiFault.flood(3), "sendMessage")
    async with harness.run_sender() as sender:
        watch = open_turn_timer(sender)
        await harness.store_parts((Part("hello"),))
        watch.has_ended = True
        await harness.api.wait_until(lambda: flood.hit_count)
        sender.stop()
    now = time.time()
    last = sender._turn_timers.spans(watch, now)[-1]
    assert (last.kind, last.end) == ("own", now)
