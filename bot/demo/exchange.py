"""Sends one question to the demo from the terminal, and prints the exchange."""

import asyncio
from collections.abc import Callable

from bot.canvases import OutputUnit
from bot.db.usage.turn_steps import TurnSteps
from bot.demo.environment import Demo
from bot.usage.breakdown import build_turn_breakdown, format_breakdown
from bot.usage.intervals import name_interval

MAX_SHOWN_CHARACTERS = 160  # characters of a tool's result
_FAILED_ENDINGS = {"away", "too_long", "refused", "empty"}

Echo = Callable[[str], None]


async def run_exchange(demo: Demo, text: str, stop: asyncio.Event, echo: Echo) -> int:
    """Send `text` as the visitor and print the exchange; returns 0 if an answer arrived, else 1.

    `stop` ends the waiting.
    """
    messages = demo.person.paste(text)
    if not await demo.wait_until_settled(messages[-1].update_id, stop):
        return 1
    turns = await demo.wait_for_breakdowns()
    answers = [message.text for message in demo.person.chat.bot_messages]
    echo(f"You: {text}")
    for turn in turns:
        _print_tools(turn, echo)
    for answer in answers or ["(no answer came)"]:
        echo(f"\nCanvasgram: {answer}")
    unit = await demo.find_output_unit()
    for turn in turns:
        _print_breakdown(turn, unit, echo)
    echo(f"\n{_describe_simulation(demo)}")
    if answers and not any(turn.ending in _FAILED_ENDINGS for turn in turns):
        return 0
    return 1


def _print_tools(turn: TurnSteps, echo: Echo) -> None:
    for tool in turn.tools:
        result = tool.result or tool.outcome or "no result"
        echo(f"  {tool.name} {_shorten(tool.arguments or '')} → {_shorten(result)}")


def _print_breakdown(turn: TurnSteps, unit: OutputUnit, echo: Echo) -> None:
    breakdown = build_turn_breakdown(turn)
    intervals = " · ".join(
        f"{name_interval(kind)} {seconds:.3f}" for kind, seconds in breakdown.interval_seconds
    )
    echo(f"\n  {breakdown.total_seconds:.3f} s: {intervals}\n  {format_breakdown(breakdown, unit)}")


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= MAX_SHOWN_CHARACTERS:
        return line
    return f"{line[:MAX_SHOWN_CHARACTERS]}…"


def _describe_simulation(demo: Demo) -> str:
    model = f"the model ({demo.model.description})"
    if demo.model.simulated is None:
        return f"Real: the gateway and {model}. Simulated: Telegram."
    return (
        f"Simulated: {model}, Telegram, and the web it searches. Real: the gateway, its tools, its database."
    )
