"""How much a turn may add to its prompt, so that its own tools never fill the endpoint's context. Pure.

Sizes are estimated tokens; what does not fit is left out of new tool results, and they say so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    """What is left of `tokens`. `image_tokens`: of a picture."""

    def __init__(self, tokens: int, image_tokens: int = TOKENS_PER_IMAGE) -> None:
        self._tokens_left = tokens
        self._image_tokens = image_tokens

    @property
    def is_full(self) -> bool:
        """Whether a further tool result might not fit, however short."""
        return self._tokens_left < TOKENS_PER_MESSAGE + MIN_RESULT_CHARS // BYTES_PER_TOKEN

    def can_fit(self, messages: Sequence[Message]) -> bool:
        """Whether these messages would fit as they are."""
        return self._estimate(messages) <= self._tokens_left

    def spend(self, messages: Sequence[Message]) -> None:
        """Count messages that were added as they are."""
        self._tokens_left -= self._estimate(messages)

    def fit_results(self, results: Sequence[Message]) -> list[Message]:
        """These tool results in their order, the long ones shortened so that all fit; they are counted."""
        fitted: dict[int, Message] = {}
        # The short ones first: what they leave of their share is for the long ones.
        sizes = [estimate_tokens([result], self._image_tokens) for result in results]
        for number in sorted(range(len(results)), key=sizes.__getitem__):
            share = self._tokens_left // (len(results) - len(fitted))
            fitted[number] = _shorten_result(results[number], share, self._image_tokens)
            self._tokens_left -= estimate_tokens([fitted[number]], self._image_tokens)
        return [fitted[number] for number in range(len(results))]

    def _estimate(self, messages: Sequence[Message]) -> int:
        """Tokens of these messages, their thoughts included."""
        thoughts = [message.reasoning or "" for message in messages]
        thought_bytes = sum(len(thought.encode("utf-8", "replace")) for thought in thoughts)
        return estimate_tokens(messages, self._image_tokens) + thought_bytes // BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class _EarlierCut:
    """What the toolbox left out of a result already, and from where `read_more` would continue it."""

    left_out: int = 0
    read_more_number: str | None = None
    start: int = 0

    def describe_further_cut(self, cut_chars: int) -> str:
        """The note after `cut_chars` more characters were cut in front of it."""
        more = ""
        if self.read_more_number:
            more = _READ_MORE.format(self.read_more_number, max(0, self.start - cut_chars))
        return _LEFT_OUT.format(cut_chars + self.left_out, more)


def _split_earlier_note(text: str) -> tuple[str, _EarlierCut | None]:
    note = _EARLIER_NOTE.search(text)
    if note is None:
        return text, None
    return text[: note.start()], _EarlierCut(int(note[1]), note[2], int(note[3] or 0))


def _shorten_result(result: Message, max_tokens: int, tokens_per_image: int) -> Message:
    # Text tells more than pictures in the same space.
    if tokens_per_image * len(result.images) > max_tokens // 2:
        result = replace_images(result, IMAGE_LEFT_OUT)
    if (
        estimate_tokens([result], tokens_per_image) <= max_tokens
        or len(result.text) <= MIN_RESULT_CHARS + _NOTE_BYTES
    ):
        return result
    marked_text, earlier_cut = _split_earlier_note(result.text)
    text = marked_text.removesuffix(DATA_END)
    if earlier_cut is None:
        note_bytes = _NOTE_BYTES + len(DATA_END)
    else:
        # The longer note holds many digits, and each of them is a token.
        note_bytes = 2 * (_NOTE_BYTES + len(result.text) - len(text))
    image_tokens = tokens_per_image * len(result.images)
    max_bytes = max(0, (max_tokens - TOKENS_PER_MESSAGE - image_tokens) * BYTES_PER_TOKEN - note_bytes)
    kept_text = text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
    if len(kept_text) < MIN_RESULT_CHARS:
        kept_text = text[:MIN_RESULT_CHARS]
    note = (earlier_cut or _EarlierCut()).describe_further_cut(len(text) - len(kept_text))
    return replace(result, text=kept_text + missing_data_end(marked_text, kept_text) + note)
