"""A turn shows that it works, then its text block by block, then its answer; nothing comes late and nothing twice."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.db.engine import Database
from bot.db.outbox import UNSURE
from bot.domain import Button, Lane
from bot.sim.botapi import BotApi, Fault
from bot.serving import serve
from tests.telegram.house import ANN, House

ONE = "First block, which says something.\n\n"
TWO = ONE + "Second block, which goes on.\n\n"
THREE = TWO + "Third block, and the end."


@pytest.fixture
async def house(database: Database) -> AsyncIterator[House]:
    api = BotApi()
    api.person(7).send("hello")
    async with serve(api.app) as url:
        yield House(api, url, database)


async def test_a_quick_answer_is_exactly_one_call(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.begin()
        await house.answer(channel, "**Paris.**")
        await sender.rested()
        assert house.calls() == ["sendMessage"]
        (message,) = house.api.chat(7).from_bot
        assert (message.text, message.entities[0]["type"], message.buttons) == ("Paris.", "bold", [])
        assert not message.silent


async def test_a_slow_answer_is_announced_by_a_draft_with_stop(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.begin()
        draft = await house.api.until(lambda: house.api.chat(7).draft)
        assert draft is not None
        assert (draft.text, draft.can_stop, draft.draft_id) == ("", True, 1)
        await house.answer(channel, "Paris.")
        await sender.rested()
    assert house.calls() == ["sendMessageDraft", "sendMessage"]
    assert house.api.chat(7).draft is None


async def test_a_draft_still_on_its_way_is_waited_for(house: House):
    house.api.inject(Fault.slow(0.4), "sendMessageDraft")
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.begin()
        await house.api.until(lambda: house.calls())
        await house.answer(channel, "Paris.")
        await sender.rested()
    draft, answer = house.made()
    assert draft.left is not None
    assert answer.arrived > draft.left
    assert house.api.chat(7).draft is None


@pytest.mark.parametrize("status", [404, 400])
async def test_without_drafts_it_types_and_does_not_ask_again(house: House, status: int):
    house.api.inject(Fault.refuse("Not Found: method not found", status), "sendMessageDraft", times=None)
    async with house.sender() as sender:
        for item in (1, 2):
            channel = house.channel(sender, item)
            channel.begin()
            await house.api.until(lambda: house.calls().count("sendChatAction") == item)  # noqa: B023
            await house.answer(channel, "Paris.", item)
            await sender.rested()
    assert house.calls() == ["sendMessageDraft", "sendChatAction", "sendMessage", "sendChatAction", "sendMessage"]


async def test_blocks_are_shown_as_one_message_edited_and_finished(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.begin()
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        assert house.buttons() == [["stop:1"]]
        channel.show(TWO)
        await house.api.until(lambda: house.seen()[0].startswith("First block,") and "Second" in house.seen()[0])
        assert house.buttons() == [["stop:1"]]
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.calls() == ["sendMessage", "editMessageText", "editMessageText"]
    assert "the end." in house.seen()[0]
    assert house.buttons() == [[]]
    assert await house.states() == ["done"]


async def test_only_the_latest_snapshot_is_shown_and_edits_keep_their_distance(house: House):
    house.limits = replace(house.limits, private_gap=0.5)
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        for n in range(50):
            channel.show(ONE + f"Block number {n}.\n\n")
            await asyncio.sleep(0)
        await house.api.until(lambda: "Block number 49." in house.seen()[0])
        first, second = house.made()
        assert second.arrived - first.arrived >= 0.5
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.seen()[0].endswith("the end.")


async def test_the_final_text_does_not_wait_for_the_distance_between_edits(house: House):
    house.limits = replace(house.limits, private_gap=60.0)
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        channel.show(TWO)
        began = time.monotonic()
        await house.answer(channel, THREE)
        await sender.rested()
        assert time.monotonic() - began < 1
    assert house.calls() == ["sendMessage", "editMessageText"]


async def test_a_long_answer_goes_on_in_further_messages(house: House):
    paragraphs = [f"Paragraph {n}. " + "word " * 150 for n in range(16)]
    whole = "\n\n".join(paragraphs)
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show("\n\n".join(paragraphs[:4]) + "\n\n")
        await house.api.until(lambda: house.seen())
        channel.show("\n\n".join(paragraphs[:8]) + "\n\n")
        await house.api.until(lambda: len(house.seen()) == 2)
        assert house.buttons() == [[], ["stop:1"]]
        await house.answer(channel, whole)
        await sender.rested()
    messages = house.api.chat(7).from_bot
    assert [message.silent for message in messages] == [False] + [True] * (len(messages) - 1)
    assert "\n\n".join(house.seen()).split() == whole.split()
    assert len(messages) == 4
    assert not any(house.buttons())
    finished_first = [call for call in house.made() if call.params.integer("message_id") == messages[0].message_id]
    assert len(finished_first) == 1  # it stood there whole when the answer came


async def test_a_shorter_answer_takes_the_superfluous_message_back(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show("word " * 1200 + "\n\nand so on.\n\n")
        await house.api.until(lambda: len(house.seen()) == 2)
        await house.answer(channel, "Never mind.")
        await sender.rested()
    assert house.seen() == ["Never mind."]
    assert await house.states() == ["done", "done"]


async def test_a_line_says_why_one_waits_and_the_answer_takes_its_place(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.status("The model is loading; I keep trying.")
        await house.api.until(lambda: house.seen())
        assert house.seen() == ["The model is loading; I keep trying."]
        channel.status("It still loads.")
        await house.api.until(lambda: house.seen() == ["It still loads."])
        await house.answer(channel, "Paris.")
        await sender.rested()
    assert house.seen() == ["Paris."]
    assert house.calls() == ["sendMessage", "editMessageText", "editMessageText"]


async def test_a_line_can_be_taken_back_and_the_answer_still_comes(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.status("The model is loading; I keep trying.")
        await house.api.until(lambda: house.seen())
        channel.status(None)
        await house.api.until(lambda: house.seen() == [])
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        channel.status("It is loading again.")
        await house.api.until(lambda: house.seen()[0].endswith("It is loading again."))
        await house.answer(channel, THREE)
        await sender.rested()
    assert len(house.seen()) == 1
    assert house.seen()[0].endswith("the end.")


async def test_a_line_of_unknown_outcome_does_not_put_the_answer_in_doubt(house: House):
    house.api.inject(Fault.accept_then_drop(), "sendMessage")
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.status("The model is loading; I keep trying.")
        await house.api.until(lambda: house.seen())
        await house.answer(channel, "Paris.")
        await sender.rested()
    assert house.seen() == ["The model is loading; I keep trying.", "Paris."]


async def test_a_first_block_of_unknown_outcome_is_never_repeated_by_itself(house: House):
    house.api.inject(Fault.accept_then_drop(), "sendMessage")
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        channel.show(TWO)
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.seen()[1:] == [UNSURE]
    assert await house.states() == ["unknown", "done"]


async def test_a_repeated_turn_goes_on_with_the_message_it_had(house: House):
    async with house.sender() as sender:
        house.channel(sender).show(ONE)
        await house.api.until(lambda: house.seen())
    assert await house.states() == ["open"]
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.begin()
        channel.show(TWO)
        await house.api.until(lambda: "Second" in house.seen()[0])
        await house.answer(channel, THREE)
        await sender.rested()
    assert len(house.seen()) == 1
    assert house.calls().count("sendMessage") == 1


async def test_a_message_deleted_meanwhile_is_sent_as_new(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        house.api.person(7).delete(house.api.chat(7).from_bot[0])
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.seen() == [THREE]


async def test_an_edit_whose_outcome_is_unknown_is_simply_repeated(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        house.api.inject(Fault.accept_then_drop(), "editMessageText")
        house.api.inject(Fault.server_error(), "editMessageText")
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.seen() == [THREE]
    assert house.made()[-1].description.startswith("Bad Request: message is not modified")
    assert await house.states() == ["done"]


async def test_a_flood_while_showing_stills_the_chat_until_the_answer(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        flood = house.api.inject(Fault.flood(1), "editMessageText")
        channel.show(TWO)
        await house.api.until(lambda: flood.hits)
        channel.show(TWO + "More.\n\n")
        await house.answer(channel, THREE)
        await sender.rested()
    refused, final = house.made()[1:]
    assert final.arrived - refused.arrived >= 1.0
    assert house.seen() == [THREE]


async def test_failing_snapshots_never_reach_the_answer(house: House):
    house.api.inject(Fault.refuse("Bad Request: something new"), "editMessageText")
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        channel.show(TWO)
        await house.api.until(lambda: len(house.calls()) == 2)
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.seen() == [THREE]
    assert house.troubles == []


async def test_a_refused_first_block_does_not_keep_the_answer_back(house: House):
    house.api.inject(Fault.refuse("Bad Request: something new"), "sendMessage")
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.calls())
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.seen() == [THREE]


async def test_nothing_is_shown_to_someone_who_blocked_the_bot(house: House):
    house.api.person(7).block()
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.begin()
        channel.show(ONE)
        await house.api.until(lambda: house.calls())
        channel.show(TWO)
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.calls() == ["sendMessage", "sendMessage"]
    assert house.blocked == [ANN]


async def test_a_command_in_between_is_answered_at_once(house: House):
    async with house.sender() as sender:
        channel = house.channel(sender)
        channel.show(ONE)
        await house.api.until(lambda: house.seen())
        await house.say(sender, "a command's reply", item=2)
        await house.api.until(lambda: len(house.seen()) == 2)
        await house.answer(channel, THREE)
        await sender.rested()
    assert house.seen() == [THREE, "a command's reply"]


async def test_a_hanging_sign_in_one_chat_delays_no_other(house: House):
    house.api.person(8, "Ben").send("hello")
    house.api.inject(Fault.hang(), "sendMessageDraft", chat_id=7)
    async with house.sender(kill=True) as sender:
        house.channel(sender).begin()
        await house.api.until(lambda: house.calls())
        channel = house.channel(sender, 2, Lane(8))
        channel.begin()
        began = time.monotonic()
        await house.answer(channel, "Paris.", 2, Lane(8))
        await house.api.until(lambda: house.seen(8))
        assert time.monotonic() - began < 0.5


async def test_parts_notify_once_and_carry_the_buttons_last(house: House):
    buttons = ((Button("Again", "again"),),)
    async with house.sender() as sender:
        channel = house.channel(sender)
        parts = channel.parts("word " * 2000, buttons=buttons)
        assert [part.silent for part in parts] == [False, True, True]
        assert [part.buttons for part in parts] == [(), (), buttons]
        assert all(part.silent for part in channel.parts("word " * 2000, silent=True))
        assert [part.text for part in channel.parts(" \n ")] == ["(This answer holds nothing that can be shown.)"]
