"""A second endpoint outside our network: the chat is asked, and what it does not allow is not sent."""

from pathlib import Path

import pytest

from bot.db.tables import lanes, turns
from tests.support import attachment_files
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN
from tests.support.two_endpoints import ALL, HOST, NO, SIGNATURE, YES, button_labels, open_two_endpoints


async def test_outside_the_chat_is_asked_once_and_the_message_waits_until_yes(tmp_path: Path):
    async with open_two_endpoints(tmp_path, is_external=True) as both:
        both.main.inject_fault("busy", times=None)
        both.gateway.ann.send("@@say:here@@")
        question = await both.wait_for_question()
        assert HOST in question.text
        assert button_labels(question) == [YES, ALL, NO]
        await both.gateway.api.wait_until(
            lambda: any(
                "To let the second model answer, allow it with /consent" in text
                for text in both.gateway.texts()
            )
        )
        attempt_count = len(both.main.requests)
        await both.main.wait_until(lambda: len(both.main.requests) > attempt_count)
        assert both.fallback.requests == []
        both.tap(question, YES)
        await both.gateway.api.wait_until(lambda: f"here\n\n{SIGNATURE}" in both.final_texts())
        await both.gateway.api.wait_until(
            lambda: (
                not any(NO in button_labels(message) for message in both.gateway.api.chat(ADMIN).bot_messages)
            )
        )
        assert "May be sent to" in both.final_texts()[0] or "May be sent to" in both.final_texts()[1]
        assert len(both.fallback.requests) == 1
        both.gateway.ann.send("@@say:again@@")
        await both.gateway.api.wait_until(lambda: f"again\n\n{SIGNATURE}" in both.final_texts())
    assert await both.load_rows(lanes, "consent") == [(f"{HOST} text",)]
    assert [role for role, outcome, _ in await both.load_calls() if outcome == "ok"] == [
        "fallback",
        "fallback",
    ]


async def test_after_a_no_the_message_waits_for_the_first_and_nobody_asks_again(tmp_path: Path):
    async with open_two_endpoints(tmp_path, is_external=True) as both:
        both.main.inject_fault("busy", times=None)
        both.gateway.ann.send("@@say:here@@")
        question = await both.wait_for_question()
        both.tap(question, NO)
        await both.gateway.api.wait_until(
            lambda: any("Nothing from this chat is sent" in text for text in both.final_texts())
        )
        both.main.heal()
        await both.gateway.api.wait_until(lambda: "here" in both.final_texts())
        both.main.inject_fault("busy", times=3)
        both.gateway.ann.send("@@say:again@@")
        await both.gateway.api.wait_until(lambda: "again" in both.final_texts())
        assert both.fallback.requests == []
        assert not any(NO in button_labels(message) for message in both.gateway.api.chat(ADMIN).bot_messages)


async def test_a_refusal_waits_for_the_answer_too_and_ends_at_once_after_a_no(tmp_path: Path):
    async with open_two_endpoints(
        tmp_path, ScriptedEndpoint(api_key="right"), model_api_key="wrong", is_external=True
    ) as both:
        both.gateway.ann.send("@@say:here@@")
        both.tap(await both.wait_for_question(), NO)
        await both.gateway.api.wait_until(
            lambda: any("refused my request" in text for text in both.final_texts())
        )
        assert both.fallback.requests == []


async def test_deep_outside_asks_first_and_is_answered_once(tmp_path: Path):
    async with open_two_endpoints(tmp_path, is_external=True) as both:
        both.gateway.ann.send("/deep @@say:far@@")
        question = await both.wait_for_question()
        assert both.main.requests == both.fallback.requests == []
        both.tap(question, YES)
        await both.gateway.api.wait_until(lambda: f"far\n\n{SIGNATURE}" in both.final_texts())
        assert await both.send("@@say:near@@", 3) == "near"
        assert len(both.fallback.requests) == 1
        assert both.final_texts().count(f"far\n\n{SIGNATURE}") == 1


async def test_hard_turns_outside_are_answered_here_until_the_chat_agrees(tmp_path: Path):
    async with open_two_endpoints(tmp_path, is_external=True, fallback_for="hard", thinking="on") as both:
        both.gateway.ann.send("@@say:one@@")
        question = await both.wait_for_question()
        await both.gateway.api.wait_until(lambda: "one" in both.final_texts())
        both.tap(question, YES)
        await both.gateway.api.wait_until(lambda: any("May be sent" in text for text in both.final_texts()))
        both.gateway.ann.send("@@say:two@@")
        await both.gateway.api.wait_until(lambda: f"two\n\n{SIGNATURE}" in both.final_texts())


@pytest.mark.parametrize("label", [YES, ALL])
async def test_notes_and_files_stay_here_unless_they_are_allowed(tmp_path: Path, label: str):
    async with open_two_endpoints(tmp_path, is_external=True) as both:
        await both.send('@@tool:remember {"note": "the door code is 4711"}@@@@say:noted@@')
        both.gateway.ann.send("/new")
        await both.wait_for_answer(2)
        both.gateway.ann.send(
            "/deep [data: file plan.txt]\nburied treasure\n[end of data]\n@@tool:recall {}@@@@say:done@@"
        )
        both.tap(await both.wait_for_question(), label)
        await both.gateway.api.wait_until(lambda: any(text.startswith("done") for text in both.final_texts()))
        signed = next(text for text in both.final_texts() if text.startswith("done"))
        if label == YES:
            assert signed == f"done\n\n{SIGNATURE}, without: notes, files"
            assert "4711" not in both.sent_to_fallback()
            assert "buried" not in both.sent_to_fallback()
            assert "[a file was left out]" in both.sent_to_fallback()
        else:
            assert signed == f"done\n\n{SIGNATURE}"
            assert "4711" in both.sent_to_fallback()
            assert "buried treasure" in both.sent_to_fallback()


@pytest.mark.parametrize("label", [YES, ALL])
async def test_images_stay_here_unless_they_are_allowed(tmp_path: Path, label: str):
    async with open_two_endpoints(tmp_path, is_external=True) as both:
        both.gateway.ann.send_photo("/deep @@say:seen@@", content=attachment_files.make_image(40, 30))
        both.tap(await both.wait_for_question(), label)
        await both.gateway.api.wait_until(lambda: any(text.startswith("seen") for text in both.final_texts()))
        signed = next(text for text in both.final_texts() if text.startswith("seen"))
        if label == YES:
            assert signed == f"seen\n\n{SIGNATURE}, without: images"
            assert "[an image was left out]" in both.sent_to_fallback()
            assert "image_url" not in both.sent_to_fallback()
        else:
            assert signed == f"seen\n\n{SIGNATURE}"
            assert "data:image/" in both.sent_to_fallback()


async def test_consent_withdrawn_between_two_steps_ends_the_turn_at_the_first(tmp_path: Path):
    async with open_two_endpoints(tmp_path, is_external=True) as both:
        both.gateway.ann.send("/consent")
        both.tap(await both.wait_for_question(), YES)
        await both.gateway.api.wait_until(lambda: any("May be sent" in text for text in both.final_texts()))
        both.fallback.hold()
        both.gateway.ann.send('/deep @@tool:calculate {"expression": "6*7"}@@@@say:done@@')
        await both.fallback.wait_until(lambda: both.fallback.running == 1)
        both.gateway.ann.send("/consent")
        both.tap(await both.wait_for_button("Send nothing there"), "Send nothing there")
        await both.gateway.api.wait_until(
            lambda: any("Nothing from this chat" in text for text in both.final_texts())
        )
        both.fallback.release()
        await both.gateway.api.wait_until(lambda: any(text.startswith("done") for text in both.final_texts()))
        assert len(both.fallback.requests) == 1
    assert (await both.load_rows(turns, "endpoint", "endpoint_why"))[0] == (
        "main",
        f"the chat says no to {HOST}",
    )
