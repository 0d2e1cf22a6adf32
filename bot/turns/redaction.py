"""What of a prompt may leave the network: notes, files and images only if the chat has allowed them.

Pure. Works on the marks the gateway puts around text of others: nothing inside such a block can end it or
begin another.
"""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Final

from bot.agent import history
from bot.db.conversations.chat_settings import CONTENT_KINDS, ContentKind
from bot.domain import Message

# A block whose end was cut off reaches to the end of its text.
_DATA_BLOCK = r"\[data: {label}[^\]\n]*\]\n.*?(?:\n\[end of data\]|\Z)"
_FILE_BLOCK = re.compile(_DATA_BLOCK.format(label=r"file\b"), re.DOTALL)
_NOTES_KINDS = frozenset[ContentKind]({"notes"})
_FILES_KINDS = frozenset[ContentKind]({"files"})
_PAST_KINDS = frozenset[ContentKind]({"notes", "files"})
_HEAD_BLOCKS = (
    (re.compile(_DATA_BLOCK.format(label="notes of this chat"), re.DOTALL), _NOTES_KINDS),
    (re.compile(_DATA_BLOCK.format(label="names of files kept"), re.DOTALL), _FILES_KINDS),
    (re.compile(_DATA_BLOCK.format(label="summary of what was said before"), re.DOTALL), _PAST_KINDS),
)
HEAD_MESSAGES: Final = 3  # messages behind the system text that may be such a block
# By tool: the kinds of content its results may contain.
_KINDS_BY_TOOL = {
    "recall": _NOTES_KINDS,
    "look_back": _PAST_KINDS,
}

NO_RESULT = "[left out: it may tell of what must stay here]"
NO_FILE = "[a file was left out]"
NO_IMAGE = "[an image was left out]"


@dataclass(frozen=True, slots=True)
class RedactedPrompt:
    """A prompt as it may leave the network, and the kinds of content left out of it."""

    messages: tuple[Message, ...]
    left_out: frozenset[ContentKind] = frozenset()


def redact(messages: Iterable[Message], allowed_kinds: Iterable[ContentKind]) -> RedactedPrompt:
    """The prompt without content that may not leave the network; a message of nothing else is left out."""
    redactor = _Redactor(set(CONTENT_KINDS) - set(allowed_kinds))
    redacted = [redactor.redact(message, position) for position, message in enumerate(messages)]
    return RedactedPrompt(
        tuple(message for message in redacted if message is not None), frozenset(redactor.left_out)
    )


class _Redactor:
    """Redacts the messages of one prompt, in order, and records what it left out."""

    def __init__(self, forbidden: set[ContentKind]) -> None:
        self.left_out: set[ContentKind] = set()
        self._forbidden = forbidden
        # By call id: the kinds of content the call's result may contain.
        self._kinds_by_call: dict[str | None, frozenset[ContentKind]] = {}

    def redact(self, message: Message, position: int) -> Message | None:
        """The message at this position of the prompt as it may go out; None if nothing of it may."""
        for call in message.calls:
            self._kinds_by_call[call.id] = _KINDS_BY_TOOL.get(call.name, frozenset())
        if message.role == "user":
            return self._redact_user_message(message, in_head=0 < position <= HEAD_MESSAGES)
        if message.role == "tool":
            return self._redact_tool_result(message)
        return message

    def _redact_user_message(self, message: Message, *, in_head: bool) -> Message | None:
        if in_head and any(
            block.fullmatch(message.text) and self._must_withhold(kinds) for block, kinds in _HEAD_BLOCKS
        ):
            return None
        return self._redact_content(message)

    def _redact_tool_result(self, message: Message) -> Message:
        if self._must_withhold(self._kinds_by_call.get(message.call_id, frozenset())):
            return replace(message, text=NO_RESULT, images=())
        return self._redact_content(message)

    def _redact_content(self, message: Message) -> Message:
        text = self._strip_files(message.text)
        if message.images and self._must_withhold({"images"}):
            return history.replace_images(replace(message, text=text), NO_IMAGE)
        if text == message.text:
            return message
        return replace(message, text=text)

    def _strip_files(self, text: str) -> str:
        if not _FILE_BLOCK.search(text) or not self._must_withhold({"files"}):
            return text
        return _FILE_BLOCK.sub(NO_FILE, text)

    def _must_withhold(self, kinds: Set[ContentKind]) -> bool:
        """Whether content of any of these kinds is left out; records it if so."""
        forbidden = kinds & self._forbidden
        self.left_out |= forbidden
        return bool(forbidden)
