"""How much of a conversation goes into the prompt: bounded, its front stable for the cache. Pure.

Sizes are estimates, corrected by what the server counted for the chat's last prompt; the usage records hold
the server's counts only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bot.agent.prompt import missing_data_end
from bot.domain import Message

# The server prefills what a cut keeps again. Keeping half would double all prefill in the long run, a quarter
# adds a third.
CUT_KEEPS_DIVISOR = 4
SHORTENED_FITS_DIVISOR = 2  # shortening alone is enough if the rest takes at most this part of the tokens
BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 5  # the template's own tokens around one message
TOKENS_PER_IMAGE = 280  # the model's default
MAX_OLD_RESULT_CHARS = 300  # characters that stay of an old tool result
# A count further off its estimate says more about that prompt's text than about the next prompt.
MAX_TOKEN_RATIO = 4.0

IMAGE_PLACEHOLDER = "[an image was here]"


@dataclass(frozen=True, slots=True)
class TurnSize:
    """Estimated tokens of a finished turn: in full, and with short tool results and without images."""

    full_tokens: int
    short_tokens: int


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """What the prompt holds of the finished turns: those from index `first_turn` on.

    Of these, the turns before index `first_full_turn` are shortened.
    """

    first_turn: int = 0
    first_full_turn: int = 0


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Tokens these messages may take, rather too many than too few."""
    return sum(
        TOKENS_PER_MESSAGE + _count_bytes(message) // BYTES_PER_TOKEN + TOKENS_PER_IMAGE * len(message.images)
        for message in messages
    )


def _count_bytes(message: Message) -> int:
    texts = [message.text, *(part for call in message.calls for part in (call.name, call.arguments))]
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def estimate_held_tokens(turns: Sequence[TurnSize], history_cut: HistoryCut) -> int:
    """Estimated tokens of the turns that a cut keeps."""
    first_full_turn = max(history_cut.first_turn, history_cut.first_full_turn)
    shortened_tokens = sum(turn.short_tokens for turn in turns[history_cut.first_turn : first_full_turn])
    return shortened_tokens + sum(turn.full_tokens for turn in turns[first_full_turn:])


def fit_history(turns: Sequence[TurnSize], current_cut: HistoryCut, max_tokens: int) -> HistoryCut:
    """The current cut while its turns fit into `max_tokens`; else a new, big one.

    So the prompt only grows at its end between cuts. A new cut shortens all turns but the newest; if the
    rest still takes more than half of the tokens, whole turns are dropped, oldest first, until it takes a
    quarter. The newest turn stays, shortened, where it fits so.
    """
    if estimate_held_tokens(turns, current_cut) <= max_tokens:
        return current_cut
    newest = len(turns) - 1
    shorter = HistoryCut(current_cut.first_turn, max(current_cut.first_full_turn, newest))
    if estimate_held_tokens(turns, shorter) <= max_tokens // SHORTENED_FITS_DIVISOR:
        return shorter
    for first in range(current_cut.first_turn, len(turns)):
        cut = replace(shorter, first_turn=first)
        if estimate_held_tokens(turns, cut) <= max_tokens // CUT_KEEPS_DIVISOR:
            return cut
    newest_only = HistoryCut(newest, len(turns))
    if estimate_held_tokens(turns, newest_only) <= max_tokens:
        return newest_only
    return HistoryCut(len(turns), len(turns))


def compute_token_ratio(estimated_tokens: int | None, counted_tokens: int | None) -> float:
    """Tokens the server counted for each estimated one, in one prompt; 1 where either is unknown."""
    if not estimated_tokens or not counted_tokens:
        return 1.0
    return min(MAX_TOKEN_RATIO, max(1 / MAX_TOKEN_RATIO, counted_tokens / estimated_tokens))


def shorten_turn(messages: Iterable[Message]) -> list[Message]:
    """A turn's messages with tool results cut to their beginning, and without images."""
    return [_shorten_message(message) for message in messages]


def replace_images(message: Message, placeholder: str) -> Message:
    """The message with a placeholder for each image."""
    if not message.images:
        return message
    lines = [placeholder] * len(message.images) + [message.text]
    return replace(message, images=(), text="\n".join(lines))


def _shorten_message(message: Message) -> Message:
    message = replace_images(message, IMAGE_PLACEHOLDER)
    if message.role != "tool" or len(message.text) <= MAX_OLD_RESULT_CHARS:
        return message
    beginning = message.text[:MAX_OLD_RESULT_CHARS]
    left_out = len(message.text) - MAX_OLD_RESULT_CHARS
    data_end = missing_data_end(message.text, beginning)
    return replace(message, text=f"{beginning}{data_end}\n[… {left_out} characters left out]")
