"""How much a turn may add to its prompt, so that its own tools never fill the endpoint's context. Pure.

Sizes are estimated tokens; what does not fit is left out of new tool results, and that is said in them.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from bot.agent.history import (
    BYTES_PER_TOKEN,
    TOKENS_PER_IMAGE,
    TOKENS_PER_MESSAGE,
    estimate_tokens,
    replace_images,
)
from bot.agent.prompt import DATA_END, missing_data_end
from bot.domain import Message

MIN_RESULT_CHARS = 500  # characters that stay of any result
IMAGE_LEFT_OUT = "[a picture was here; there was no room for it]"
_LEFT_OUT = "\n[… {} characters left out{}]"
_READ_MORE = "; read_more with number {} and start {} goes on"
_NOTE_BYTES = len(_LEFT_OUT.encode()) + 8  # bytes, its number included
_EARLIER_NOTE = re.compile(
    r"\n\[… (\d+) characters left out(?:; read_more with number (\d+) and start (\d+) goes on)?]\Z"
)


class TokenBudget:
    """What is left of `tokens`; None: there is no bound."""

    def __init__(self, tokens: int | None) -> None:
        self._tokens_left = tokens

    @property
    def is_full(self) -> bool:
        """Whether a further tool result might not fit, however short."""
        return (
            self._tokens_left is not None
            and self._tokens_left < TOKENS_PER_MESSAGE + MIN_RESULT_CHARS // BYTES_PER_TOKEN
        )

    def has_room_for(self, messages: Sequence[Message]) -> bool:
        """Whether these messages would fit as they are."""
        return self._tokens_left is None or _estimate_with_reasoning(messages) <= self._tokens_left

    def spend(self, messages: Sequence[Message]) -> None:
        """These messages are added as they are."""
        if self._tokens_left is not None:
            self._tokens_left -= _estimate_with_reasoning(messages)

    def fit_results(self, results: Sequence[Message]) -> list[Message]:
        """Take these tool results, the long ones shortened so that all of them find room; in their order."""
        if self._tokens_left is None:
            return list(results)
        fitted: dict[int, Message] = {}
        room = self._tokens_left
        # The short ones first: what they leave of their share is for the long ones.
        for number, result in sorted(enumerate(results), key=lambda one: estimate_tokens([one[1]])):
            fitted[number] = _shorten_result(result, room // (len(results) - len(fitted)))
            room -= estimate_tokens([fitted[number]])
        self._tokens_left = room
        return [fitted[number] for number in range(len(results))]


def _estimate_with_reasoning(messages: Sequence[Message]) -> int:
    thoughts = sum(len((one.reasoning or "").encode("utf-8", "replace")) for one in messages)
    return estimate_tokens(messages) + thoughts // BYTES_PER_TOKEN


def _shorten_result(result: Message, max_tokens: int) -> Message:
    if (
        TOKENS_PER_IMAGE * len(result.images) > max_tokens // 2
    ):  # words tell more than pictures in the same room
        result = replace_images(result, IMAGE_LEFT_OUT)
    if estimate_tokens([result]) <= max_tokens or len(result.text) <= MIN_RESULT_CHARS + _NOTE_BYTES:
        return result
    before = _EARLIER_NOTE.search(result.text)  # the toolbox has shortened it already
    whole = result.text[: before.start()] if before else result.text
    text = whole.removesuffix(DATA_END)
    # The longer note holds many digits, and each of them is a token.
    if before:
        note = 2 * (_NOTE_BYTES + len(result.text) - len(text))
    else:
        note = _NOTE_BYTES + len(DATA_END)
    pictures = TOKENS_PER_IMAGE * len(result.images)
    room = max(0, (max_tokens - TOKENS_PER_MESSAGE - pictures) * BYTES_PER_TOKEN - note)
    kept = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    kept = kept if len(kept) >= MIN_RESULT_CHARS else text[:MIN_RESULT_CHARS]
    cut = len(text) - len(kept)
    left_out = cut + (int(before[1]) if before else 0)
    if before and before[2]:
        more = _READ_MORE.format(before[2], max(0, int(before[3]) - cut))
    else:
        more = ""
    return replace(result, text=kept + missing_data_end(whole, kept) + _LEFT_OUT.format(left_out, more))
