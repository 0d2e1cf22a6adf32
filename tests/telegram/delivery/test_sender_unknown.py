"""A send with unknown outcome is reported, and repeated only if that is asked for or does no harm."""

import time
from dataclasses import replace
from functools import partial

from bot.db.queues import outbox
from bot.db.queues.outbox import SENT_AGAIN_TEXT, UNSURE_TEXT
from bot.domain import Lane, Part
from tests.support.delivery_harness import ANN, GENEROUS_LIMITS, DeliveryHarness
from tests.support.telegram.faults import FaultInjection
from tests.support.telegram.server import BotApiFault


async def test_an_unknown_outcome_is_reported_and_sent_again_only_on_request(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
    async with harness.run_sender() as sender:
        row = await harness.send_text("the answer")
        await sender.wait_until_idle()
        assert harness.list_texts() == ["the answer", UNSURE_TEXT]
        assert harness.list_button_data()[1] == [f"again:{row}"]
        for is_requested in (True, False):
            async with harness.database.transaction() as tx:
                assert await outbox.send_again(tx, row, lane=ANN, now=time.time()) is is_requested
            await sender.wait_until_idle()
    assert harness.list_texts() == ["the answer", SENT_AGAIN_TEXT, "the answer"]
    assert harness.list_button_data() == [[], [], []]
    assert await harness.load_states() == ["unknown", "done", "done"]


async def test_another_chat_cannot_ask_for_somebody_elses_answer(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
    async with harness.run_sender() as sender:
        row = await harness.send_text("private")
        await sender.wait_until_idle()
        async with harness.database.transaction() as tx:
            assert not await outbox.send_again(tx, row, lane=Lane(8), now=time.time())


async def test_a_copy_of_unknown_outcome_is_reported_too(harness: DeliveryHarness):
    harness.api.inject_fault(
        BotApiFault.accept_then_drop(), "sendMessage", when=lambda call: call.text == "the answer", times=2
    )
    async with harness.run_sender() as sender:
        row = await harness.send_text("the answer")
        await sender.wait_until_idle()
        async with harness.database.transaction() as tx:
            await outbox.send_again(tx, row, lane=ANN, now=time.time())
        await sender.wait_until_idle()
    assert harness.list_texts() == ["the answer", SENT_AGAIN_TEXT, "the answer", UNSURE_TEXT]


async def test_a_question_rather_comes_twice_than_never(harness: DeliveryHarness):
    """Without it nobody would know of the answer; it never asks about itself."""
    harness.api.inject_fault(BotApiFault.server_error(), "sendMessage", times=2)
    harness.api.inject_fault(BotApiFault.server_error(takes_effect=True), "sendMessage")
    async with harness.run_sender() as sender:
        row = await harness.send_text("the answer")
        await harness.api.wait_until(lambda: harness.list_methods().count("sendMessage") == 2)
        await harness.api.wait_until(lambda: harness.list_texts())
        await sender.wait_until_idle()
    assert harness.list_texts() == [UNSURE_TEXT, UNSURE_TEXT]
    assert harness.list_button_data() == [[f"again:{row}"]] * 2
    assert await harness.load_states() == ["unknown", "done"]


async def test_a_question_is_kept_until_telegram_answers(harness: DeliveryHarness):
    """Whatever is stored for the chat tries it again at once, and follows it."""
    harness.limits = GENEROUS_LIMITS
    outage = harness.api.inject_fault(BotApiFault.drop(), "sendMessage", times=None)
    async with harness.run_sender() as sender:
        row = await harness.send_text("the answer")
        for tries in range(2, 50):
            await harness.api.wait_until(partial(is_hit, outage, tries))
        outage.lift()
        await harness.send_text("the next answer", item=2)
        await sender.wait_until_idle()
    assert harness.list_texts() == [UNSURE_TEXT, "the next answer"]
    assert harness.list_button_data()[0] == [f"again:{row}"]
    assert await harness.load_states() == ["unknown", "done", "done"]


async def test_a_question_comes_before_what_was_stored_behind_its_answer(harness: DeliveryHarness):
    """It speaks of the answer above, which must not be another one."""
    harness.api.inject_fault(BotApiFault.drop(), "sendMessage")
    await harness.store_parts((Part("the answer"),))
    await harness.store_parts((Part("the next answer"),), item=2)
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    assert harness.list_texts() == [UNSURE_TEXT, "the next answer"]


async def test_a_turn_that_has_something_to_show_waits_for_no_question(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.drop(), "sendMessage", times=2)
    async with harness.run_sender() as sender:
        await harness.send_text("the answer")
        await harness.api.wait_until(lambda: harness.list_methods().count("sendMessage") == 2)
        channel = harness.open_channel(sender, item=2)
        channel.show("the next answer")
        await harness.api.wait_until(lambda: len(harness.list_texts()) == 2)
        channel.end()
        await sender.wait_until_idle()
    assert harness.list_texts() == [UNSURE_TEXT, "the next"]


async def test_stopping_waits_for_no_question(harness: DeliveryHarness):
    outage = harness.api.inject_fault(BotApiFault.drop(), "sendMessage", times=None)
    async with harness.run_sender() as sender:
        await harness.send_text("the answer")
        await harness.api.wait_until(partial(is_hit, outage, 2))
    outage.lift()
    assert await harness.load_states() == ["unknown", "new"]
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    assert harness.list_texts() == [UNSURE_TEXT]


def is_hit(fault: FaultInjection, count: int) -> bool:
    return fault.hit_count >= count


async def test_a_notice_of_unknown_outcome_is_left_alone(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.drop(), "sendMessage")
    async with harness.run_sender() as sender:
        await harness.send_text("a notice", item=None)
        await sender.wait_until_idle()
    assert harness.list_texts() == []
    assert await harness.load_states() == ["unknown"]


async def test_an_answer_that_cannot_be_read_is_an_unknown_outcome(harness: DeliveryHarness):
    garbled = replace(BotApiFault.server_error(takes_effect=True), status=200)
    harness.api.inject_fault(garbled, "sendMessage")
    async with harness.run_sender() as sender:
        await harness.send_text("the answer")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["the answer", UNSURE_TEXT]
