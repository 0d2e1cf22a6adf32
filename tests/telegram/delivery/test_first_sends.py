"""The first message of an answer is stored as being sent, and sent at once, while the lane is kept for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from bot.db import share_holds
from bot.db.engine import Database
from bot.db.queues.outbox import UNSURE_TEXT
from bot.db.usage import process_lives
from bot.domain import Lane, Part
from bot.errors import StoreUnavailable
from bot.telegram.delivery import progress as progress_module
from bot.telegram.delivery.channel import ChatChannel
from bot.telegram.delivery.rate_budget import CallRate
from bot.telegram.delivery.sender import OwnLanes, Sender
from tests.support.delivery_harness import ANN, ONE, DeliveryHarness
from tests.support.group_chat import open_group
from tests.support.telegram.server import BotApiFault

GROUP = Lane(-500)
ANSWER = (Part("the answer"),)


@pytest.fixture(autouse=True)
def quiet_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no turn announce itself."""
    monkeypatch.setattr(progress_module, "_ANNOUNCE_AFTER_SECONDS", 300.0)


def can_reserve(channel: ChatChannel) -> bool:
    with channel.reserve_send() as first_send:
        return first_send is not None


async def begin_turn(
    harness: DeliveryHarness, sender: Sender, item: int = 1, lane: Lane = ANN
) -> ChatChannel:
    """Begin a turn, and wait until its lane has nothing to do."""
    channel = harness.open_channel(sender, item, lane)
    channel.begin()
    while not can_reserve(channel):  # noqa: ASYNC110  # no event says so
        await asyncio.sleep(0.001)
    return channel


@asynccontextmanager
async def running_turn(harness: DeliveryHarness, *, kill: bool = False) -> AsyncIterator[ChatChannel]:
    async with harness.run_sender(kill=kill) as sender:
        yield await begin_turn(harness, sender)


async def test_the_lane_makes_no_other_call_until_the_turn_has_ended(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with channel.reserve_send() as first_send:
            await harness.store_answer(ANSWER, first_send)
            await harness.send_text("what a command says", item=None)
            channel.show(ONE)
        assert await harness.load_states() == ["sending", "new"]
        assert harness.list_methods() == []
        channel.end()
        await sender.wait_until_idle()
    assert harness.list_texts() == ["the answer", "what a command says"]
    assert await harness.load_states() == ["done", "done"]


async def test_what_was_stored_before_comes_first(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with channel.reserve_send() as first_send:
            await harness.store_parts((Part("what a command says"),), item=None)
            await harness.store_answer(ANSWER, first_send)
        assert await harness.load_states() == ["new", "new"]
        channel.end()
        await sender.wait_until_idle()
    assert harness.list_texts() == ["what a command says", "the answer"]


async def test_the_parts_that_follow_keep_their_order(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with channel.reserve_send() as first_send:
            await harness.store_answer((Part("one"), Part("two"), Part("three")), first_send)
        assert await harness.load_states() == ["sending", "new", "new"]
        channel.end()
        await sender.wait_until_idle()
    assert harness.list_texts() == ["one", "two", "three"]


async def test_a_group_that_moved_meanwhile_is_answered_where_it_is(harness: DeliveryHarness):
    harness.supergroups[GROUP.chat] = -1000000000500
    team = open_group(harness.api, harness.api.person(7), chat=GROUP.chat, is_basic=True)
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender, lane=GROUP)
        with channel.reserve_send() as first_send:
            await harness.store_answer(ANSWER, first_send, lane=GROUP)
            team.group.migrate(-1000000000500)
        channel.end()
        await sender.wait_until_idle()
    assert (team.texts(), harness.list_texts(-1000000000500)) == ([], ["the answer"])


async def test_the_end_of_a_turn_without_a_word_keeps_nothing(harness: DeliveryHarness):
    harness.limits = replace(harness.limits, private=CallRate(300.0, 1))
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with channel.reserve_send() as first_send:
            await harness.store_answer((), first_send)
        channel.end()
        await sender.wait_until_idle()
        await harness.send_text("with the only call there is")
        await harness.api.wait_until(lambda: harness.list_texts())
    assert harness.list_texts() == ["with the only call there is"]


async def test_it_is_reserved_only_where_nothing_is_to_be_waited_for(harness: DeliveryHarness):
    harness.limits = replace(harness.limits, private=CallRate(300.0, 3))
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with channel.reserve_send():
            assert not can_reserve(channel)
        await harness.finish_turn(channel, "first")
        assert not can_reserve(channel)  # the turn is over
        await sender.wait_until_idle()
        shown = harness.open_channel(sender, item=2)
        shown.show(ONE)
        await harness.api.wait_until(lambda: len(harness.list_texts()) == 2)
        assert not can_reserve(shown)  # it has a message
        shown.end()
        await sender.wait_until_idle()
        last = await begin_turn(harness, sender, item=3)
        await harness.finish_turn(last, "third")
        await sender.wait_until_idle()
        spent = harness.open_channel(sender, item=4)
        spent.begin()
        await asyncio.sleep(0.05)
        assert not can_reserve(spent)
        spent.end()


async def test_an_answer_of_a_flooded_chat_waits(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.flood(1), "sendMessage")
    async with running_turn(harness) as channel:
        await harness.finish_turn(channel, "the answer")
        await harness.api.wait_until(lambda: harness.list_texts())
    assert harness.list_methods() == ["sendMessage", "sendMessage"]
    assert harness.list_texts() == ["the answer"]
    assert await harness.load_states() == ["done"]


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_commit_of_unknown_outcome_is_repeated_and_sent_once(
    harness: DeliveryHarness, is_committed: bool
):
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with suppress(StoreUnavailable), channel.reserve_send() as first_send:
            await harness.store_answer(ANSWER, first_send)
            if not is_committed:
                async with harness.database.transaction() as tx:
                    await tx.exec_driver_sql("DELETE FROM outbox")
            raise StoreUnavailable("the answer to the commit was lost")
        with channel.reserve_send() as first_send:
            await harness.store_answer(ANSWER, first_send)
        channel.end()
        await sender.wait_until_idle()
    assert harness.list_methods() == ["sendMessage"]
    assert await harness.load_states() == ["done"]


async def test_a_turn_that_is_cut_after_its_commit_leaves_its_answer_to_be_sent(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with suppress(asyncio.CancelledError), channel.reserve_send() as first_send:
            await harness.store_answer(ANSWER, first_send)
            raise asyncio.CancelledError
        channel.end()
        await sender.wait_until_idle()
    assert harness.list_texts() == ["the answer"]
    assert await harness.load_states() == ["done"]


async def test_killed_before_the_call_left_it_says_so_once(harness: DeliveryHarness):
    async with running_turn(harness, kill=True) as channel:
        with channel.reserve_send() as first_send:
            await harness.store_answer(ANSWER, first_send)
    assert await harness.load_states() == ["sending"]
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    assert harness.list_texts() == [UNSURE_TEXT]


async def test_a_stop_waits_for_the_turn_that_ends(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = await begin_turn(harness, sender)
        with channel.reserve_send() as first_send:
            sender.stop()
            await harness.store_answer(ANSWER, first_send)
        channel.end()
    assert harness.list_texts() == ["the answer"]
    assert await harness.load_states() == ["done"]


async def test_stopped_while_others_may_have_the_chat_it_is_released(
    harness: DeliveryHarness, database: Database
):
    is_confirmed = True
    async with database.transaction() as tx:
        life = await process_lives.begin(tx, began_at=1.0)
        holds = await share_holds.take_over(tx, [ANN.share], life, now=1.0)
    own_lanes = OwnLanes({ANN.share: holds[0]}, lambda: is_confirmed)
    async with harness.run_sender(own_lanes=own_lanes) as sender:
        channel = await begin_turn(harness, sender)
        with channel.reserve_send() as first_send:
            await harness.store_answer(ANSWER, first_send)
        is_confirmed = False
        channel.end()
        assert not can_reserve(harness.open_channel(sender, item=2))
    assert harness.list_methods() == []
    assert await harness.load_states() == ["new"]
