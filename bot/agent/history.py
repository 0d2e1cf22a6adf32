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
CUT_KEEPS_AT_MOST_DIVISOR = 2  # a cut keeps more where that is recent, but this part of the tokens at most
KEPT_TURNS = 6
LONG_TURN_TOKENS = 500  # of a turn whose text was pasted, or whose answer is long, apart from tool results
BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 5  # the template's own tokens around one message
TOKENS_PER_IMAGE = 280  # where the server tells no other number
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


def estimate_tokens(messages: Iterable[Message], image_tokens: int = TOKENS_PER_IMAGE) -> int:
    """Tokens these messages may take, rather too many than too few."""
    return sum(
        TOKENS_PER_MESSAGE + _count_bytes(message) // BYTES_PER_TOKEN + image_tokens * len(message.images)
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

    So the prompt only grows at its end between cuts. A new cut shortens all turns but the newest, and that
    one, too, where it is very long. If the rest still takes too much, whole turns are dropped, oldest first,
    until it takes a quarter; but the newest six turns stay, and all since the last long one, as far as they
    take at most half of the tokens. The newest turn stays, shortened, where it fits so.
    """
    if estimate_held_tokens(turns, current_cut) <= max_tokens:
        return current_cut
    newest = len(turns) - 1
    for first_full_turn in (newest, len(turns)):
        shorter = HistoryCut(current_cut.first_turn, max(current_cut.first_full_turn, first_full_turn))
        largest = _drop_to_fit(turns, shorter, max_tokens // CUT_KEEPS_AT_MOST_DIVISOR)
        if largest == shorter:
            return shorter
        if largest.first_turn <= newest:
            usual = _drop_to_fit(turns, shorter, max_tokens // CUT_KEEPS_DIVISOR)
            kept_turn = max(largest.first_turn, _find_first_kept_turn(turns))
            return replace(shorter, first_turn=min(usual.first_turn, kept_turn))
    newest_only = HistoryCut(newest, len(turns))
    if estimate_held_tokens(turns, newest_only) <= max_tokens:
        return newest_only
    return HistoryCut(len(turns), len(turns))


def _drop_to_fit(turns: Sequence[TurnSize], cut: HistoryCut, max_tokens: int) -> HistoryCut:
    """The cut, moved on until its turns fit; beyond the newest turn where that alone does not."""
    for first in range(cut.first_turn, len(turns)):
        moved_cut = replace(cut, first_turn=first)
        if estimate_held_tokens(turns, moved_cut) <= max_tokens:
            return moved_cut
    return replace(cut, first_turn=len(turns))


def _find_first_kept_turn(turns: Sequence[TurnSize]) -> int:
    """Index from which on turns should stay: the newest few, and those since the last long text."""
    first_recent = max(0, len(turns) - KEPT_TURNS)
    long_turns = (
        index for index in reversed(range(len(turns))) if turns[index].short_tokens >= LONG_TURN_TOKENS
    )
    return min(first_recent, next(long_turns, first_recent))


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
