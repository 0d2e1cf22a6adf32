"""A turn shows that it works, then its text block by block, then its answer; nothing comes late and nothing
twice.
"""

import asyncio
from dataclasses import replace

import pytest

from bot.domain import Button, Lane
from bot.telegram.delivery import progress as progress_module
from bot.telegram.delivery.progress import YOUR_TURN
from bot.telegram.delivery.renderer import Snapshot, render_snapshot
from bot.telegram.formatting.render import BlockCache, Piece
from tests.support.delivery_harness import NO_GAP_LIMITS, ONE, THREE, TWO, DeliveryHarness
from tests.support.telegram.server import BotApiFault


async def test_a_quick_answer_is_exactly_one_call(harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_module, "_ANNOUNCE_AFTER_SECONDS", 30.0)  # the machine may be busy
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        await harness.finish_turn(channel, "**Paris.**")
        await sender.wait_until_idle()
        assert harness.list_methods() == ["sendMessage"]
        (message,) = harness.api.chat(7).bot_messages
        assert (message.text, message.entities[0]["type"], message.buttons) == ("Paris.", "bold", [])
        assert not message.silent


async def test_a_slow_answer_is_announced_by_a_draft_with_stop(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        draft = await harness.api.wait_until(lambda: harness.api.chat(7).draft)
        assert draft is not None
        assert (draft.text, draft.can_stop, draft.draft_id) == ("", True, 1)
        await harness.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert harness.list_methods() == ["sendMessageDraft", "sendMessage"]
    assert harness.api.chat(7).draft is None


async def test_what_is_shown_first_replies_to_the_message_that_asked(harness: DeliveryHarness):
    asked = harness.api.person(7, "Ann").send("Where?")
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender, reply_to=asked.message_id)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.api.chat(7).bot_messages)
        await harness.finish_turn(channel, TWO)
        await sender.wait_until_idle()
    [answer] = harness.api.chat(7).bot_messages
    assert answer.raw["reply_to_message"]["message_id"] == asked.message_id


async def test_a_draft_still_on_its_way_is_waited_for(harness: DeliveryHarness):
    harness.api.inject_fault(BotApiFault.slow(0.4), "sendMessageDraft")
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        await harness.api.wait_until(lambda: harness.list_methods())
        await harness.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    draft, answer = harness.list_calls()
    assert draft.answered_at is not None
    assert answer.arrived_at > draft.answered_at
    assert harness.api.chat(7).draft is None


@pytest.mark.parametrize("status", [404, 400])
async def test_without_drafts_it_types_and_does_not_ask_again(harness: DeliveryHarness, status: int):
    harness.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", status), "sendMessageDraft", times=None
    )
    async with harness.run_sender() as sender:
        for item in (1, 2):
            channel = harness.open_channel(sender, item)
            channel.begin()
            await harness.api.wait_until(lambda: harness.list_methods().count("sendChatAction") == item)  # noqa: B023
            await harness.finish_turn(channel, "Paris.", item)
            await sender.wait_until_idle()
    assert harness.list_methods() == [
        "sendMessageDraft",
        "sendChatAction",
        "sendMessage",
        "sendChatAction",
        "sendMessage",
    ]


async def test_blocks_are_shown_as_one_message_edited_and_finished(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        assert harness.list_button_data() == [["stop:1"]]
        channel.show(TWO)
        await harness.api.wait_until(
            lambda: harness.list_texts()[0].startswith("First block,") and "Second" in harness.list_texts()[0]
        )
        assert harness.list_button_data() == [["stop:1"]]
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_methods() == ["sendMessage", "editMessageText", "editMessageText"]
    assert "the end." in harness.list_texts()[0]
    assert harness.list_button_data() == [[]]
    assert await harness.load_states() == ["done"]


async def test_only_the_latest_snapshot_is_shown_and_edits_keep_their_distance(harness: DeliveryHarness):
    harness.limits = replace(harness.limits, private_edit_gap=0.3)
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        for n in range(50):
            channel.show(ONE + f"Block number {n}.\n\n")
        await harness.api.wait_until(lambda: "Block number 49." in harness.list_texts()[0])
        first, second = harness.list_calls()
        assert second.arrived_at - first.arrived_at >= 0.3
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_texts()[0].endswith("the end.")


async def test_the_final_text_does_not_wait_for_the_distance_between_edits(harness: DeliveryHarness):
    harness.limits = replace(harness.limits, private_edit_gap=60.0)
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        for n in range(5):
            channel.show(ONE + f"Block number {n}.\n\n")
            await asyncio.sleep(0)
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_methods() == ["sendMessage", "editMessageText"]


async def test_a_long_answer_continues_in_further_messages(harness: DeliveryHarness):
    paragraphs = [f"Paragraph {n}. " + "word " * 150 for n in range(16)]
    text = "\n\n".join(paragraphs)
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show("\n\n".join(paragraphs[:4]) + "\n\n")
        await harness.api.wait_until(lambda: harness.list_texts())
        channel.show("\n\n".join(paragraphs[:8]) + "\n\n")
        await harness.api.wait_until(lambda: len(harness.list_texts()) == 2)
        assert harness.list_button_data() == [[], ["stop:1"]]
        await harness.finish_turn(channel, text)
        await sender.wait_until_idle()
    messages = harness.api.chat(7).bot_messages
    assert [message.silent for message in messages] == [False] + [True] * (len(messages) - 1)
    assert "\n\n".join(harness.list_texts()).split() == text.split()
    assert len(messages) == 4
    assert not any(harness.list_button_data())
    finished_first = [
        call for call in harness.list_calls() if call.params.integer("message_id") == messages[0].message_id
    ]
    assert len(finished_first) == 1  # it stood there whole when the answer came


async def test_a_shorter_answer_takes_the_superfluous_message_back(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show("word " * 1200 + "\n\nand so on.\n\n")
        await harness.api.wait_until(lambda: len(harness.list_texts()) == 2)
        await harness.finish_turn(channel, "Never mind.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["Never mind."]
    assert await harness.load_states() == ["done", "done"]


async def test_a_line_says_why_one_waits_and_the_answer_takes_its_place(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show_status("The model is loading; I keep trying.")
        await harness.api.wait_until(lambda: harness.list_texts())
        assert harness.list_texts() == ["The model is loading; I keep trying."]
        channel.show_status("It still loads.")
        await harness.api.wait_until(lambda: harness.list_texts() == ["It still loads."])
        await harness.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["Paris."]
    assert harness.list_methods() == ["sendMessage", "editMessageText", "editMessageText"]


@pytest.mark.parametrize("has_snapshot", [True, False])
async def test_after_a_long_wait_the_answer_is_a_new_message(harness: DeliveryHarness, has_snapshot: bool):
    harness.limits = replace(NO_GAP_LIMITS, long_status_seconds=0.0)
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show_status("The model is not answering.")
        await harness.api.wait_until(lambda: harness.list_texts())
        await harness.send_text("a command's reply", item=2)
        await harness.api.wait_until(lambda: len(harness.list_texts()) == 2)
        if has_snapshot:
            channel.show(ONE)
            await harness.api.wait_until(lambda: len(harness.api.calls_of("sendMessage")) == 3)
        await harness.finish_turn(channel, ONE + "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["a command's reply", ONE + "Paris."]
    methods = ["sendMessage", "sendMessage", "deleteMessage", "sendMessage"]
    assert harness.list_methods() == methods + ["editMessageText"] * has_snapshot
    assert harness.api.calls_of("sendMessage")[-1].params["disable_notification"] == "false"
    assert await harness.load_states() == ["done", "done"]


async def test_a_long_status_that_the_person_has_deleted_does_not_hold_the_answer_back(
    harness: DeliveryHarness,
):
    harness.limits = replace(NO_GAP_LIMITS, long_status_seconds=0.0)
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show_status("The model is not answering.")
        await harness.api.wait_until(lambda: harness.list_texts())
        harness.api.person(7).delete(harness.api.chat(7).bot_messages[0])
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        assert harness.list_methods().count("deleteMessage") == 1
        await harness.finish_turn(channel, ONE + "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == [ONE + "Paris."]


async def test_where_the_person_deletes_a_line_the_answer_is_shown_as_it_grows(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show_status("It's your turn; I'm on it.")
        await harness.api.wait_until(lambda: harness.list_texts())
        harness.api.person(7).delete(harness.api.chat(7).bot_messages[0])
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        await harness.finish_turn(channel, ONE + "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == [ONE + "Paris."]
    assert harness.list_methods() == ["sendMessage", "editMessageText", "sendMessage", "editMessageText"]
    assert await harness.load_states() == ["done"]


async def test_a_line_can_be_taken_back_and_the_answer_still_comes(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show_status("The model is loading; I keep trying.")
        await harness.api.wait_until(lambda: harness.list_texts())
        channel.show_status(None)
        await harness.api.wait_until(lambda: harness.list_texts() == [])
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        channel.show_status("It is loading again.")
        await harness.api.wait_until(lambda: harness.list_texts()[0].endswith("It is loading again."))
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert len(harness.list_texts()) == 1
    assert harness.list_texts()[0].endswith("the end.")


async def test_a_command_in_between_is_answered_at_once(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await harness.api.wait_until(lambda: harness.list_texts())
        await harness.send_text("a command's reply", item=2)
        await harness.api.wait_until(lambda: len(harness.list_texts()) == 2)
        await harness.finish_turn(channel, THREE)
        await sender.wait_until_idle()
    assert harness.list_texts() == [THREE, "a command's reply"]


async def test_a_hanging_sign_in_one_chat_delays_no_other(harness: DeliveryHarness):
    harness.api.person(8, "Ben").send("hello")
    harness.api.inject_fault(BotApiFault.hang(), "sendMessageDraft", chat_id=7)
    async with harness.run_sender(kill=True) as sender:
        harness.open_channel(sender).begin()
        await harness.api.wait_until(lambda: harness.list_methods())
        channel = harness.open_channel(sender, 2, Lane(8))
        channel.begin()
        await harness.finish_turn(channel, "Paris.", 2, Lane(8))
        await harness.api.wait_until(lambda: harness.list_texts(8))


async def test_a_snapshot_that_is_being_rendered_at_the_end_of_its_turn_is_not_shown(
    harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
):
    rendering, ended = asyncio.Event(), asyncio.Event()

    async def render_late(snapshot: Snapshot, cache: BlockCache) -> tuple[Piece, ...]:
        rendering.set()
        await ended.wait()
        return render_snapshot(snapshot, cache)

    async with harness.run_sender() as sender:
        monkeypatch.setattr(sender.renderer, "render_snapshot", render_late)
        channel = harness.open_channel(sender)
        channel.show(ONE)
        await rendering.wait()
        await harness.finish_turn(channel, THREE)
        ended.set()
        await sender.wait_until_idle()
    assert [call.method for call in harness.list_calls()] == ["sendMessage"]
    assert harness.list_texts() == [THREE]


async def test_long_code_comes_as_a_file_but_not_to_a_guest(harness: DeliveryHarness):
    code = "```py\n" + "pass\n" * 1000 + "```"
    async with harness.run_sender() as sender:
        [file] = await harness.open_channel(sender).build_files(code)
        assert await harness.open_channel(sender, lane=Lane(7, -5)).build_files(code) == ()
    assert (file.name, file.kind) == ("code.py", "document")


async def test_parts_notify_once_and_carry_the_buttons_last(harness: DeliveryHarness):
    buttons = ((Button("Again", "again"),),)
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        parts = await channel.render_parts("word " * 2000, buttons=buttons)
        assert [part.silent for part in parts] == [False, True, True]
        assert [part.buttons for part in parts] == [(), (), buttons]
        assert all(part.silent for part in await channel.render_parts("word " * 2000, silent=True))
        assert [part.text for part in await channel.render_parts(" \n ")] == [
            "(There's nothing in this answer that I can show.)"
        ]


def has_draft_line(harness: DeliveryHarness, line: str) -> bool:
    draft = harness.api.chat(7).draft
    return draft is not None and draft.can_stop and draft.text == line


async def test_the_place_in_line_is_shown_in_the_draft_and_leaves_nothing_behind(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        for line in ("2 before you.", "You are next."):
            channel.show_queue_place(line)
            await harness.api.wait_until(lambda: has_draft_line(harness, line))  # noqa: B023
        channel.show_queue_place(None)
        await harness.api.wait_until(lambda: has_draft_line(harness, ""))
        await harness.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["Paris."]
    assert harness.api.chat(7).draft is None
    assert harness.api.chat(7).deleted_messages == []


async def test_a_message_in_between_does_not_hide_the_place_in_line(harness: DeliveryHarness):
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        channel.show_queue_place("2 before you.")
        await harness.api.wait_until(lambda: has_draft_line(harness, "2 before you."))
        await harness.send_text("a command's reply", item=2)
        await harness.api.wait_until(lambda: harness.list_texts())
        await harness.api.wait_until(lambda: has_draft_line(harness, "2 before you."))
        await harness.finish_turn(channel, "Stopped.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["a command's reply", "Stopped."]
    assert harness.api.chat(7).draft is None


async def test_without_drafts_the_place_in_line_is_a_message_that_becomes_the_answer(
    harness: DeliveryHarness,
):
    harness.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        for line in ("2 before you.", "You are next."):
            channel.show_queue_place(line)
            await harness.api.wait_until(lambda: harness.list_texts() == [line])  # noqa: B023
        channel.show_queue_place(None)
        await harness.api.wait_until(lambda: harness.list_texts() == [YOUR_TURN])
        await harness.finish_turn(channel, "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["Paris."]
    assert harness.list_methods().count("sendMessage") == 1
    assert harness.list_button_data() == [[]]
    assert await harness.load_states() == ["done"]


async def test_a_turn_that_ends_without_a_text_takes_its_line_back(harness: DeliveryHarness):
    harness.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        channel.show_queue_place("2 before you.")
        await harness.api.wait_until(lambda: harness.list_texts())
        channel.end()
        await sender.wait_until_idle()
    assert harness.list_texts() == []
    assert await harness.load_rows() == []


async def test_a_line_that_cannot_be_taken_back_is_tried_once_and_becomes_the_answer_later(
    harness: DeliveryHarness,
):
    harness.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    harness.api.inject_fault(BotApiFault.drop(), "deleteMessage")
    async with harness.run_sender() as sender:
        channel = harness.open_channel(sender)
        channel.begin()
        channel.show_queue_place("2 before you.")
        await harness.api.wait_until(lambda: harness.list_texts())
        channel.end()
        await sender.wait_until_idle()
        assert harness.list_texts() == ["2 before you."]
        await harness.finish_turn(harness.open_channel(sender), "Paris.")
        await sender.wait_until_idle()
    assert harness.list_texts() == ["Paris."]
