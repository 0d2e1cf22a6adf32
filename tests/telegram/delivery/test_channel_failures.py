"""A turn shows itself while calls are lost, refused, flooded or blocked: its answer still comes, and once."""

from bot.db.queues.outbox import UNSURE_TEXT
from bot.sim.telegram.server import BotApiFault
from tests.support.delivery_harness import ANN, ONE, THREE, TWO, DeliveryHarness


async def test_a_line_of_unknown_outcome_does_not_put_the_answer_in_doubt(office: DeliveryHarness):
    office.api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show_status("The model is loading; I keep trying.")
        await office.api.wait_until(lambda: office.list_texts())
        await office.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert office.list_texts() == ["The model is loading; I keep trying.", "Paris."]


async def test_a_first_block_of_unknown_outcome_is_never_repeated_by_itself(office: DeliveryHarness):
    office.api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        channel.show(TWO)
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_texts()[1:] == [UNSURE_TEXT]
    assert await office.load_states() == ["unknown", "done"]


async def test_a_repeated_turn_goes_on_with_the_message_it_had(office: DeliveryHarness):
    async with office.run_sender() as sender:
        office.open_channel(sender).show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
    assert await office.load_states() == ["open"]
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        channel.show(TWO)
        await office.api.wait_until(lambda: "Second" in office.list_texts()[0])
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert len(office.list_texts()) == 1
    assert office.list_methods().count("sendMessage") == 1


async def test_a_message_deleted_meanwhile_is_sent_as_new(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        office.api.person(7).delete(office.api.chat(7).bot_messages[0])
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_texts() == [THREE]


async def test_an_edit_whose_outcome_is_unknown_is_simply_repeated(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        office.api.inject_fault(BotApiFault.accept_then_drop(), "editMessageText")
        office.api.inject_fault(BotApiFault.server_error(), "editMessageText")
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_texts() == [THREE]
    assert office.list_calls()[-1].description.startswith("Bad Request: message is not modified")
    assert await office.load_states() == ["done"]


async def test_a_flood_while_showing_stills_the_chat_until_the_answer(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        flood = office.api.inject_fault(BotApiFault.flood(1), "editMessageText")
        channel.show(TWO)
        await office.api.wait_until(lambda: flood.hit_count)
        channel.show(TWO + "More.\n\n")
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    refused, final = office.list_calls()[1:]
    assert final.arrived_at - refused.arrived_at >= 1.0
    assert office.list_texts() == [THREE]


async def test_failing_snapshots_never_reach_the_answer(office: DeliveryHarness):
    office.api.inject_fault(BotApiFault.refuse("Bad Request: something new"), "editMessageText")
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        channel.show(TWO)
        await office.api.wait_until(lambda: len(office.list_methods()) == 2)
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_texts() == [THREE]
    assert office.problems == []


async def test_a_refused_first_block_does_not_keep_the_answer_back(office: DeliveryHarness):
    office.api.inject_fault(BotApiFault.refuse("Bad Request: something new"), "sendMessage")
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_methods())
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_texts() == [THREE]


async def test_nothing_is_shown_to_someone_who_blocked_the_bot(office: DeliveryHarness):
    office.api.person(7).block()
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_methods())
        channel.show(TWO)
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_methods() == ["sendMessage", "sendMessage"]
    assert office.blocked_lanes == [ANN]
