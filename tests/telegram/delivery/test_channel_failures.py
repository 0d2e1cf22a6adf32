"""A turn shows itself while calls are lost, refused, flooded or blocked: its answer still comes, and once."""

from bot.db.queues.outbox import UNSURE
from bot.sim.telegram.server import Fault
from tests.support.delivery_harness import ANN, ONE, THREE, TWO, PostOffice


async def test_a_line_of_unknown_outcome_does_not_put_the_answer_in_doubt(office: PostOffice):
    office.api.inject(Fault.accept_then_drop(), "sendMessage")
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.status("The model is loading; I keep trying.")
        await office.api.until(lambda: office.seen())
        await office.answer(channel, "Paris.")
        await sender.rested()
    assert office.seen() == ["The model is loading; I keep trying.", "Paris."]


async def test_a_first_block_of_unknown_outcome_is_never_repeated_by_itself(office: PostOffice):
    office.api.inject(Fault.accept_then_drop(), "sendMessage")
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        channel.show(TWO)
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.seen()[1:] == [UNSURE]
    assert await office.states() == ["unknown", "done"]


async def test_a_repeated_turn_goes_on_with_the_message_it_had(office: PostOffice):
    async with office.sender() as sender:
        office.channel(sender).show(ONE)
        await office.api.until(lambda: office.seen())
    assert await office.states() == ["open"]
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        channel.show(TWO)
        await office.api.until(lambda: "Second" in office.seen()[0])
        await office.answer(channel, THREE)
        await sender.rested()
    assert len(office.seen()) == 1
    assert office.calls().count("sendMessage") == 1


async def test_a_message_deleted_meanwhile_is_sent_as_new(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        office.api.person(7).delete(office.api.chat(7).from_bot[0])
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.seen() == [THREE]


async def test_an_edit_whose_outcome_is_unknown_is_simply_repeated(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        office.api.inject(Fault.accept_then_drop(), "editMessageText")
        office.api.inject(Fault.server_error(), "editMessageText")
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.seen() == [THREE]
    assert office.made()[-1].description.startswith("Bad Request: message is not modified")
    assert await office.states() == ["done"]


async def test_a_flood_while_showing_stills_the_chat_until_the_answer(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        flood = office.api.inject(Fault.flood(1), "editMessageText")
        channel.show(TWO)
        await office.api.until(lambda: flood.hits)
        channel.show(TWO + "More.\n\n")
        await office.answer(channel, THREE)
        await sender.rested()
    refused, final = office.made()[1:]
    assert final.arrived - refused.arrived >= 1.0
    assert office.seen() == [THREE]


async def test_failing_snapshots_never_reach_the_answer(office: PostOffice):
    office.api.inject(Fault.refuse("Bad Request: something new"), "editMessageText")
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        channel.show(TWO)
        await office.api.until(lambda: len(office.calls()) == 2)
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.seen() == [THREE]
    assert office.troubles == []


async def test_a_refused_first_block_does_not_keep_the_answer_back(office: PostOffice):
    office.api.inject(Fault.refuse("Bad Request: something new"), "sendMessage")
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.calls())
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.seen() == [THREE]


async def test_nothing_is_shown_to_someone_who_blocked_the_bot(office: PostOffice):
    office.api.person(7).block()
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        channel.show(ONE)
        await office.api.until(lambda: office.calls())
        channel.show(TWO)
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.calls() == ["sendMessage", "sendMessage"]
    assert office.blocked == [ANN]
