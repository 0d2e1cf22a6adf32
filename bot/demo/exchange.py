"""One question put to the demo from the terminal, and what came of it in plain lines."""

import asyncio
from collections.abc import Callable

from bot.db.usage.breakdowns import TurnRow
from bot.demo.environment import Demo
from bot.errors import SettingsRefused
from bot.usage.breakdown import account, in_words

SHOWN = 160  # characters of a tool's result
_NO_ANSWER = {"away", "too_long", "refused", "empty"}

Tell = Callable[[str], None]


async def ask(demo: Demo, text: str, stop: asyncio.Event, tell: Tell) -> int:
    """Send `text` as the person and tell the exchange: 0 if an answer came, else 1. A `stop` ends the
    waiting.
    """
    if not text.strip():
        raise SettingsRefused('--say must be a text. Example: canvasgram demo --say "What is 19 % of 84.50?"')
    posted = demo.person.paste(text)
    if not await demo.settled(posted[-1].update_id, stop):
        return 1
    turns = await demo.accounted()
    answers = [message.text for message in demo.person.chat.from_bot]
    tell(f"You: {text}")
    for turn in turns:
        _tell_tools(turn, tell)
    for answer in answers or ["(no answer came)"]:
        tell(f"\nCanvasgram: {answer}")
    for turn in turns:
        _tell_account(turn, tell)
    tell(f"\n{_said_plainly(demo)}")
    if answers and not any(turn.ending in _NO_ANSWER for turn in turns):
        return 0
    return 1


def _tell_tools(turn: TurnRow, tell: Tell) -> None:
    for tool in turn.tools:
        tell(
            f"  {tool.name} {_in_short(tool.arguments)} → {_in_short(tool.result or tool.outcome or 'no result')}"
        )


def _tell_account(turn: TurnRow, tell: Tell) -> None:
    counted = account(turn)
    seconds = " · ".join(f"{kind} {seconds:.3f}" for kind, seconds in counted.seconds)
    tell(f"\n  {counted.whole:.3f} s: {seconds}\n  {in_words(counted)}")


def _in_short(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= SHOWN:
        return line
    return f"{line[:SHOWN]}…"


def _said_plainly(demo: Demo) -> str:
    if demo.model.simulated is None:
        return f"Real: the gateway and the model ({demo.model.line}). Simulated: Telegram."
    return (
        f"Simulated: the model ({demo.model.line}) and Telegram. Real: the gateway, its tools, its database."
    )
