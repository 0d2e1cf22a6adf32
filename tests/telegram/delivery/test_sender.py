"""What is stored in the outbox reaches the person once, in order, whatever Telegram and the network do."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from bot.db.engine import Database
from bot.db.queues import outbox
from bot.domain import Button, Lane, Part
from bot.http_server import serve
from bot.sim.telegram.server import BotApi, Fault, Limits
from bot.telegram.delivery import sender as sender_room
from tests.support.delivery_harness import ANN, GENEROUS, PostOffice

BOLD = ({"type": "bold", "offset": 0, "length": 5},)


@pytest.fixture
def telegram() -> Limits:
    return Limits()


@pytest.fixture
async def office(database: Database, telegram: Limits) -> AsyncIterator[PostOffice]:
    api = BotApi(limits=telegram)
    api.person(7).send("hello")
    async with serve(api.app) as url:
        yield PostOffice(api, url, database)


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


async def test_a_stored_message_is_sent_once_without_previews(office: PostOffice):
    async with office.sender() as sender:
        await office.store(
            (Part("hello https://example.org", buttons=((Button("A", "a"), Button("B", "b")),)),)
        )
        sender.wake(ANN)
        await sender.rested()
    (call,) = office.made()
    assert (call.method, call.text) == ("sendMessage", "hello https://example.org")
    assert call.params.json("link_preview_options") == {"is_disabled": True}
    assert office.buttons() == [["a", "b"]]
    (row,) = await office.rows()
    assert row.state == "done"
    assert row.message_id == office.api.chat(7).from_bot[0].message_id
    assert row.made_at < row.sent_at == row.done_at < time.time()


async def test_parts_keep_their_order_and_only_the_first_notifies_and_replies(office: PostOffice):
    there = office.api.person(7).send("question").message_id
    parts = tuple(Part(f"part {n}", silent=n > 0) for n in range(4))
    async with office.sender() as sender:
        async with office.database.transaction() as tx:
            await outbox.add(tx, item=1, lane=ANN, parts=parts, reply_to=there, now=time.time())
        sender.wake(ANN)
        await sender.rested()
    messages = office.api.chat(7).from_bot
    assert [message.text for message in messages] == ["part 0", "part 1", "part 2", "part 3"]
    assert [message.silent for message in messages] == [False, True, True, True]
    assert ["reply_to_message" in message.raw for message in messages] == [True, False, False, False]


async def test_a_reply_to_a_deleted_message_arrives_without_it(office: PostOffice):
    async with office.sender() as sender:
        async with office.database.transaction() as tx:
            await outbox.add(tx, item=1, lane=ANN, parts=(Part("late"),), reply_to=99, now=time.time())
        sender.wake(ANN)
        await sender.rested()
    assert office.seen() == ["late"]


async def test_a_flood_cools_one_chat_and_its_message_arrives_afterwards(office: PostOffice):
    office.api.person(8, "Ben").send("hello")
    office.api.inject(Fault.flood(1), "sendMessage", chat_id=7)
    async with office.sender() as sender:
        await office.say(sender, "for Ann")
        await office.api.until(lambda: office.calls(7))
        await office.say(sender, "for Ben", item=2, lane=Lane(8))
        await office.api.until(lambda: office.seen(8))
        assert not office.seen()
        await sender.rested()
    assert office.seen() == ["for Ann"]
    refused, delivered = office.made()
    assert refused.left is not None
    assert delivered.arrived - refused.left > 1.0
    assert await office.states() == ["done", "done"]


async def test_what_surely_did_not_arrive_is_sent_again(office: PostOffice, failures: asyncio.Event):
    async with contextlib.AsyncExitStack() as telegram:
        office.url = await telegram.enter_async_context(serve(office.api.app))
        async with office.sender() as sender:
            await telegram.aclose()
            await office.say(sender, "hello")
            await failures.wait()
            async with serve(office.api.app, port=int(office.url.rpartition(":")[2])):
                await sender.rested()
    assert office.seen() == ["hello"]
    assert await office.states() == ["done"]


async def test_refused_formatting_is_sent_plain(office: PostOffice):
    office.api.inject(Fault.refuse("Bad Request: can't parse entities: unexpected end"), "sendMessage")
    async with office.sender() as sender:
        await office.store((Part("hello", BOLD),))
        sender.wake(ANN)
        await sender.rested()
    (message,) = office.api.chat(7).from_bot
    assert (message.text, message.entities) == ("hello", [])
    assert await office.states() == ["done"]


async def test_formatting_survives_a_flood(office: PostOffice):
    office.api.inject(Fault.flood(1), "sendMessage")
    async with office.sender() as sender:
        await office.store((Part("hello", BOLD),))
        sender.wake(ANN)
        await sender.rested()
    assert office.api.chat(7).from_bot[0].entities[0]["type"] == "bold"


async def test_a_topic_that_is_gone_is_left_out(office: PostOffice):
    lane = Lane(7, 4)
    async with office.sender() as sender:
        await office.store((Part("hello"),), lane=lane)
        sender.wake(lane)
        await sender.rested()
    first, second = office.made()
    assert first.description == "Bad Request: message thread not found"
    assert (first.params.text("message_thread_id"), second.params.text("message_thread_id")) == ("4", "")
    assert await office.states() == ["done"]


async def test_someone_who_blocked_the_bot_is_reported_as_such(office: PostOffice):
    office.api.person(7).block()
    async with office.sender() as sender:
        await office.say(sender, "hello")
        await sender.rested()
    assert office.blocked == [ANN]
    assert office.troubles == []
    assert await office.states() == ["failed"]


async def test_a_refused_message_fails_with_its_reason_and_admins_hear_of_it(office: PostOffice):
    office.api.inject(Fault.refuse("Bad Request: something new"), "sendMessage", times=2)
    async with office.sender() as sender:
        await office.say(sender, "hello")
        await office.say(sender, "a notice", item=None)
        await sender.rested()
        await office.say(sender, "the next one", item=2)
        await sender.rested()
    assert office.troubles == ["Telegram refused a message of ours: Something new"]
    assert [row.error for row in await office.rows()] == ["Something new", "Something new", None]
    assert office.seen() == ["the next one"]


async def test_a_token_that_is_refused_for_a_while_loses_nothing(office: PostOffice):
    office.api.inject(Fault.refuse("Unauthorized", 401), "sendMessage")
    async with office.sender() as sender:
        await office.say(sender, "hello")
        await sender.rested()
    assert office.seen() == ["hello"]


async def test_a_lane_that_stumbles_stops_no_other_and_goes_on(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(sender_room, "_AFTER_A_BUG", 0.1)
    office.api.person(8, "Ben").send("hello")
    office.api.inject(Fault.refuse("Bad Request: something new"), "sendMessage", chat_id=7)

    async def stumble(subject: str, text: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(office, "on_trouble", stumble)
    async with office.sender() as sender:
        await office.store((Part("refused"), Part("next")))
        sender.wake(ANN)
        await office.say(sender, "for Ben", item=2, lane=Lane(8))
        await sender.rested()
    assert (office.seen(7), office.seen(8)) == (["next"], ["for Ben"])
    assert "ZeroDivisionError" in caplog.text


async def test_lanes_of_one_chat_share_its_budget(office: PostOffice):
    for topic in (1, 2, 3, 4, 5):
        office.api.chat(7).topics.add(topic)
    async with office.sender() as sender:
        for topic in (1, 2, 3, 4, 5):
            await office.store((Part(f"in {topic}"),), item=topic, lane=Lane(7, topic))
            sender.wake(Lane(7, topic))
        await sender.rested()
    assert sorted(office.seen()) == [f"in {topic}" for topic in (1, 2, 3, 4, 5)]
    times = sorted(call.arrived for call in office.made())
    assert times[3] - times[0] >= 0.9
    assert times[4] - times[1] >= 0.9


@pytest.mark.parametrize("telegram", [Limits.none()])
async def test_a_hundred_chats_are_served_side_by_side(office: PostOffice):
    office.limits = GENEROUS
    lanes = [Lane(100 + n) for n in range(100)]
    for lane in lanes:
        office.api.person(lane.chat).send("hello")
    async with office.sender() as sender:
        for n, lane in enumerate(lanes):
            await office.store((Part(f"for {n}"), Part("and more")), item=n + 1, lane=lane)
            sender.wake(lane)
        await sender.rested()
    assert all(office.seen(lane.chat) == [f"for {n}", "and more"] for n, lane in enumerate(lanes))
    assert set(await office.states()) == {"done"}


async def test_a_lane_may_be_woken_though_the_sender_was_torn_down(office: PostOffice):
    async with office.sender(kill=True) as sender:
        await sender.rested()
    office.channel(sender, lane=Lane(8)).end()  # as a turn does that is torn down with it
