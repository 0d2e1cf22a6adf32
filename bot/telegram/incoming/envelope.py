"""Reads from a raw update only what storing it needs: id, lane, shape, sender, age.

Pure and lenient: it never raises. The update itself is parsed when it is handled, so that anything wrong
with it concerns it alone.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from bot.db.people.group_texts import GroupText
from bot.db.queues.inbox import STALE_SECONDS, TURN_SHAPES
from bot.db.queues.incoming_updates import IncomingUpdate, MessageEdit
from bot.domain import ItemShape, Lane
from bot.telegram.incoming.attachments import extract_media
from bot.telegram.incoming.backlog import is_forwarded
from bot.telegram.incoming.group_address import (
    KnownGroups,
    find_address,
    find_command_entity,
    find_group_sender,
    find_speaker_name,
)
from bot.telegram.incoming.prompt_text import extract_text
from bot.telegram.incoming.shared_items import describe_shared_item
from bot.telegram.incoming.verdicts import changes_verdict
from bot.tool_registry.sign_in_flows import SIGN_IN_PATH

PASTE_UNITS = 4000  # Telegram cuts a long paste at 4096; a part of about that size is not the last one
PASTE_SECONDS = 1.5
ALBUM_SECONDS = 1.0  # the messages of an album come one by one, and none says that it is the last
FORWARD_SECONDS = 1.0  # so do those that somebody forwards together
MAX_READ_CHARS = 1000  # of one message that is read along

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@\w+)?(?=\s|$)")
_SIGN_IN_ADDRESS = re.compile(rf"\s*https?://[^\s?]{{1,300}}{SIGN_IN_PATH}\?")
_DECLINE_DATA = re.compile(r"answer:([0-9a-f]{12}):no")
_ORDERED_COMMANDS: dict[str, ItemShape] = {"new": "new", "retry": "command", "deep": "deep"}
"""Commands that wait for their turn in the lane, with their shapes."""


def read_envelope(raw: object, now: float, groups: KnownGroups) -> IncomingUpdate | None:
    """Return what is stored of an update; None without an id, for it could not be acknowledged."""
    update = _rename_guest_message(_as_object(raw))
    update_id = _parse_id(update.get("update_id"))
    if update_id is None:
        return None
    message = _as_object(update.get("message"))
    shape, in_lane = _classify(update, message, groups)
    hold_seconds = _get_hold_seconds(message, shape)
    is_for_others = shape != "unaddressed" and _is_for_others(update, groups)
    is_overheard = is_for_others or shape == "unaddressed"
    # The body is ASCII: half a surrogate pair could not be stored otherwise.
    return IncomingUpdate(
        update_id=update_id,
        shape=shape,
        lane=find_lane(message) if in_lane else None,
        sender=_find_sender(update),
        body=json.dumps(update, separators=(",", ":")),
        stale=_get_age_seconds(message, now) > STALE_SECONDS,
        not_before=now + hold_seconds if hold_seconds else None,
        message_id=_parse_id(message.get("message_id")),
        is_forward=is_forwarded(message),
        edit=_read_edit(update, groups),
        is_for_others=is_for_others,
        group_text=_read_group_text(update, groups, now) if is_overheard else None,
        chat=_find_chat(update),
    )


def list_message_ages(raw_updates: Sequence[object], now: float) -> list[float]:
    """The ages in seconds of the messages among updates; edited ones and taps have none."""
    messages = [_as_object(_as_object(raw).get("message")) for raw in raw_updates]
    return [_get_age_seconds(message, now) for message in messages if "date" in message]


def _rename_guest_message(update: dict[str, Any]) -> dict[str, Any]:
    """Return an update in which the message of a guest query stands as any other, with the query's id."""
    if "guest_message" not in update:
        return update
    message = _as_object(update["guest_message"])
    query_id = str(message.get("guest_query_id", ""))
    return {"update_id": update.get("update_id"), "message": message | {"guest_query_id": query_id}}


def _read_edit(update: dict[str, Any], groups: KnownGroups) -> MessageEdit | None:
    """Return the message that an edit leaves, if it is one that a turn may answer.

    In a group it need not be addressed: the message may have been before.
    """
    message = _as_object(update.get("edited_message"))
    lane = find_lane(message)
    message_id = _parse_id(message.get("message_id"))
    if lane is None or message_id is None or (lane.is_group and not groups.can_answer(lane.chat)):
        return None
    shape, _ = _classify_addressed(message)
    if shape not in TURN_SHAPES:
        return None
    body = json.dumps({"update_id": update["update_id"], "message": message}, separators=(",", ":"))
    return MessageEdit(lane, message_id, shape, body, sent_at=float(_parse_id(message.get("date")) or 0))


def _get_hold_seconds(message: dict[str, Any], shape: ItemShape) -> float:
    """Return how many seconds to wait for more of the same paste, album or burst of forwards."""
    if shape not in TURN_SHAPES:
        return 0.0
    if _count_utf16_units(message.get("text")) >= PASTE_UNITS:
        return PASTE_SECONDS
    if is_forwarded(message):
        return FORWARD_SECONDS
    if isinstance(message.get("media_group_id"), str):
        return ALBUM_SECONDS
    return 0.0


def _classify(update: dict[str, Any], message: dict[str, Any], groups: KnownGroups) -> tuple[ItemShape, bool]:
    """Return the update's shape, and whether it waits in its lane (else it is a control item)."""
    if "callback_query" in update:
        return "tap", False
    if "stopped_message_generation" in update:
        return "stop", False
    if "edited_message" in update:
        return "edit", False
    if "guest_query_id" in message:
        return "guest", False
    match _as_object(message.get("chat")).get("type"):
        case "private":
            return _classify_addressed(message)
        case "group" | "supergroup" if _is_addressed_in_open_group(message, groups):
            shape, in_lane = _classify_addressed(message)
            # There a /new waits for its turn: it may not cut what somebody else asked.
            return "command" if shape == "new" else shape, in_lane
        case "group" | "supergroup" if _can_be_judged(message, groups):
            return "unaddressed", False
    return "other", False


def _classify_addressed(message: dict[str, Any]) -> tuple[ItemShape, bool]:
    """Classify a message that is meant for the assistant."""
    text = message.get("text")
    if not isinstance(text, str):
        return _classify_caption(message), True
    command = _COMMAND.match(text)
    if is_sign_in_address(text) or find_question_key(message) is not None:
        return "command", False
    if command is None or is_forwarded(message):  # what others wrote commands nothing
        return "text", True
    name = command[1].lower()
    if name == "ask" and text[command.end() :].strip():
        return "text", True
    if name in _ORDERED_COMMANDS:
        return _ORDERED_COMMANDS[name], True
    if name == "stop":
        return "stop", False
    return "command", False


def _is_addressed_in_open_group(message: dict[str, Any], groups: KnownGroups) -> bool:
    chat = _find_chat_id(message)
    if chat is None or not groups.can_answer(chat):
        return False
    return find_address(message, groups.get_identity(chat)) is not None


def _can_be_judged(message: dict[str, Any], groups: KnownGroups) -> bool:
    """Whether the endpoint is asked if an unaddressed message is for the assistant: a person's own words."""
    chat = _find_chat_id(message)
    group = groups.find_open(chat) if chat is not None else None
    if group is None or not group.judges or not group.can_send or find_group_sender(message) is None:
        return False
    if find_command_entity(message) is not None or is_forwarded(message) or "via_bot" in message:
        return False
    is_readable = _parse_id(message.get("message_id")) is not None and bool(extract_text(message).strip())
    return is_readable and _classify_addressed(message) == ("text", True)


def _is_for_others(update: dict[str, Any], groups: KnownGroups) -> bool:
    """Whether an update concerns the assistant in no way, as a group's message to others does.

    Nothing is stored of it, but for what is read along.

    What is addressed to it in a group where it does not answer is kept: it may just have been added.
    """
    message = _as_object(update.get("message", update.get("edited_message")))
    if "message_reaction" in update:
        return _is_idle_reaction(_as_object(update["message_reaction"]), groups)
    chat = _as_object(message.get("chat"))
    chat_id = _parse_id(chat.get("id"))
    if "guest_query_id" in message:
        is_asked = chat_id is not None and find_group_sender(message) is not None
        return not is_asked or not groups.takes_guest_queries(chat_id or 0)
    if chat.get("type") not in {"group", "supergroup"} or chat_id is None:
        return False
    if "migrate_to_chat_id" in message or "migrate_from_chat_id" in message:
        return False
    return find_address(message, groups.get_identity(chat_id)) is None


def _read_group_text(update: dict[str, Any], groups: KnownGroups, now: float) -> GroupText | None:
    """Return what a message to others says, if the assistant reads along there.

    No line of it can look like one of somebody else: it becomes a single one.
    """
    message = _as_object(update.get("message", update.get("edited_message")))
    lane = find_lane(message)
    message_id = _parse_id(message.get("message_id"))
    person = find_group_sender(message)
    text = " ".join(extract_text(message).split())
    if lane is None or message_id is None or person is None or not text:
        return None
    group = groups.find_open(lane.chat)
    if group is None or not group.reads_along or find_command_entity(message) is not None:
        return None
    if len(text) > MAX_READ_CHARS:
        text = f"{text[:MAX_READ_CHARS]} …"
    written_at = now - max(0.0, _get_age_seconds(message, now))
    name = find_speaker_name(message)
    return GroupText(lane, message_id, person, name, text, written_at, is_edit="edited_message" in update)


def _is_idle_reaction(change: dict[str, Any], groups: KnownGroups) -> bool:
    """Whether a reaction says nothing about an answer: in a large group they are many."""
    chat = _as_object(change.get("chat"))
    chat_id = _parse_id(chat.get("id"))
    if chat_id is None or not changes_verdict(change):
        return True
    return chat.get("type") != "private" and groups.find_open(chat_id) is None


def find_question_key(message: dict[str, Any]) -> str | None:
    """The key of what a running tool asks, if a raw message replies to it; its turn waits in the lane.

    The key is in the question's last button. Its text proves nothing: an answer of the model may look alike.
    """
    if str(message.get("text")).startswith("/"):
        return None
    decline = _DECLINE_DATA.fullmatch(find_replied_button(message))
    return decline[1] if decline else None


def find_replied_button(message: dict[str, Any]) -> str:
    """What the last button carries of the message that a raw one replies to; "" unless alone in its row."""
    replied = _as_object(message.get("reply_to_message"))
    match _as_object(replied.get("reply_markup")).get("inline_keyboard"):
        case [*_, [{"callback_data": str(data)}]]:
            return data
    return ""


def is_sign_in_address(text: str) -> bool:
    """Whether a message begins with the address that the page of a sign-in leads to; it is for no model."""
    return _SIGN_IN_ADDRESS.match(text) is not None


def _classify_caption(message: dict[str, Any]) -> ItemShape:
    """Return the shape of a message without text; of all commands, a caption can only be /deep."""
    if not extract_media(message):
        return "text" if describe_shared_item(message) else "other"
    caption = message.get("caption")
    if not isinstance(caption, str):
        return "text"
    command = _COMMAND.match(caption)
    if command and command[1].lower() == "deep" and not is_forwarded(message):
        return "deep"
    return "text"


def find_lane(message: dict[str, Any]) -> Lane | None:
    """Return the lane of a raw message, if it names its chat."""
    chat = _find_chat_id(message)
    if chat is None:
        return None
    if not message.get("is_topic_message"):
        return Lane(chat)
    return Lane(chat, _parse_id(message.get("message_thread_id")))


def _find_chat_id(message: dict[str, Any]) -> int | None:
    """Return the number of a raw message's chat."""
    return _parse_id(_as_object(message.get("chat")).get("id"))


def _find_chat(update: dict[str, Any]) -> int | None:
    """Return the chat in which it happened; that of a tap is the one of its message."""
    for value in map(_as_object, update.values()):
        chat = value.get("chat", _as_object(value.get("message")).get("chat"))
        chat_id = _parse_id(_as_object(chat).get("id"))
        if chat_id is not None:
            return chat_id
    return None


def _find_sender(update: dict[str, Any]) -> int | None:
    """Return who did it; an anonymous administrator of a group counts as the group itself."""
    for value in map(_as_object, update.values()):
        person = _parse_id(_as_object(value.get("from", value.get("user"))).get("id"))
        if "sender_chat" in value:
            person = find_group_sender(value)
        if person is not None:
            return person
    return None


def _parse_id(value: object) -> int | None:
    """Return the value if it is a number that the database can hold."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return None


def _get_age_seconds(message: dict[str, Any], now: float) -> float:
    date = _parse_id(message.get("date"))
    if date is None:
        return 0.0
    return now - date


def _count_utf16_units(text: object) -> int:
    if isinstance(text, str):
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return 0


def _as_object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {}
