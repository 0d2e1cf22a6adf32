"""How much of a conversation goes into the prompt: bounded, and stable at its front so that the cache holds.
Pure.

Sizes are estimates, held against what the server counted for the chat's last prompt; the ledger has its
counts only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bot.agent.prompt import closing
from bot.domain import Message

# What a cut keeps is computed again. Keeping half would double all prefill in the long run, a quarter adds a
# third.
KEPT = 4
ENOUGH = 2  # shortening alone will do if what is left takes at most this part of the room
BYTES_A_TOKEN = 4
TOKENS_A_MESSAGE = 5  # the template's own tokens around one message
TOKENS_AN_IMAGE = 280  # the model's default
RESULT = 300  # characters that stay of an old tool result
# A count so many times off the estimate says more about the estimate's text than about the next prompt
ODD = 4.0

NO_IMAGE = "[an image was here]"


@dataclass(frozen=True, slots=True)
class TurnSize:
    """Estimated tokens of a finished turn: as it is, and `short`, with short tool results and without images."""

    whole: int
    short: int


@dataclass(frozen=True, slots=True)
class Window:
    """What the prompt holds of the finished turns: those from index `first` on; those before `whole` are
    shortened.
    """

    first: int = 0
    whole: int = 0


def estimate(messages: Iterable[Message]) -> int:
    """Tokens these messages may take; rather too many than too few."""
    return sum(
        TOKENS_A_MESSAGE + _bytes(message) // BYTES_A_TOKEN + TOKENS_AN_IMAGE * len(message.images)
        for message in messages
    )


def _bytes(message: Message) -> int:
    texts = [message.text, *(part for call in message.calls for part in (call.name, call.arguments))]
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def held(turns: Sequence[TurnSize], window: Window) -> int:
    """Estimated tokens of what the window holds."""
    shortened = sum(turn.short for turn in turns[window.first : window.whole])
    return shortened + sum(turn.whole for turn in turns[max(window.first, window.whole) :])


def fit(turns: Sequence[TurnSize], window: Window, room: int) -> Window:
    """The window as it is while its turns fit into `room`, so that the prompt only grows at its end; else one
    big cut.

    A cut shortens all turns but the newest. If that does not make much room, whole turns leave, oldest first,
    until a quarter of it is taken. The newest turn stays, shortened, where it fits so.
    """
    if held(turns, window) <= room:
        return window
    newest = len(turns) - 1
    shorter = Window(window.first, max(window.whole, newest))
    if held(turns, shorter) <= room // ENOUGH:
        return shorter
    for first in range(window.first, len(turns)):
        if held(turns, cut := replace(shorter, first=first)) <= room // KEPT:
            return cut
    alone = Window(newest, len(turns))
    if held(turns, alone) <= room:
        return alone
    return Window(len(turns), len(turns))


def ratio(estimated: int | None, counted: int | None) -> float:
    """Tokens the server counts where one is estimated, from a prompt of which both are known; 1 where they
    are not.
    """
    if not estimated or not counted:
        return 1.0
    return min(ODD, max(1 / ODD, counted / estimated))


def shortened(messages: Iterable[Message]) -> list[Message]:
    """A turn's messages with old tool results cut to their beginning, and without images."""
    return [_short(message) for message in messages]


def without_images(message: Message, mark: str) -> Message:
    """The message with a mark in the place of each image."""
    if not message.images:
        return message
    return replace(message, images=(), text="\n".join([*[mark] * len(message.images), message.text]))


def _short(message: Message) -> Message:
    message = without_images(message, NO_IMAGE)
    if message.role == "tool" and len(message.text) > RESULT:
        kept = message.text[:RESULT]
        left_out = len(message.text) - RESULT
        return replace(
            message, text=f"{kept}{closing(message.text, kept)}\n[… {left_out} characters left out]"
        )
    return message
