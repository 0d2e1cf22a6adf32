"""A turn shows itself while calls are lost, refused, flooded or blocked: its answer still comes, and once."""

import asyncio

import pytest

from bot.db.queues import outbox
from bot.db.queues.outbox import UNSURE_TEXT
from bot.db.transaction import Transaction
from bot.domain import Button, Part
from tests.support.delivery_harness import ANN, ONE, THREE, TWO, DeliveryHarness
from tests.support.telegram.server import BotApiFault


async def test_a_line_of_unknown_outcome_does_not_put_the_answer_in_doubt(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show_status("The model is loading; I keep trying.")
        await harness.api.wait_until(lambda: harness.list_texts())
        await harness.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["The model is loading; I keep trying.", "Paris."]


async def test_a_first_block_of_unknown_outcome_is_never_repeated_by_itself(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        channel.show(TWO)
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_texts()[1:] == [UNSURE_TEXT]
    assert await harness.load_states() == ["unknown", "done"]


async def test_a_repeated_turn_continues_with_the_message_it_had(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        harness.open_channel(sender).show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
    assert await harness.load_states() == ["open"]
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        channel.show(TWO)
        await harness.api.wait_until(lambda: "Second" in harness.list_texts()[0])
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert len(harness.list_texts()) == 1
    assert harness.list_methods().count("sendMessage") == 1


async def test_a_repeated_turn_draws_no_draft_below_the_message_it_had(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
):
    async with harness.run_sender() as sender:
        harness.open_channel(sender).show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
    has_message = outbox.has_message
    looked_up = asyncio.Event()

    async def note_look(tx: Transaction, item: int) -> bool:
        looked_up.set()
        return await has_message(tx, item)

    monkeypatch.setattr(outbox, "has_message", note_look)
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        await looked_up.wait()
        channel.show_queue_place("2 before you.")  # it is worth one
        await harness.api.wait_until(lambda: harness.api.chat(7).draft)
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    drafts = [call.text for call in harness.list_calls() if call.method == "sendMessageDraft"]
    assert drafts == ["2 before you."]


async def test_a_message_deleted_meanwhile_is_sent_as_new(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        harness.api.person(7).delete(harness.api.chat(7).bot_messages[0])
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_texts() == [THREE]


async def test_an_edit_whose_outcome_is_unknown_is_simply_repeated(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        harness.api.inject_fault(BotApiFault.accept_then_drop(), "editMessageText")
        harness.api.inject_fault(BotApiFault.server_error(), "editMessageText")
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_texts() == [THREE]
    assert harness.list_calls()[-1].description.startswith("Bad Request: message is not modified")
    assert await harness.load_states() == ["done"]


async def test_a_flood_while_showing_stills_the_chat_until_the_answer(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        flood = harness.api.inject_fault(BotApiFault.flood(1), "editMessageText")
        channel.show(TWO)
        await harness.api.wait_until(lambda: flood.hit_count)
        channel.show(TWO + "More.\n\n")
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    refused, final = harness.list_calls()[1:]
    assert final.arrived_at - refused.arrived_at >= 1.0
    assert harness.list_texts() == [THREE]


async def test_failing_snapshots_never_reach_the_answer(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.refuse("Bad Request: something new"), "editMessageText")
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        channel.show(TWO)
        await harness.api.wait_until(lambda: len(harness.list_methods()) == 2)
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_texts() == [THREE]
    assert harness.problems == []


async def test_a_refused_first_block_does_not_keep_the_answer_back(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.refuse("Bad Request: something new"), "sendMessage")
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_methods())
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_texts() == [THREE]


async def test_nothing_is_shown_to_someone_who_blocked_the_bot(harness: DeliveryHarness):
    harness.api.person(7).block()
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_methods())
        channel.show(TWO)
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_methods() == ["sendMessage", "sendMessage"]
    assert harness.blocked_lanes == [ANN]


async def test_a_reminder_that_the_person_has_deleted_is_not_sent_again_to_lose_its_buttons(
    harness: DeliveryHarness,
):
    reminder = Part("⏰ yesterday", buttons=((Button("10 min", "snooze:10m:1"),),))
    async with harness.run_sender() as sender:
        (row,) = await harness.store_parts((reminder,))
        await sender.wait_until_idle()
        harness.api.person(7).delete(harness.api.chat(7).bot_messages[0])
        async with harness.database.transaction() as tx:
            await outbox.close_buttons(tx, [row], "")
        await harness.send_text("⏰ today", item=2)
        await sender.wait_until_idle()
    assert harness.list_texts() == ["⏰ today"]
    assert await harness.load_states() == ["done", "done"]
