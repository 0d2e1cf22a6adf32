"""How much a turn may add to its prompt, so that its own tools never fill the endpoint's context. Pure.

Sizes are estimated tokens; what does not fit is left out of new tool results, and that is said in them.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from bot.agent.history import BYTES_A_TOKEN, TOKENS_A_MESSAGE, TOKENS_AN_IMAGE, estimate, without_images
from bot.agent.prompt import END, closing
from bot.domain import Message

LEAST = 500  # characters that stay of any result
NO_ROOM = "[a picture was here; there was no room for it]"
_LEFT_OUT = "\n[… {} characters left out{}]"
_MORE = "; read_more with number {} and start {} goes on"
_NOTE = len(_LEFT_OUT.encode()) + 8  # bytes, its number included
_BEFORE = re.compile(
    r"\n\[… (\d+) characters left out(?:; read_more with number (\d+) and start (\d+) goes on)?]\Z"
)


class Room:
    """What is left of `tokens`; None: there is no bound."""

    def __init__(self, tokens: int | None) -> None:
        self._left = tokens

    @property
    def is_full(self) -> bool:
        """Whether a further tool result might not fit, however short."""
        return self._left is not None and self._left < TOKENS_A_MESSAGE + LEAST // BYTES_A_TOKEN

    def holds(self, messages: Sequence[Message]) -> bool:
        """Whether these messages would fit as they are."""
        return self._left is None or _size(messages) <= self._left

    def take(self, messages: Sequence[Message]) -> None:
        """These messages are added as they are."""
        if self._left is not None:
            self._left -= _size(messages)

    def fit(self, results: Sequence[Message]) -> list[Message]:
        """Take these tool results, the long ones shortened so that all of them find room; in their order."""
        if self._left is None:
            return list(results)
        fitted: dict[int, Message] = {}
        room = self._left
        # The short ones first: what they leave of their share is for the long ones.
        for number, result in sorted(enumerate(results), key=lambda one: estimate([one[1]])):
            fitted[number] = _shortened(result, room // (len(results) - len(fitted)))
            room -= estimate([fitted[number]])
        self._left = room
        return [fitted[number] for number in range(len(results))]


def _size(messages: Sequence[Message]) -> int:
    thoughts = sum(len((one.reasoning or "").encode("utf-8", "replace")) for one in messages)
    return estimate(messages) + thoughts // BYTES_A_TOKEN


def _shortened(result: Message, tokens: int) -> Message:
    if TOKENS_AN_IMAGE * len(result.images) > tokens // 2:  # words tell more than pictures in the same room
        result = without_images(result, NO_ROOM)
    if estimate([result]) <= tokens or len(result.text) <= LEAST + _NOTE:
        return result
    before = _BEFORE.search(result.text)  # the toolbox has shortened it already
    whole = result.text[: before.start()] if before else result.text
    text = whole.removesuffix(END)
    # The longer note holds many digits, and each of them is a token.
    if before:
        note = 2 * (_NOTE + len(result.text) - len(text))
    else:
        note = _NOTE + len(END)
    pictures = TOKENS_AN_IMAGE * len(result.images)
    room = max(0, (tokens - TOKENS_A_MESSAGE - pictures) * BYTES_A_TOKEN - note)
    kept = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    kept = kept if len(kept) >= LEAST else text[:LEAST]
    cut = len(text) - len(kept)
    left_out = cut + (int(before[1]) if before else 0)
    if before and before[2]:
        more = _MORE.format(before[2], max(0, int(before[3]) - cut))
    else:
        more = ""
    return replace(result, text=kept + closing(whole, kept) + _LEFT_OUT.format(left_out, more))
