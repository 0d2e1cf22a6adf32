"""Which finished turns go into the prompt: bounded, and stable at its front so that the prefix cache holds. Pure.

Sizes are estimates, used for this judgement only; what is accounted for comes from the server's usage.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bot.domain import Message

# What a cut keeps is computed again. Keeping half would double all prefill in the long run, a quarter adds a third.
KEPT = 4
BYTES_A_TOKEN = 4
TOKENS_A_MESSAGE = 5  # the template's own tokens around one message


@dataclass(frozen=True, slots=True)
class TurnSize:
    """Estimated tokens of a turn: of the user messages that open it, and of the whole of it once finished."""

    opening: int
    whole: int


def estimate(messages: Iterable[Message]) -> int:
    """Tokens these messages may take; rather too many than too few."""
    return sum(TOKENS_A_MESSAGE + _bytes(message) // BYTES_A_TOKEN for message in messages)


def _bytes(message: Message) -> int:
    texts = [message.text, *(part for call in message.calls for part in (call.name, call.arguments))]
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def choose(turns: Sequence[TurnSize], newest: int, budget: int, fixed: int) -> int:
    """Index of the first finished turn that goes into the prompt; `len(turns)` if none fits.

    `fixed` is the estimate of system text, tools and notes, `newest` of the messages to be answered. The past is played
    again turn by turn: whenever a prompt would have passed the budget, its front was cut at once to a quarter of what
    the history may take. Between two cuts the answer stays the same, so that the prompt only grows at its end.
    """
    room = budget - fixed
    first, held = 0, 0
    for index, opening in enumerate([*(turn.opening for turn in turns), newest]):
        if held + opening > room:
            while first < index and held + opening > room // KEPT:
                held -= turns[first].whole
                first += 1
        if index < len(turns):
            held += turns[index].whole
    return first
