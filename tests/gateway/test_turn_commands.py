"""With the whole house: what a person types and taps about thinking, cost, the prompt, and an answer that was
cut.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import ChatRequest, Endpoint
from bot.telegram.commands.callbacks import GO_ON
from tests.support.gateway import ADMIN, World, open_house


async def tapped(house: World, button: str, becomes: str) -> list[str]:
    """The lines of the newest message once its button has been pressed and it says what it shall."""
    message = house.api.chat(ADMIN).from_bot[-1]
    house.ann.tap(message, button)
    await house.api.until(lambda: message.text.startswith(becomes))
    return message.text.splitlines()


STORY = " ".join(f"Then came day {number}." for number in range(2000))  # longer than what goes on by itself


def offering(house: World, button: str) -> ChatMessage | None:
    """The bot's newest message, if it has this button."""
    newest = next(reversed(house.api.chat(ADMIN).from_bot), None)
    return newest if newest and button in {one["text"] for one in newest.buttons} else None


async def test_think_holds_from_the_next_turn_and_the_details_say_why(tmp_path: Path):
    async with open_house(tmp_path, thinking="off") as house:
        house.ann.send("@@say:one@@")
        await house.answered()
        house.ann.send("/think")
        assert (await house.answered(2))[1].startswith("Thinking in this chat: off, as the house does.")
        await tapped(house, "on", "Thinking in this chat: on (the house: off).")
        house.ann.send("@@think:hm@@@@say:two@@")
        await house.answered(3)
        thinking = [
            request.body["chat_template_kwargs"]["enable_thinking"]
            for request in house.endpoint.requests[-2:]
        ]
        assert thinking == [False, True]
        house.ann.send("/usage")
        await house.answered(4)
        details = await tapped(house, "Details", "Turn ")
        assert details[1:3] == ["Thinking: on", "Why: you asked for it: /think on"]
        assert details[4].startswith("1. 1 canvas, ")
        assert details[-1] == f"Model: {house.endpoint.model}"
        assert (await tapped(house, "Back", "Last:"))[0].startswith("Last: 1 canvas est., ")


async def test_context_tells_of_the_next_prompt_and_of_the_last(tmp_path: Path):
    async with open_house(tmp_path) as house:
        house.ann.send("/context")
        (empty,) = await house.answered()
        assert empty.splitlines()[-1] == "Last time the server counted: unknown"
        assert "\ntool clock: " in empty
        house.ann.send("@@say:one@@")
        await house.answered(2)
        house.ann.send("/context")
        told = (await house.answered(3))[2].splitlines()
    assert any(line.startswith("1 turn: ") for line in told)
    assert told[-1] != empty.splitlines()[-1]


async def test_an_answer_cut_at_its_length_goes_on_at_a_tap_once(tmp_path: Path):
    def tell(request: ChatRequest) -> str:
        return STORY[len(request.so_far) :] if request.asked[-1] != GO_ON else "The end."

    async with open_house(tmp_path, Endpoint(brain=tell)) as house:
        house.ann.send("tell me a long story")
        cut = await house.api.until(lambda: offering(house, "Continue"), 30)
        assert cut is not None
        count = len(house.texts())
        house.endpoint.hold()
        tap = house.ann.tap(cut, "Continue")
        await house.api.until(lambda: tap.answer)
        assert tap.answer == {"text": "I go on.", "show_alert": False}
        await house.api.until(lambda: not cut.buttons)
        house.endpoint.release()
        assert (await house.answered(count + 1))[-1] == "The end."
    with closing(sqlite3.connect(tmp_path / "house.db")) as database:
        [[body]] = database.execute("select body from inbox where kind = 'task'").fetchall()
    assert json.loads(body)["goes_on"]
