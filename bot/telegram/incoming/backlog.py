"""Decides which messages of a person are taken while others of theirs wait. Pure.

Messages that are forwarded one after another into a lane are a burst: it counts as one message, and is
bounded by what a prompt can hold of it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.agent.history import BYTES_PER_TOKEN
from bot.db.queues.claim import MARKS_BYTES, count_text_bytes
from bot.telegram.incoming.attachments import extract_media
from bot.telegram.incoming.prompt_text import extract_text

MAX_WAITING_MESSAGES = 20  # of one person; a burst is one
MEDIA_PER_BURST = 20  # files of one burst at most
REFUSED_TEXT_CHARS = 100  # stored of a refused message, which is named by its beginning
_REFUSED_KEYS = (  # stored of a refused message
    "message_id",
    "date",
    "chat",
    "from",
    "is_topic_message",
    "message_thread_id",
    "forward_origin",
)


@dataclass(frozen=True, slots=True)
class BacklogLimits:
    """`max_waiting`: messages of a person.

    `prompt_budget`: tokens of a prompt, half of which a burst may take.
    """

    max_waiting: int = MAX_WAITING_MESSAGES
    prompt_budget: int = 8000

    @property
    def max_burst_bytes(self) -> int:
        """About how much text the messages of one burst may have together."""
        return self.prompt_budget // 2 * BYTES_PER_TOKEN

    @property
    def max_turn_bytes(self) -> int:
        """About how much text one turn may answer: a burst, and what is asked about it."""
        return self.prompt_budget * 3 // 4 * BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message as the backlog counts it; `is_refused`: it was not taken, and its sender is about to be told.

    `text_bytes`, `has_media`: of a forwarded message.
    """

    lane: str
    is_forward: bool = False
    text_bytes: int = 0
    has_media: bool = False
    is_refused: bool = False


@dataclass(slots=True)
class Backlog:
    """What waits of one person; a burst ends with the next message of its lane that is no forward."""

    limits: BacklogLimits
    _message_count: int = 0
    _burst_bytes: dict[str, float] = field(default_factory=dict)  # of the burst that each lane ends with

    def add_waiting(self, messages: Iterable[WaitingMessage]) -> None:
        """Count messages that are stored already, oldest first."""
        for message in messages:
            if message.is_refused:
                self._burst_bytes[message.lane] = math.inf
            else:
                self._count(message)

    def try_add(self, message: WaitingMessage) -> bool:
        """Count a new message, if it is taken; of a burst nothing is taken behind what was refused."""
        burst_bytes = self._burst_bytes.get(message.lane)
        if message.is_forward and burst_bytes is not None:
            is_taken = burst_bytes + self._measure(message) <= self.limits.max_burst_bytes
        else:
            is_taken = self._message_count < self.limits.max_waiting
        if is_taken:
            self._count(message)
        elif message.is_forward:
            self._burst_bytes[message.lane] = math.inf
        return is_taken

    def _count(self, message: WaitingMessage) -> None:
        if not message.is_forward:
            self._burst_bytes.pop(message.lane, None)
            self._message_count += 1
            return
        if message.lane not in self._burst_bytes:
            self._message_count += 1
        self._burst_bytes[message.lane] = self._burst_bytes.get(message.lane, 0) + self._measure(message)

    def _measure(self, message: WaitingMessage) -> float:
        media_bytes = self.limits.max_burst_bytes / MEDIA_PER_BURST if message.has_media else 0
        return MARKS_BYTES + message.text_bytes + media_bytes


def build_waiting_message(
    raw_message: dict[str, Any], lane: str, *, is_refused: bool = False
) -> WaitingMessage:
    """Read from a raw message what the backlog counts of it."""
    if is_refused or not is_forwarded(raw_message):
        return WaitingMessage(lane, is_refused=is_refused)
    text_bytes = count_text_bytes(raw_message)
    has_media = extract_media(raw_message) is not None
    return WaitingMessage(lane, True, text_bytes, has_media)


def shorten_refused(raw_update: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of an update with a refused message what telling about it needs: who, where, its beginning."""
    raw_message = raw_update["message"]
    shortened = {key: raw_message[key] for key in _REFUSED_KEYS if key in raw_message}
    text = " ".join(extract_text(raw_message).split())[:REFUSED_TEXT_CHARS]
    if text:
        shortened["text"] = text
    return {"update_id": raw_update["update_id"], "message": shortened}


def is_forwarded(raw_message: dict[str, Any]) -> bool:
    """Whether a raw message is a forwarded one."""
    return isinstance(raw_message.get("forward_origin"), dict)
