"""What a stop or a kill leaves in the outbox, and how the next start continues with it."""

import asyncio

import pytest

from bot.db.queues import outbox
from bot.db.queues.outbox import UNSURE_TEXT
from bot.domain import Lane, Part
from bot.telegram.delivery import sender as sender_module
from tests.support.delivery_harness import ANN, DeliveryHarness
from tests.support.flaky_database import FlakyDatabase
from tests.support.telegram.server import BotApiFault


async def test_what_was_left_is_delivered_at_the_start(harness: DeliveryHarness):
    harness.api.person(8, "Ben").send("hello")
    await harness.store_parts((Part("one"),), item=1)
    await harness.store_parts((Part("two"),), item=2, lane=Lane(8))
    async with harness.run_sender() as sender:
        await harness.api.wait_until(lambda: harness.list_texts(7) and harness.list_texts(8))
        await sender.wait_until_idle()
    assert (harness.list_texts(7), harness.list_texts(8)) == (["one"], ["two"])


@pytest.mark.parametrize("state", ["new", "sending", "open", "done", "unknown", "failed"])
async def test_a_restart_continues_from_every_state(harness: DeliveryHarness, state: str):
    (row,) = await harness.store_parts((Part("hello"),))
    async with harness.database.transaction() as tx:
        sent = None
        if state in ("sending", "open", "done"):
            await outbox.take(tx, ANN)
        if state in ("open", "done"):
            sent = harness.api.person(7).send("stands for a message").message_id
            shown_part = Part("hello") if state == "done" else Part("hel")
            await outbox.mark_shown(tx, row, message_id=sent, body=shown_part, now=1.0)
        if state == "unknown":
            await outbox.mark_unknown(tx, row, "lost", now=1.0)
        if state == "failed":
            await outbox.mark_failed(tx, row, "refused", body=Part("hello"), now=1.0)
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    expected = {
        "new": (["hello"], ["sendMessage"]),
        "sending": ([UNSURE_TEXT], ["sendMessage"]),
        "open": (["hello"], ["editMessageText", "sendMessage"]),  # it was no message of the bot's own
        "done": ([], []),
        "unknown": ([UNSURE_TEXT], ["sendMessage"]),
        "failed": ([], []),
    }
    assert (harness.list_texts(), harness.list_methods()) == expected[state]


async def test_killed_in_the_middle_of_a_send_it_says_so_after_the_restart(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.hang(after_effect=True), "sendMessage")
    async with harness.run_sender(kill=True) as sender:
        await harness.send_text("the answer")
        await harness.api.wait_until(lambda: harness.list_texts())
    assert await harness.load_states() == ["sending"]
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    assert harness.list_texts() == ["the answer", UNSURE_TEXT]


async def test_stopping_waits_for_the_call_on_its_way_and_leaves_the_rest(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.slow(0.3, after_effect=True), "sendMessage")
    async with harness.run_sender():
        await harness.store_parts(tuple(Part(f"part {n}") for n in range(6)))
        await harness.api.wait_until(lambda: harness.list_methods())
    states = await harness.load_states()
    assert states[0] == "done"
    assert "sending" not in states
    assert "new" in states


async def test_stopping_gives_up_a_call_that_is_never_answered(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sender_module, "_STOP_GRACE_SECONDS", 0.2)
    harness.api.inject_fault(BotApiFault.hang(after_effect=True), "sendMessage")
    async with harness.run_sender():
        await harness.send_text("hello")
        await harness.api.wait_until(lambda: harness.list_texts())
    assert await harness.load_states() == ["sending"]


async def test_what_comes_after_the_stop_waits_for_the_next_start(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        sender.stop()
        await harness.send_text("hello")
        harness.open_channel(sender, 2).show("A whole block.\n\n")
    assert harness.list_methods() == []
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    assert harness.list_texts() == ["hello"]


async def test_it_stops_while_the_database_cannot_be_written(harness: DeliveryHarness):
    await harness.store_parts((Part("hello"),))
    database = harness.database
    flaky = FlakyDatabase(database)
    flaky.full = True
    harness.database = flaky
    async with harness.run_sender() as sender:
        await asyncio.wait_for(flaky.refused.wait(), 60.0)
        sender.stop()
    harness.database = database
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    assert harness.list_texts() == ["hello"]
