"""Commands and buttons about thinking, cost, the prompt, and an answer that was cut, in the whole gateway."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.chat.commands.callbacks import CONTINUE_PROMPT
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import ChatRequest
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway


async def tap_and_wait(gateway: GatewayHarness, button: str, expected_prefix: str) -> list[str]:
    """The lines of the newest message once its button has been pressed and it says what it shall."""
    message = gateway.api.chat(ADMIN).bot_messages[-1]
    gateway.ann.tap(message, button)
    await gateway.api.wait_until(lambda: message.text.startswith(expected_prefix))
    return message.text.splitlines()


STORY = " ".join(f"Then came day {number}." for number in range(2000))  # longer than what goes on by itself


def find_message_with_button(gateway: GatewayHarness, button: str) -> ChatMessage | None:
    """The bot's newest message, if it has this button."""
    newest = next(reversed(gateway.api.chat(ADMIN).bot_messages), None)
    return newest if newest and button in {button["text"] for button in newest.buttons} else None


async def test_think_holds_from_the_next_turn_and_the_details_say_why(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        gateway.ann.send("@@say:one@@")
        await gateway.wait_for_texts()
        gateway.ann.send("/think")
        assert (await gateway.wait_for_texts(2))[1].startswith("Thinking here: off (the default).")
        await tap_and_wait(gateway, "on", "Thinking here: on (the default: off).")
        gateway.ann.send("@@think:hm@@@@say:two@@")
        await gateway.wait_for_texts(3)
        thinking = [
            request.body["chat_template_kwargs"]["enable_thinking"]
            for request in gateway.endpoint.requests[-2:]
        ]
        assert thinking == [False, True]
        gateway.ann.send("/usage")
        await gateway.wait_for_texts(4)
        details = await tap_and_wait(gateway, "Details", "Answer ")
        assert details[1:3] == ["Thinking: on", "Why: you asked for it: /think on"]
        assert details[4].startswith("1. 1 canvas, ")
        assert details[-1] == f"Model: {gateway.endpoint.model}"
        summary = await tap_and_wait(gateway, "Back", "Answer:")
        assert summary[0].endswith(", 1 canvas est.")
        assert summary[5:7] == ["Thinking, 30 d: 1 of 2 turns", "    1 of 2 canvases est."]
        assert summary[-1] == "    answered 100%, without 100%"


async def test_context_tells_of_the_next_prompt_and_of_the_last(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("/context")
        (empty,) = await gateway.wait_for_texts()
        assert empty.splitlines()[-1] == "The server's last count: unknown"
        assert "\ntool clock: " in empty
        gateway.ann.send("@@say:one@@")
        await gateway.wait_for_texts(2)
        gateway.ann.send("/context")
        lines = (await gateway.wait_for_texts(3))[2].splitlines()
    assert any(line.startswith("earlier messages: ") for line in lines)
    assert lines[-1] != empty.splitlines()[-1]


@pytest.mark.sqlite
async def test_an_answer_cut_at_its_length_goes_on_at_a_tap_once(tmp_path: Path):
    def tell(request: ChatRequest) -> str:
        return STORY[len(request.open_text) :] if request.user_texts[-1] != CONTINUE_PROMPT else "The end."

    async with running_gateway(tmp_path, ScriptedEndpoint(brain=tell)) as gateway:
        gateway.ann.send("tell me a long story")
        cut = await gateway.api.wait_until(lambda: find_message_with_button(gateway, "Continue"))
        assert cut is not None
        count = len(gateway.texts())
        gateway.endpoint.hold()
        tap = gateway.ann.tap(cut, "Continue")
        await gateway.api.wait_until(lambda: tap.answer)
        assert tap.answer == {"text": "I'll go on.", "show_alert": False}
        await gateway.api.wait_until(lambda: not cut.buttons)
        gateway.endpoint.release()
        assert (await gateway.wait_for_texts(count + 1))[-1] == "The end."
    with closing(sqlite3.connect(tmp_path / "gateway.db")) as database:
        [[body]] = database.execute("select body from inbox where kind = 'task'").fetchall()
    assert json.loads(body)["goes_on"]
