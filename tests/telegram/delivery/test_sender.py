"""What is stored in the outbox reaches the person once, in order, whatever Telegram and the network do."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from bot.db.engine import Database
from bot.db.queues import outbox
from bot.domain import Button, Lane, Part
from bot.http_server import serve
from bot.sim.telegram.server import FloodLimits
from bot.telegram.delivery import sender as sender_module
from bot.telegram.delivery.rate_budget import CallRate
from tests.support.delivery_harness import ANN, GENEROUS_LIMITS, DeliveryHarness
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

BOLD = ({"type": "bold", "offset": 0, "length": 5},)


@pytest.fixture
def telegram() -> FloodLimits:
    return FloodLimits()


@pytest.fixture
async def harness(
    patience: None, database: Database, telegram: FloodLimits
) -> AsyncIterator[DeliveryHarness]:
    api = ScriptedBotApi(limits=telegram)
    api.person(7).send("hello")
    async with serve(api.app) as url:
        yield DeliveryHarness(api, url, database)


@pytest.fixture
def failures(caplog: pytest.LogCaptureFixture) -> Iterator[asyncio.Event]:
    """Set when the sender says that it will try a call again."""
    seen = asyncio.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.set()

    logger = logging.getLogger("bot.telegram.delivery.lane_worker")
    caplog.set_level(logging.INFO, logger.name)
    watch = Watch()
    logger.addHandler(watch)
    yield seen
    logger.removeHandler(watch)


async def test_a_stored_message_is_sent_once_without_previews(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        await harness.store_parts(
            (Part("hello https://example.org", buttons=((Button("A", "a"), Button("B", "b")),)),)
        )
        await sender.wait_until_idle()
    (call,) = harness.list_calls()
    assert (call.method, call.text) == ("sendMessage", "hello https://example.org")
    assert call.params.json("link_preview_options") == {"is_disabled": True}
    assert harness.list_button_data() == [["a", "b"]]
    (row,) = await harness.load_rows()
    assert row.state == "done"
    assert row.message_id == harness.api.chat(7).bot_messages[0].message_id
    assert row.made_at < row.sent_at == row.done_at < time.time()


async def test_parts_keep_their_order_and_only_the_first_notifies_and_replies(harness: DeliveryHarness):
    there = harness.api.person(7).send("question").message_id
    parts = tuple(Part(f"part {n}", silent=n > 0) for n in range(4))
    async with harness.run_sender() as sender:
        async with harness.database.transaction() as tx:
            await outbox.add(tx, item=1, lane=ANN, parts=parts, reply_to=there, now=time.time())
        await sender.wait_until_idle()
    messages = harness.api.chat(7).bot_messages
    assert [message.text for message in messages] == ["part 0", "part 1", "part 2", "part 3"]
    assert [message.silent for message in messages] == [False, True, True, True]
    assert ["reply_to_message" in message.raw for message in messages] == [True, False, False, False]


async def test_a_reply_to_a_deleted_message_arrives_without_it(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        async with harness.database.transaction() as tx:
            await outbox.add(tx, item=1, lane=ANN, parts=(Part("late"),), reply_to=99, now=time.time())
        await sender.wait_until_idle()
    assert harness.list_texts() == ["late"]


async def test_a_flood_cools_one_chat(harness: DeliveryHarness):
    harness.api.person(8, "Ben").send("hello")
    harness.api.inject_fault(BotApiFault.flood(3600), "sendMessage", chat_id=7)
    async with harness.run_sender():
        await harness.send_text("for Ann")
        await harness.api.wait_until(lambda: harness.list_methods(7))
        await harness.send_text("for Ben", item=2, lane=Lane(8))
        await harness.api.wait_until(lambda: harness.list_texts(8))
    assert not harness.list_texts()
    assert await harness.load_states() == ["new", "done"]


async def test_what_surely_did_not_arrive_is_sent_again(harness: DeliveryHarness, failures: asyncio.Event):
    with socket.socket() as reserved:  # nobody else has the port while no server has it
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        await fail_and_deliver(harness, failures, reserved.getsockname()[1])
    assert harness.list_texts() == ["hello"]
    assert await harness.load_states() == ["done"]


async def fail_and_deliver(harness: DeliveryHarness, failures: asyncio.Event, port: int) -> None:
    """Send a message while Telegram, at this port, is away for a moment."""
    async with contextlib.AsyncExitStack() as telegram:
        harness.url = await telegram.enter_async_context(serve(harness.api.app, port=port))
        async with harness.run_sender() as sender:
            await telegram.aclose()
            await harness.send_text("hello")
            await failures.wait()
            async with serve(harness.api.app, port=port):
                await sender.wait_until_idle()


async def test_refused_formatting_is_sent_plain(harness: DeliveryHarness):
    harness.api.inject_fault(
        BotApiFault.refuse("Bad Request: can't parse entities: unexpected end"), "sendMessage"
    )
    async with harness.run_sender() as sender:
        await harness.store_parts((Part("hello", BOLD),))
        await sender.wait_until_idle()
    (message,) = harness.api.chat(7).bot_messages
    assert (message.text, message.entities) == ("hello", [])
    assert await harness.load_states() == ["done"]


async def test_a_message_arrives_after_a_flood_with_its_formatting(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.flood(1), "sendMessage")
    async with harness.run_sender() as sender:
        await harness.store_parts((Part("hello", BOLD),))
        await sender.wait_until_idle()
    assert harness.api.chat(7).bot_messages[0].entities[0]["type"] == "bold"
    refused, delivered = harness.list_calls()
    assert refused.answered_at is not None
    assert delivered.arrived_at - refused.answered_at > 1.0
    assert await harness.load_states() == ["done"]


async def test_a_topic_that_is_gone_is_left_out(harness: DeliveryHarness):
    lane = Lane(7, 4)
    async with harness.run_sender() as sender:
        await harness.store_parts((Part("hello"),), lane=lane)
        await sender.wait_until_idle()
    first, second = harness.list_calls()
    assert first.description == "Bad Request: message thread not found"
    assert (first.params.text("message_thread_id"), second.params.text("message_thread_id")) == ("4", "")
    assert await harness.load_states() == ["done"]


async def test_someone_who_blocked_the_bot_is_reported_as_such(harness: DeliveryHarness):
    harness.api.person(7).block()
    async with harness.run_sender() as sender:
        await harness.send_text("hello")
        await sender.wait_until_idle()
    assert harness.blocked_lanes == [ANN]
    assert harness.problems == []
    assert await harness.load_states() == ["failed"]


async def test_a_refused_message_fails_with_its_reason_and_admins_are_notified(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.refuse("Bad Request: something new"), "sendMessage", times=2)
    async with harness.run_sender() as sender:
        await harness.send_text("hello")
        await harness.send_text("a notice", item=None)
        await sender.wait_until_idle()
        await harness.send_text("the next one", item=2)
        await sender.wait_until_idle()
    assert harness.problems == ["Telegram refused one of my messages: Something new"]
    assert [row.error for row in await harness.load_rows()] == ["Something new", "Something new", None]
    assert harness.list_texts() == ["the next one"]


async def test_a_token_that_is_refused_for_a_while_loses_nothing(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.refuse("Unauthorized", 401), "sendMessage")
    async with harness.run_sender() as sender:
        await harness.send_text("hello")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["hello"]


async def test_a_lane_that_crashes_stops_no_other_and_continues(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(sender_module, "_CRASH_PAUSE_SECONDS", 0.1)
    harness.api.person(8, "Ben").send("hello")
    harness.api.inject_fault(BotApiFault.refuse("Bad Request: something new"), "sendMessage", chat_id=7)

    async def stumble(subject: str, text: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(harness, "on_trouble", stumble)
    async with harness.run_sender() as sender:
        await harness.store_parts((Part("refused"), Part("next")))
        await harness.send_text("for Ben", item=2, lane=Lane(8))
        await sender.wait_until_idle()
    assert (harness.list_texts(7), harness.list_texts(8)) == (["next"], ["for Ben"])
    assert "ZeroDivisionError" in caplog.text


async def test_lanes_of_one_chat_share_its_budget(harness: DeliveryHarness):
    ann = harness.api.person(7)
    topics = [ann.create_topic(f"Topic {number}").thread_id for number in range(5)]
    harness.limits = replace(harness.limits, private=CallRate(3600.0, 3))
    async with harness.run_sender():
        for topic in topics:
            await harness.store_parts((Part(f"in {topic}"),), item=topic, lane=Lane(7, topic))
        await harness.api.wait_until(lambda: len(harness.list_texts()) == 3)
    assert len(harness.list_calls()) == 3
    assert sorted(await harness.load_states()) == ["done"] * 3 + ["new"] * 2


@pytest.mark.parametrize("telegram", [FloodLimits.unlimited()])
async def test_many_chats_are_served_side_by_side(harness: DeliveryHarness):
    harness.limits = GENEROUS_LIMITS
    lanes = [Lane(100 + n) for n in range(40)]
    for lane in lanes:
        harness.api.person(lane.chat).send("hello")
    async with harness.run_sender() as sender:
        for n, lane in enumerate(lanes):
            await harness.store_parts((Part(f"for {n}"), Part("and more")), item=n + 1, lane=lane)
        await sender.wait_until_idle()
    assert all(harness.list_texts(lane.chat) == [f"for {n}", "and more"] for n, lane in enumerate(lanes))
    assert set(await harness.load_states()) == {"done"}


async def test_a_lane_may_be_woken_though_the_sender_was_torn_down(harness: DeliveryHarness):
    async with harness.run_sender(kill=True) as sender:
        await sender.wait_until_idle()
    harness.open_channel(sender, lane=Lane(8)).end()  # as a turn does that is torn down with it
