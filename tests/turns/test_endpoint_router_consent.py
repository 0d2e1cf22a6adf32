"""A second endpoint outside the own network: the chat is asked, and what it does not allow stays here."""

from pathlib import Path

import pytest

from bot.db.tables import lanes, turns
from bot.sim.vllm.server import Endpoint
from tests.support import attachment_files as made
from tests.support.gateway import ADMIN
from tests.support.two_endpoints import ALL, HOST, NO, SIGNED, YES, labels, two


async def test_outside_the_chat_is_asked_once_and_the_message_waits_until_yes(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.first.fault("busy", times=None)
        both.house.ann.send("@@say:here@@")
        question = await both.question()
        assert HOST in question.text
        assert labels(question) == [YES, ALL, NO]
        await both.house.api.until(
            lambda: any("With /consent the second" in text for text in both.house.texts())
        )
        tried = len(both.first.requests)
        await both.first.until(lambda: len(both.first.requests) > tried)
        assert both.second.requests == []
        both.tap(question, YES)
        await both.house.api.until(lambda: f"here\n\n{SIGNED}" in both.said())
        await both.house.api.until(
            lambda: not any(NO in labels(one) for one in both.house.api.chat(ADMIN).from_bot)
        )
        assert "may go to" in both.said()[0] or "may go to" in both.said()[1]
        assert len(both.second.requests) == 1
        both.house.ann.send("@@say:again@@")
        await both.house.api.until(lambda: f"again\n\n{SIGNED}" in both.said())
    assert await both.rows(lanes, "consent") == [(f"{HOST} text",)]
    assert [where for where, outcome, _ in await both.calls() if outcome == "ok"] == ["fallback", "fallback"]


async def test_after_a_no_the_message_waits_for_the_first_and_nobody_asks_again(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.first.fault("busy", times=None)
        both.house.ann.send("@@say:here@@")
        question = await both.question()
        both.tap(question, NO)
        await both.house.api.until(lambda: any("Nothing of this chat goes" in text for text in both.said()))
        both.first.heal()
        await both.house.api.until(lambda: "here" in both.said())
        both.first.fault("busy", times=3)
        both.house.ann.send("@@say:again@@")
        await both.house.api.until(lambda: "again" in both.said())
        assert both.second.requests == []
        assert not any(NO in labels(one) for one in both.house.api.chat(ADMIN).from_bot)


async def test_a_refusal_waits_for_the_answer_too_and_ends_at_once_after_a_no(tmp_path: Path):
    async with two(tmp_path, Endpoint(api_key="right"), model_api_key="wrong", outside=True) as both:
        both.house.ann.send("@@say:here@@")
        both.tap(await both.question(), NO)
        await both.house.api.until(lambda: any("refused my request" in text for text in both.said()))
        assert both.second.requests == []


async def test_deep_outside_asks_first_and_is_answered_once(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.house.ann.send("/deep @@say:far@@")
        question = await both.question()
        assert both.first.requests == both.second.requests == []
        both.tap(question, YES)
        await both.house.api.until(lambda: f"far\n\n{SIGNED}" in both.said())
        assert await both.ask("@@say:near@@", 3) == "near"
        assert len(both.second.requests) == 1
        assert both.said().count(f"far\n\n{SIGNED}") == 1


async def test_hard_turns_outside_are_answered_here_until_the_chat_agrees(tmp_path: Path):
    async with two(tmp_path, outside=True, fallback_for="hard", thinking="on") as both:
        both.house.ann.send("@@say:one@@")
        question = await both.question()
        await both.house.api.until(lambda: "one" in both.said())
        both.tap(question, YES)
        await both.house.api.until(lambda: any("may go to" in text for text in both.said()))
        both.house.ann.send("@@say:two@@")
        await both.house.api.until(lambda: f"two\n\n{SIGNED}" in both.said())


@pytest.mark.parametrize("label", [YES, ALL])
async def test_notes_and_files_stay_here_unless_they_are_allowed(tmp_path: Path, label: str):
    async with two(tmp_path, outside=True) as both:
        await both.ask('@@tool:remember {"note": "the door code is 4711"}@@@@say:noted@@')
        both.house.ann.send("/new")
        await both.answered(2)
        both.house.ann.send(
            "/deep [data: file plan.txt]\nburied treasure\n[end of data]\n@@tool:recall {}@@@@say:done@@"
        )
        both.tap(await both.question(), label)
        await both.house.api.until(lambda: any(text.startswith("done") for text in both.said()))
        signed = next(text for text in both.said() if text.startswith("done"))
        if label == YES:
            assert signed == f"done\n\n{SIGNED}, without your notes and files"
            assert "4711" not in both.sent()
            assert "buried" not in both.sent()
            assert "[a file was left out]" in both.sent()
        else:
            assert signed == f"done\n\n{SIGNED}"
            assert "4711" in both.sent()
            assert "buried treasure" in both.sent()


@pytest.mark.parametrize("label", [YES, ALL])
async def test_images_stay_here_unless_they_are_allowed(tmp_path: Path, label: str):
    async with two(tmp_path, outside=True) as both:
        both.house.ann.send_photo("/deep @@say:seen@@", content=made.image(40, 30))
        both.tap(await both.question(), label)
        await both.house.api.until(lambda: any(text.startswith("seen") for text in both.said()))
        signed = next(text for text in both.said() if text.startswith("seen"))
        if label == YES:
            assert signed == f"seen\n\n{SIGNED}, without your images"
            assert "[an image was left out]" in both.sent()
            assert "image_url" not in both.sent()
        else:
            assert signed == f"seen\n\n{SIGNED}"
            assert "data:image/" in both.sent()


async def test_consent_withdrawn_between_two_steps_ends_the_turn_at_the_first(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.house.ann.send("/consent")
        both.tap(await both.question(), YES)
        await both.house.api.until(lambda: any("may go to" in text for text in both.said()))
        both.second.hold()
        both.house.ann.send('/deep @@tool:calculate {"expression": "6*7"}@@@@say:done@@')
        await both.second.until(lambda: both.second.running == 1)
        both.house.ann.send("/consent")
        both.tap(await both.message_with("Send nothing there"), "Send nothing there")
        await both.house.api.until(lambda: any("Nothing of this chat" in text for text in both.said()))
        both.second.release()
        await both.house.api.until(lambda: any(text.startswith("done") for text in both.said()))
        assert len(both.second.requests) == 1
    assert (await both.rows(turns, "endpoint", "endpoint_why"))[0] == ("main", f"the chat says no to {HOST}")
