"""How much of a conversation goes into the prompt: bounded, and stable at its front so that the cache holds.
Pure.

Sizes are estimates, held against what the server counted for the chat's last prompt; the ledger has its
counts only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bot.agent.prompt import missing_data_end
from bot.domain import Message

# What a cut keeps is computed again. Keeping half would double all prefill in the long run, a quarter adds a
# third.
CUT_KEEPS_DIVISOR = 4
SHORTENED_FITS_DIVISOR = 2  # shortening alone will do if what is left takes at most this part of the room
BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 5  # the template's own tokens around one message
TOKENS_PER_IMAGE = 280  # the model's default
MAX_OLD_RESULT_CHARS = 300  # characters that stay of an old tool result
# A count so many times off the estimate says more about the estimate's text than about the next prompt
MAX_TOKEN_RATIO = 4.0

IMAGE_PLACEHOLDER = "[an image was here]"


@dataclass(frozen=True, slots=True)
class TurnSize:
    """Estimated tokens of a finished turn: as it is, and `short`, with short tool results and without images."""

    full_tokens: int
    short_tokens: int


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """What the prompt holds of the finished turns: those from index `first` on; those before `whole` are
    shortened.
    """

    first_turn: int = 0
    first_full_turn: int = 0


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Tokens these messages may take; rather too many than too few."""
    return sum(
        TOKENS_PER_MESSAGE + _count_bytes(message) // BYTES_PER_TOKEN + TOKENS_PER_IMAGE * len(message.images)
        for message in messages
    )


def _count_bytes(message: Message) -> int:
    texts = [message.text, *(part for call in message.calls for part in (call.name, call.arguments))]
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def estimate_held_tokens(turns: Sequence[TurnSize], history_cut: HistoryCut) -> int:
    """Estimated tokens of what the window holds."""
    shortened = sum(turn.short_tokens for turn in turns[history_cut.first_turn : history_cut.first_full_turn])
    return shortened + sum(
        turn.full_tokens for turn in turns[max(history_cut.first_turn, history_cut.first_full_turn) :]
    )


def fit_history(turns: Sequence[TurnSize], current_cut: HistoryCut, max_tokens: int) -> HistoryCut:
    """The window as it is while its turns fit into `room`, so that the prompt only grows at its end; else one
    big cut.

    A cut shortens all turns but the newest. If that does not make much room, whole turns leave, oldest first,
    until a quarter of it is taken. The newest turn stays, shortened, where it fits so.
    """
    if estimate_held_tokens(turns, current_cut) <= max_tokens:
        return current_cut
    newest = len(turns) - 1
    shorter = HistoryCut(current_cut.first_turn, max(current_cut.first_full_turn, newest))
    if estimate_held_tokens(turns, shorter) <= max_tokens // SHORTENED_FITS_DIVISOR:
        return shorter
    for first in range(current_cut.first_turn, len(turns)):
        if (
            estimate_held_tokens(turns, cut := replace(shorter, first_turn=first))
            <= max_tokens // CUT_KEEPS_DIVISOR
        ):
            return cut
    alone = HistoryCut(newest, len(turns))
    if estimate_held_tokens(turns, alone) <= max_tokens:
        return alone
    return HistoryCut(len(turns), len(turns))


def compute_token_ratio(estimated_tokens: int | None, counted_tokens: int | None) -> float:
    """Tokens the server counts where one is estimated, from a prompt of which both are known; 1 where they
    are not.
    """
    if not estimated_tokens or not counted_tokens:
        return 1.0
    return min(MAX_TOKEN_RATIO, max(1 / MAX_TOKEN_RATIO, counted_tokens / estimated_tokens))


def shorten_turn(messages: Iterable[Message]) -> list[Message]:
    """A turn's messages with old tool results cut to their beginning, and without images."""
    return [_shorten_message(message) for message in messages]


def replace_images(message: Message, placeholder: str) -> Message:
    """The message with a mark in the place of each image."""
    if not message.images:
        return message
    return replace(message, images=(), text="\n".join([*[placeholder] * len(message.images), message.text]))


def _shorten_message(message: Message) -> Message:
    message = replace_images(message, IMAGE_PLACEHOLDER)
    if message.role == "tool" and len(message.text) > MAX_OLD_RESULT_CHARS:
        kept = message.text[:MAX_OLD_RESULT_CHARS]
        left_out = len(message.text) - MAX_OLD_RESULT_CHARS
        return replace(
            message, text=f"{kept}{missing_data_end(message.text, kept)}\n[… {left_out} characters left out]"
        )
    return message
