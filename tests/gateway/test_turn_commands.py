"""With the whole house: what a person types and taps about thinking, cost, the prompt, and an answer that was
cut.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import ChatRequest, SimulatedEndpoint
from bot.telegram.commands.callbacks import CONTINUE_PROMPT
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
    return newest if newest and button in {one["text"] for one in newest.buttons} else None


async def test_think_holds_from_the_next_turn_and_the_details_say_why(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as house:
        house.ann.send("@@say:one@@")
        await house.wait_for_texts()
        house.ann.send("/think")
        assert (await house.wait_for_texts(2))[1].startswith("Thinking in this chat: off, as the house does.")
        await tap_and_wait(house, "on", "Thinking in this chat: on (the house: off).")
        house.ann.send("@@think:hm@@@@say:two@@")
        await house.wait_for_texts(3)
        thinking = [
            request.body["chat_template_kwargs"]["enable_thinking"]
            for request in house.endpoint.requests[-2:]
        ]
        assert thinking == [False, True]
        house.ann.send("/usage")
        await house.wait_for_texts(4)
        details = await tap_and_wait(house, "Details", "Turn ")
        assert details[1:3] == ["Thinking: on", "Why: you asked for it: /think on"]
        assert details[4].startswith("1. 1 canvas, ")
        assert details[-1] == f"Model: {house.endpoint.model}"
        assert (await tap_and_wait(house, "Back", "Last:"))[0].startswith("Last: 1 canvas est., ")


async def test_context_tells_of_the_next_prompt_and_of_the_last(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        house.ann.send("/context")
        (empty,) = await house.wait_for_texts()
        assert empty.splitlines()[-1] == "Last time the server counted: unknown"
        assert "\ntool clock: " in empty
        house.ann.send("@@say:one@@")
        await house.wait_for_texts(2)
        house.ann.send("/context")
        told = (await house.wait_for_texts(3))[2].splitlines()
    assert any(line.startswith("1 turn: ") for line in told)
    assert told[-1] != empty.splitlines()[-1]


async def test_an_answer_cut_at_its_length_goes_on_at_a_tap_once(tmp_path: Path):
    def tell(request: ChatRequest) -> str:
        return STORY[len(request.open_text) :] if request.user_texts[-1] != CONTINUE_PROMPT else "The end."

    async with running_gateway(tmp_path, SimulatedEndpoint(brain=tell)) as house:
        house.ann.send("tell me a long story")
        cut = await house.api.wait_until(lambda: find_message_with_button(house, "Continue"), 30)
        assert cut is not None
        count = len(house.texts())
        house.endpoint.hold()
        tap = house.ann.tap(cut, "Continue")
        await house.api.wait_until(lambda: tap.answer)
        assert tap.answer == {"text": "I go on.", "show_alert": False}
        await house.api.wait_until(lambda: not cut.buttons)
        house.endpoint.release()
        assert (await house.wait_for_texts(count + 1))[-1] == "The end."
    with closing(sqlite3.connect(tmp_path / "house.db")) as database:
        [[body]] = database.execute("select body from inbox where kind = 'task'").fetchall()
    assert json.loads(body)["goes_on"]
