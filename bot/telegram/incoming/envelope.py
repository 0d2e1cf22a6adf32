"""Reads of a raw update only what storing it needs: id, lane, shape, sender, age. Pure and lenient: it never
raises.

The update itself is parsed when its turn comes; whatever is wrong with it then concerns it alone.
"""

import json
import re
from typing import Any

from bot.db.queues.inbox import ASKING, STALE_SECONDS, Arrival
from bot.domain import Lane, Shape
from bot.telegram.incoming.attachments import enclosed

PASTE_UNITS = 4000  # Telegram cuts a long paste at 4096; a part of about that size is not the last one
PASTE_SECONDS = 1.5
ALBUM_SECONDS = 1.0  # the messages of an album come one by one, and none says that it is the last

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@\w+)?(?=\s|$)")
_IN_ORDER: dict[str, Shape] = {
    "new": "new",
    "retry": "command",
    "deep": "deep",
}  # commands that wait for their turn


def read(raw: object, now: float) -> Arrival | None:
    """What of an update is stored; None if it has no id and so can be neither told apart nor acknowledged."""
    update = _object(raw)
    number = _id(update.get("update_id"))
    if number is None:
        return None
    message = _object(update.get("message"))
    shape, in_lane = _shape(update, message)
    held = _held(message) if shape in ASKING else 0.0
    return Arrival(
        update_id=number,
        shape=shape,
        lane=lane_of(message) if in_lane else None,
        sender=_sender(update),
        body=json.dumps(
            update, separators=(",", ":")
        ),  # ASCII: half a surrogate pair could not be stored otherwise
        stale=_age(message, now) > STALE_SECONDS,
        not_before=now + held if held else None,
    )


def _held(message: dict[str, Any]) -> float:
    """How many seconds more of the same may follow."""
    if _units(message.get("text")) >= PASTE_UNITS:
        return PASTE_SECONDS
    if isinstance(message.get("media_group_id"), str):
        return ALBUM_SECONDS
    return 0.0


def _shape(update: dict[str, Any], message: dict[str, Any]) -> tuple[Shape, bool]:
    """What kind of update it is, and whether it waits in its lane (else it is a control item)."""
    if "callback_query" in update:
        return "tap", False
    if "stopped_message_generation" in update:
        return "stop", False
    if not message or _object(message.get("chat")).get("type") != "private":
        return "other", False
    text = message.get("text")
    if not isinstance(text, str):
        return _captioned(message), True
    command = _COMMAND.match(text)
    if command is None:
        return "text", True
    name = command[1].lower()
    if name in _IN_ORDER:
        return _IN_ORDER[name], True
    return ("stop" if name == "stop" else "command"), False


def _captioned(message: dict[str, Any]) -> Shape:
    """What a message without text is: a caption can ask for the second endpoint, and is no other command."""
    caption = message.get("caption")
    command = _COMMAND.match(caption) if isinstance(caption, str) else None
    if not enclosed(message):
        return "other"
    if command and _IN_ORDER.get(command[1].lower()) == "deep":
        return "deep"
    return "text"


def lane_of(message: dict[str, Any]) -> Lane | None:
    """The lane of a raw message, if it names its chat."""
    chat = _id(_object(message.get("chat")).get("id"))
    if message.get("is_topic_message"):
        topic = _id(message.get("message_thread_id"))
    else:
        topic = None
    if chat is None:
        return None
    return Lane(chat, topic)


def _sender(update: dict[str, Any]) -> int | None:
    for held in update.values():
        person = _id(_object(_object(held).get("from")).get("id"))
        if person is not None:
            return person
    return None


def _id(value: object) -> int | None:
    """A number that the database can hold."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return None


def _age(message: dict[str, Any], now: float) -> float:
    date = _id(message.get("date"))
    if date is None:
        return 0.0
    return now - date


def _units(text: object) -> int:
    if isinstance(text, str):
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return 0


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {}
