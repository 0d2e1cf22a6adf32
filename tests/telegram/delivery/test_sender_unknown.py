"""A send whose outcome nobody knows: it is said, and repeated only where that is asked for or does no harm."""

import time
from dataclasses import replace

from bot.db.queues import outbox
from bot.db.queues.outbox import SENT_AGAIN, UNSURE
from bot.domain import Lane
from bot.sim.telegram.server import Fault
from tests.support.delivery_harness import ANN, PostOffice


async def test_an_unknown_outcome_is_said_and_sent_again_only_when_asked(office: PostOffice):
    office.api.inject(Fault.accept_then_drop(), "sendMessage")
    async with office.sender() as sender:
        row = await office.say(sender, "the answer")
        await sender.rested()
        assert office.seen() == ["the answer", UNSURE]
        assert office.buttons()[1] == [f"again:{row}"]
        for asked in (True, False):
            async with office.database.transaction() as tx:
                assert await outbox.send_again(tx, row, lane=ANN, now=time.time()) is asked
            sender.wake(ANN)
            await sender.rested()
    assert office.seen() == ["the answer", SENT_AGAIN, "the answer"]
    assert office.buttons() == [[], [], []]
    assert await office.states() == ["unknown", "done", "done"]


async def test_another_chat_cannot_ask_for_somebody_elses_answer(office: PostOffice):
    office.api.inject(Fault.accept_then_drop(), "sendMessage")
    async with office.sender() as sender:
        row = await office.say(sender, "private")
        await sender.rested()
        async with office.database.transaction() as tx:
            assert not await outbox.send_again(tx, row, lane=Lane(8), now=time.time())


async def test_a_copy_of_unknown_outcome_is_said_too(office: PostOffice):
    office.api.inject(
        Fault.accept_then_drop(), "sendMessage", when=lambda call: call.text == "the answer", times=2
    )
    async with office.sender() as sender:
        row = await office.say(sender, "the answer")
        await sender.rested()
        async with office.database.transaction() as tx:
            await outbox.send_again(tx, row, lane=ANN, now=time.time())
        sender.wake(ANN)
        await sender.rested()
    assert office.seen() == ["the answer", SENT_AGAIN, "the answer", UNSURE]


async def test_a_question_rather_comes_twice_than_never(office: PostOffice):
    """Without it nobody would hear of the answer; it is never asked about itself."""
    office.api.inject(Fault.server_error(), "sendMessage", times=2)
    office.api.inject(Fault.server_error(takes_effect=True), "sendMessage")
    async with office.sender() as sender:
        row = await office.say(sender, "the answer")
        await sender.rested()
    assert office.seen() == [UNSURE, UNSURE]
    assert office.buttons() == [[f"again:{row}"]] * 2
    assert await office.states() == ["unknown", "done"]


async def test_a_notice_of_unknown_outcome_is_left_alone(office: PostOffice):
    office.api.inject(Fault.drop(), "sendMessage")
    async with office.sender() as sender:
        await office.say(sender, "a notice", item=None)
        await sender.rested()
    assert office.seen() == []
    assert await office.states() == ["unknown"]


async def test_an_answer_that_cannot_be_read_is_an_unknown_outcome(office: PostOffice):
    garbled = replace(Fault.server_error(takes_effect=True), status=200)
    office.api.inject(garbled, "sendMessage")
    async with office.sender() as sender:
        await office.say(sender, "the answer")
        await sender.rested()
    assert office.seen() == ["the answer", UNSURE]
