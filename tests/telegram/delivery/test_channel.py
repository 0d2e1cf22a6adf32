"""A turn shows that it works, then its text block by block, then its answer; nothing comes late and nothing
twice.
"""

import asyncio
from dataclasses import replace

import pytest

from bot.domain import Button, Lane
from bot.sim.telegram.server import BotApiFault
from bot.telegram.delivery import progress as showing
from bot.telegram.delivery.progress import YOUR_TURN
from tests.support.delivery_harness import ONE, THREE, TWO, DeliveryHarness


async def test_a_quick_answer_is_exactly_one_call(office: DeliveryHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(showing, "_ANNOUNCE_AFTER_SECONDS", 30.0)  # the machine may be busy
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        await office.finish_turn(channel, "**Paris.**")
        await sender.wait_until_idle()
        assert office.list_methods() == ["sendMessage"]
        (message,) = office.api.chat(7).bot_messages
        assert (message.text, message.entities[0]["type"], message.buttons) == ("Paris.", "bold", [])
        assert not message.silent


async def test_a_slow_answer_is_announced_by_a_draft_with_stop(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        draft = await office.api.wait_until(lambda: office.api.chat(7).draft)
        assert draft is not None
        assert (draft.text, draft.can_stop, draft.draft_id) == ("", True, 1)
        await office.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert office.list_methods() == ["sendMessageDraft", "sendMessage"]
    assert office.api.chat(7).draft is None


async def test_a_draft_still_on_its_way_is_waited_for(office: DeliveryHarness):
    office.api.inject_fault(BotApiFault.slow(0.4), "sendMessageDraft")
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        await office.api.wait_until(lambda: office.list_methods())
        await office.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    draft, answer = office.list_calls()
    assert draft.answered_at is not None
    assert answer.arrived_at > draft.answered_at
    assert office.api.chat(7).draft is None


@pytest.mark.parametrize("status", [404, 400])
async def test_without_drafts_it_types_and_does_not_ask_again(office: DeliveryHarness, status: int):
    office.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", status), "sendMessageDraft", times=None
    )
    async with office.run_sender() as sender:
        for item in (1, 2):
            channel = office.open_channel(sender, item)
            channel.begin()
            await office.api.wait_until(lambda: office.list_methods().count("sendChatAction") == item)  # noqa: B023
            await office.finish_turn(channel, "Paris.", item)
            await sender.wait_until_idle()
    assert office.list_methods() == [
        "sendMessageDraft",
        "sendChatAction",
        "sendMessage",
        "sendChatAction",
        "sendMessage",
    ]


async def test_blocks_are_shown_as_one_message_edited_and_finished(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        assert office.list_button_data() == [["stop:1"]]
        channel.show(TWO)
        await office.api.wait_until(
            lambda: office.list_texts()[0].startswith("First block,") and "Second" in office.list_texts()[0]
        )
        assert office.list_button_data() == [["stop:1"]]
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_methods() == ["sendMessage", "editMessageText", "editMessageText"]
    assert "the end." in office.list_texts()[0]
    assert office.list_button_data() == [[]]
    assert await office.load_states() == ["done"]


async def test_only_the_latest_snapshot_is_shown_and_edits_keep_their_distance(office: DeliveryHarness):
    office.limits = replace(office.limits, private_edit_gap=0.5)
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        for n in range(50):
            channel.show(ONE + f"Block number {n}.\n\n")
            await asyncio.sleep(0)
        await office.api.wait_until(lambda: "Block number 49." in office.list_texts()[0])
        first, second = office.list_calls()
        assert second.arrived_at - first.arrived_at >= 0.5
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_texts()[0].endswith("the end.")


async def test_the_final_text_does_not_wait_for_the_distance_between_edits(office: DeliveryHarness):
    office.limits = replace(office.limits, private_edit_gap=60.0)
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        channel.show(TWO)
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_methods() == ["sendMessage", "editMessageText"]


async def test_a_long_answer_goes_on_in_further_messages(office: DeliveryHarness):
    paragraphs = [f"Paragraph {n}. " + "word " * 150 for n in range(16)]
    whole = "\n\n".join(paragraphs)
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show("\n\n".join(paragraphs[:4]) + "\n\n")
        await office.api.wait_until(lambda: office.list_texts())
        channel.show("\n\n".join(paragraphs[:8]) + "\n\n")
        await office.api.wait_until(lambda: len(office.list_texts()) == 2)
        assert office.list_button_data() == [[], ["stop:1"]]
        await office.finish_turn(channel, whole)
        await sender.wait_until_idle()
    messages = office.api.chat(7).bot_messages
    assert [message.silent for message in messages] == [False] + [True] * (len(messages) - 1)
    assert "\n\n".join(office.list_texts()).split() == whole.split()
    assert len(messages) == 4
    assert not any(office.list_button_data())
    finished_first = [
        call for call in office.list_calls() if call.params.integer("message_id") == messages[0].message_id
    ]
    assert len(finished_first) == 1  # it stood there whole when the answer came


async def test_a_shorter_answer_takes_the_superfluous_message_back(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show("word " * 1200 + "\n\nand so on.\n\n")
        await office.api.wait_until(lambda: len(office.list_texts()) == 2)
        await office.finish_turn(channel, "Never mind.")
        await sender.wait_until_idle()
    assert office.list_texts() == ["Never mind."]
    assert await office.load_states() == ["done", "done"]


async def test_a_line_says_why_one_waits_and_the_answer_takes_its_place(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show_status("The model is loading; I keep trying.")
        await office.api.wait_until(lambda: office.list_texts())
        assert office.list_texts() == ["The model is loading; I keep trying."]
        channel.show_status("It still loads.")
        await office.api.wait_until(lambda: office.list_texts() == ["It still loads."])
        await office.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert office.list_texts() == ["Paris."]
    assert office.list_methods() == ["sendMessage", "editMessageText", "editMessageText"]


async def test_a_line_can_be_taken_back_and_the_answer_still_comes(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show_status("The model is loading; I keep trying.")
        await office.api.wait_until(lambda: office.list_texts())
        channel.show_status(None)
        await office.api.wait_until(lambda: office.list_texts() == [])
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        channel.show_status("It is loading again.")
        await office.api.wait_until(lambda: office.list_texts()[0].endswith("It is loading again."))
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert len(office.list_texts()) == 1
    assert office.list_texts()[0].endswith("the end.")


async def test_a_command_in_between_is_answered_at_once(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.show(ONE)
        await office.api.wait_until(lambda: office.list_texts())
        await office.send_text(sender, "a command's reply", item=2)
        await office.api.wait_until(lambda: len(office.list_texts()) == 2)
        await office.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert office.list_texts() == [THREE, "a command's reply"]


async def test_a_hanging_sign_in_one_chat_delays_no_other(office: DeliveryHarness):
    office.api.person(8, "Ben").send("hello")
    office.api.inject_fault(BotApiFault.hang(), "sendMessageDraft", chat_id=7)
    async with office.run_sender(kill=True) as sender:
        office.open_channel(sender).begin()
        await office.api.wait_until(lambda: office.list_methods())
        channel = office.open_channel(sender, 2, Lane(8))
        channel.begin()
        await office.finish_turn(channel, "Paris.", 2, Lane(8))
        await office.api.wait_until(lambda: office.list_texts(8))


async def test_parts_notify_once_and_carry_the_buttons_last(office: DeliveryHarness):
    buttons = ((Button("Again", "again"),),)
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        parts = channel.render_parts("word " * 2000, buttons=buttons)
        assert [part.silent for part in parts] == [False, True, True]
        assert [part.buttons for part in parts] == [(), (), buttons]
        assert all(part.silent for part in channel.render_parts("word " * 2000, silent=True))
        assert [part.text for part in channel.render_parts(" \n ")] == [
            "(This answer holds nothing that can be shown.)"
        ]


def has_draft_line(office: DeliveryHarness, line: str) -> bool:
    draft = office.api.chat(7).draft
    return draft is not None and draft.can_stop and draft.text == line


async def test_the_place_in_line_is_told_in_the_draft_and_leaves_nothing_behind(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        for line in ("2 before you.", "You are next."):
            channel.show_queue_place(line)
            await office.api.wait_until(lambda: has_draft_line(office, line))  # noqa: B023
        channel.show_queue_place(None)
        await office.api.wait_until(lambda: has_draft_line(office, ""))
        await office.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert office.list_texts() == ["Paris."]
    assert office.api.chat(7).draft is None
    assert office.api.chat(7).deleted_messages == []


async def test_a_message_in_between_does_not_hide_the_place_in_line(office: DeliveryHarness):
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        channel.show_queue_place("2 before you.")
        await office.api.wait_until(lambda: has_draft_line(office, "2 before you."))
        await office.send_text(sender, "a command's reply", item=2)
        await office.api.wait_until(lambda: office.list_texts())
        await office.api.wait_until(lambda: has_draft_line(office, "2 before you."))
        await office.finish_turn(channel, "Stopped.")
        await sender.wait_until_idle()
    assert office.list_texts() == ["a command's reply", "Stopped."]
    assert office.api.chat(7).draft is None


async def test_without_drafts_the_place_in_line_is_a_message_that_becomes_the_answer(office: DeliveryHarness):
    office.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        for line in ("2 before you.", "You are next."):
            channel.show_queue_place(line)
            await office.api.wait_until(lambda: office.list_texts() == [line])  # noqa: B023
        channel.show_queue_place(None)
        await office.api.wait_until(lambda: office.list_texts() == [YOUR_TURN])
        await office.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert office.list_texts() == ["Paris."]
    assert office.list_methods().count("sendMessage") == 1
    assert office.list_button_data() == [[]]
    assert await office.load_states() == ["done"]


async def test_a_turn_that_ends_without_a_text_takes_its_line_back(office: DeliveryHarness):
    office.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        channel.show_queue_place("2 before you.")
        await office.api.wait_until(lambda: office.list_texts())
        channel.end()
        await sender.wait_until_idle()
    assert office.list_texts() == []
    assert await office.load_rows() == []


async def test_a_line_that_cannot_be_taken_back_is_tried_once_and_becomes_the_answer_later(
    office: DeliveryHarness,
):
    office.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    office.api.inject_fault(BotApiFault.drop(), "deleteMessage")
    async with office.run_sender() as sender:
        channel = office.open_channel(sender)
        channel.begin()
        channel.show_queue_place("2 before you.")
        await office.api.wait_until(lambda: office.list_texts())
        channel.end()
        await sender.wait_until_idle()
        assert office.list_texts() == ["2 before you."]
        await office.finish_turn(office.open_channel(sender), "Paris.")
        await sender.wait_until_idle()
    assert office.list_texts() == ["Paris."]
