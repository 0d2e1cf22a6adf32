"""A turn shows that it works, then its text block by block, then its answer; nothing comes late and nothing
twice.
"""

import asyncio
from dataclasses import replace

import pytest

from bot.domain import Button, Lane
from bot.sim.telegram.server import Fault
from bot.telegram.delivery import progress as showing
from bot.telegram.delivery.progress import SERVED
from tests.support.delivery_harness import ONE, THREE, TWO, PostOffice


async def test_a_quick_answer_is_exactly_one_call(office: PostOffice, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(showing, "_QUICK", 30.0)  # the machine may be busy
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        await office.answer(channel, "**Paris.**")
        await sender.rested()
        assert office.calls() == ["sendMessage"]
        (message,) = office.api.chat(7).from_bot
        assert (message.text, message.entities[0]["type"], message.buttons) == ("Paris.", "bold", [])
        assert not message.silent


async def test_a_slow_answer_is_announced_by_a_draft_with_stop(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        draft = await office.api.until(lambda: office.api.chat(7).draft)
        assert draft is not None
        assert (draft.text, draft.can_stop, draft.draft_id) == ("", True, 1)
        await office.answer(channel, "Paris.")
        await sender.rested()
    assert office.calls() == ["sendMessageDraft", "sendMessage"]
    assert office.api.chat(7).draft is None


async def test_a_draft_still_on_its_way_is_waited_for(office: PostOffice):
    office.api.inject(Fault.slow(0.4), "sendMessageDraft")
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        await office.api.until(lambda: office.calls())
        await office.answer(channel, "Paris.")
        await sender.rested()
    draft, answer = office.made()
    assert draft.left is not None
    assert answer.arrived > draft.left
    assert office.api.chat(7).draft is None


@pytest.mark.parametrize("status", [404, 400])
async def test_without_drafts_it_types_and_does_not_ask_again(office: PostOffice, status: int):
    office.api.inject(Fault.refuse("Not Found: method not found", status), "sendMessageDraft", times=None)
    async with office.sender() as sender:
        for item in (1, 2):
            channel = office.channel(sender, item)
            channel.begin()
            await office.api.until(lambda: office.calls().count("sendChatAction") == item)  # noqa: B023
            await office.answer(channel, "Paris.", item)
            await sender.rested()
    assert office.calls() == [
        "sendMessageDraft",
        "sendChatAction",
        "sendMessage",
        "sendChatAction",
        "sendMessage",
    ]


async def test_blocks_are_shown_as_one_message_edited_and_finished(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        assert office.buttons() == [["stop:1"]]
        channel.show(TWO)
        await office.api.until(
            lambda: office.seen()[0].startswith("First block,") and "Second" in office.seen()[0]
        )
        assert office.buttons() == [["stop:1"]]
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.calls() == ["sendMessage", "editMessageText", "editMessageText"]
    assert "the end." in office.seen()[0]
    assert office.buttons() == [[]]
    assert await office.states() == ["done"]


async def test_only_the_latest_snapshot_is_shown_and_edits_keep_their_distance(office: PostOffice):
    office.limits = replace(office.limits, private_gap=0.5)
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        for n in range(50):
            channel.show(ONE + f"Block number {n}.\n\n")
            await asyncio.sleep(0)
        await office.api.until(lambda: "Block number 49." in office.seen()[0])
        first, second = office.made()
        assert second.arrived - first.arrived >= 0.5
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.seen()[0].endswith("the end.")


async def test_the_final_text_does_not_wait_for_the_distance_between_edits(office: PostOffice):
    office.limits = replace(office.limits, private_gap=60.0)
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        channel.show(TWO)
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.calls() == ["sendMessage", "editMessageText"]


async def test_a_long_answer_goes_on_in_further_messages(office: PostOffice):
    paragraphs = [f"Paragraph {n}. " + "word " * 150 for n in range(16)]
    whole = "\n\n".join(paragraphs)
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show("\n\n".join(paragraphs[:4]) + "\n\n")
        await office.api.until(lambda: office.seen())
        channel.show("\n\n".join(paragraphs[:8]) + "\n\n")
        await office.api.until(lambda: len(office.seen()) == 2)
        assert office.buttons() == [[], ["stop:1"]]
        await office.answer(channel, whole)
        await sender.rested()
    messages = office.api.chat(7).from_bot
    assert [message.silent for message in messages] == [False] + [True] * (len(messages) - 1)
    assert "\n\n".join(office.seen()).split() == whole.split()
    assert len(messages) == 4
    assert not any(office.buttons())
    finished_first = [
        call for call in office.made() if call.params.integer("message_id") == messages[0].message_id
    ]
    assert len(finished_first) == 1  # it stood there whole when the answer came


async def test_a_shorter_answer_takes_the_superfluous_message_back(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show("word " * 1200 + "\n\nand so on.\n\n")
        await office.api.until(lambda: len(office.seen()) == 2)
        await office.answer(channel, "Never mind.")
        await sender.rested()
    assert office.seen() == ["Never mind."]
    assert await office.states() == ["done", "done"]


async def test_a_line_says_why_one_waits_and_the_answer_takes_its_place(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.status("The model is loading; I keep trying.")
        await office.api.until(lambda: office.seen())
        assert office.seen() == ["The model is loading; I keep trying."]
        channel.status("It still loads.")
        await office.api.until(lambda: office.seen() == ["It still loads."])
        await office.answer(channel, "Paris.")
        await sender.rested()
    assert office.seen() == ["Paris."]
    assert office.calls() == ["sendMessage", "editMessageText", "editMessageText"]


async def test_a_line_can_be_taken_back_and_the_answer_still_comes(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.status("The model is loading; I keep trying.")
        await office.api.until(lambda: office.seen())
        channel.status(None)
        await office.api.until(lambda: office.seen() == [])
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        channel.status("It is loading again.")
        await office.api.until(lambda: office.seen()[0].endswith("It is loading again."))
        await office.answer(channel, THREE)
        await sender.rested()
    assert len(office.seen()) == 1
    assert office.seen()[0].endswith("the end.")


async def test_a_command_in_between_is_answered_at_once(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.show(ONE)
        await office.api.until(lambda: office.seen())
        await office.say(sender, "a command's reply", item=2)
        await office.api.until(lambda: len(office.seen()) == 2)
        await office.answer(channel, THREE)
        await sender.rested()
    assert office.seen() == [THREE, "a command's reply"]


async def test_a_hanging_sign_in_one_chat_delays_no_other(office: PostOffice):
    office.api.person(8, "Ben").send("hello")
    office.api.inject(Fault.hang(), "sendMessageDraft", chat_id=7)
    async with office.sender(kill=True) as sender:
        office.channel(sender).begin()
        await office.api.until(lambda: office.calls())
        channel = office.channel(sender, 2, Lane(8))
        channel.begin()
        await office.answer(channel, "Paris.", 2, Lane(8))
        await office.api.until(lambda: office.seen(8))


async def test_parts_notify_once_and_carry_the_buttons_last(office: PostOffice):
    buttons = ((Button("Again", "again"),),)
    async with office.sender() as sender:
        channel = office.channel(sender)
        parts = channel.parts("word " * 2000, buttons=buttons)
        assert [part.silent for part in parts] == [False, True, True]
        assert [part.buttons for part in parts] == [(), (), buttons]
        assert all(part.silent for part in channel.parts("word " * 2000, silent=True))
        assert [part.text for part in channel.parts(" \n ")] == [
            "(This answer holds nothing that can be shown.)"
        ]


def draft_says(office: PostOffice, line: str) -> bool:
    draft = office.api.chat(7).draft
    return draft is not None and draft.can_stop and draft.text == line


async def test_the_place_in_line_is_told_in_the_draft_and_leaves_nothing_behind(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        for line in ("2 before you.", "You are next."):
            channel.queue(line)
            await office.api.until(lambda: draft_says(office, line))  # noqa: B023
        channel.queue(None)
        await office.api.until(lambda: draft_says(office, ""))
        await office.answer(channel, "Paris.")
        await sender.rested()
    assert office.seen() == ["Paris."]
    assert office.api.chat(7).draft is None
    assert office.api.chat(7).deleted == []


async def test_a_message_in_between_does_not_hide_the_place_in_line(office: PostOffice):
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        channel.queue("2 before you.")
        await office.api.until(lambda: draft_says(office, "2 before you."))
        await office.say(sender, "a command's reply", item=2)
        await office.api.until(lambda: office.seen())
        await office.api.until(lambda: draft_says(office, "2 before you."))
        await office.answer(channel, "Stopped.")
        await sender.rested()
    assert office.seen() == ["a command's reply", "Stopped."]
    assert office.api.chat(7).draft is None


async def test_without_drafts_the_place_in_line_is_a_message_that_becomes_the_answer(office: PostOffice):
    office.api.inject(Fault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None)
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        for line in ("2 before you.", "You are next."):
            channel.queue(line)
            await office.api.until(lambda: office.seen() == [line])  # noqa: B023
        channel.queue(None)
        await office.api.until(lambda: office.seen() == [SERVED])
        await office.answer(channel, "Paris.")
        await sender.rested()
    assert office.seen() == ["Paris."]
    assert office.calls().count("sendMessage") == 1
    assert office.buttons() == [[]]
    assert await office.states() == ["done"]


async def test_a_turn_that_ends_without_a_text_takes_its_line_back(office: PostOffice):
    office.api.inject(Fault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None)
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        channel.queue("2 before you.")
        await office.api.until(lambda: office.seen())
        channel.end()
        await sender.rested()
    assert office.seen() == []
    assert await office.rows() == []


async def test_a_line_that_cannot_be_taken_back_is_tried_once_and_becomes_the_answer_later(
    office: PostOffice,
):
    office.api.inject(Fault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None)
    office.api.inject(Fault.drop(), "deleteMessage")
    async with office.sender() as sender:
        channel = office.channel(sender)
        channel.begin()
        channel.queue("2 before you.")
        await office.api.until(lambda: office.seen())
        channel.end()
        await sender.rested()
        assert office.seen() == ["2 before you."]
        await office.answer(office.channel(sender), "Paris.")
        await sender.rested()
    assert office.seen() == ["Paris."]
