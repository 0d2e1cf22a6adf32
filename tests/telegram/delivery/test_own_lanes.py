"""While others may have a chat, as after a pause of this process, nothing is sent or deleted there."""

import asyncio
from dataclasses import dataclass, field

import pytest

from bot.db import share_holds
from bot.db.engine import Database
from bot.db.shares import ShareHold
from bot.db.usage import process_lives
from bot.domain import Part
from bot.sim.telegram.server import BotApiCall
from bot.telegram.delivery.sender import OwnLanes
from tests.support.delivery_harness import ANN, DeliveryHarness
from tests.support.telegram.server import BotApiFault

STATUS = "The model is not answering."


@dataclass
class Confirmation:
    """Whether the chats are certainly own: for so many `answers` of yes, then no."""

    answers: float
    hold: ShareHold
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def build_own_lanes(self) -> OwnLanes:
        return OwnLanes({ANN.share: self.hold}, self.is_confirmed)

    def is_confirmed(self) -> bool:
        self.answers -= 1
        if self.answers < 0:
            self.asked.set()
        return self.answers >= 0


@pytest.fixture
async def confirmation(database: Database) -> Confirmation:
    async with database.transaction() as tx:
        life = await process_lives.begin(tx, began_at=1.0)
        [hold] = await share_holds.take_over(tx, [ANN.share], life, now=1.0)
    return Confirmation(float("inf"), hold)


async def test_the_status_line_of_a_turn_that_is_abandoned_stays(
    harness: DeliveryHarness, confirmation: Confirmation
):
    """The replica that goes on with the turn has made its answer of that message."""
    async with harness.run_sender(own_lanes=confirmation.build_own_lanes()) as sender:
        channel = harness.open_channel(sender)
        channel.show_status(STATUS)
        await harness.api.wait_until(lambda: harness.list_texts())
        confirmation.answers = 0
        channel.end()
        await confirmation.asked.wait()
        await sender.abandon([ANN.share])
    assert harness.list_methods() == ["sendMessage"]


async def test_a_message_is_not_sent_that_was_stored_as_being_sent_before_a_pause(
    harness: DeliveryHarness, confirmation: Confirmation
):
    confirmation.answers = 1
    async with harness.run_sender(own_lanes=confirmation.build_own_lanes()) as sender:
        harness.open_channel(sender).show_status(STATUS)
        await confirmation.asked.wait()
    assert harness.list_methods() == []
    assert await harness.load_states() == ["new"]


async def test_a_text_that_is_refused_before_a_pause_is_not_sent_without_its_formatting(
    harness: DeliveryHarness, confirmation: Confirmation
):
    def pause(call: BotApiCall) -> bool:
        confirmation.answers = 0
        return True

    refusal = BotApiFault.refuse("Bad Request: can't parse entities")
    harness.api.inject_fault(refusal, "sendMessage", when=pause)
    async with harness.run_sender(own_lanes=confirmation.build_own_lanes()):
        await harness.store_parts((Part("bold", ({"type": "bold", "offset": 0, "length": 4},)),))
        await confirmation.asked.wait()
    assert harness.list_methods() == ["sendMessage"]
    assert await harness.load_states() == ["new"]
