"""The contents of updates: entities found in texts, files, replies, places in chats. Pure."""

import re
from collections.abc import Iterator

from bot.sim.telegram.chats import Chat
from bot.sim.telegram.entities import MAX_TEXT_UNITS, count_utf16_units
from bot.sim.telegram.params import Json

_DETECTED = {
    "bot_command": re.compile(r"(?<!\S)/[A-Za-z0-9_]{1,32}(?:@\w+)?"),
    "mention": re.compile(r"(?<![\w/.@])@[A-Za-z0-9_]{3,32}(?!\w)"),
    "url": re.compile(r"https?://\S+"),
}


def text_fields(text: str) -> Json:
    """A text with the commands, mentions and links that Telegram finds in it."""
    return _formatted_fields(text, "text", "entities")


def caption_fields(caption: str) -> Json:
    if caption:
        return _formatted_fields(caption, "caption", "caption_entities")
    return {}


def _formatted_fields(text: str, text_name: str, entities_name: str) -> Json:
    matches = [(kind, match) for kind, pattern in _DETECTED.items() for match in pattern.finditer(text)]
    entities: list[Json] = [
        {
            "type": kind,
            "offset": count_utf16_units(text[: match.start()]),
            "length": count_utf16_units(match[0]),
        }
        for kind, match in matches
    ]
    fields: Json = {text_name: text}
    if entities:
        fields[entities_name] = sorted(entities, key=lambda entity: entity["offset"])
    return fields


def photo_sizes(file_id: str, size: int = 0) -> list[Json]:
    return [{**file_fields(file_id, size), "width": 640, "height": 480}]


def file_id_fields(file_id: str) -> Json:
    return {"file_id": file_id, "file_unique_id": "u-" + file_id}


def file_fields(file_id: str, size: int, media_type: str = "") -> Json:
    """A file with its size in bytes and its media type; both are left out where they are unknown."""
    fields = file_id_fields(file_id)
    if media_type:
        fields["mime_type"] = media_type
    if size:
        fields["file_size"] = size
    return fields


def reply_fields(raw: Json) -> Json:
    """The fields of a reply to a message."""
    return {"reply_to_message": {name: value for name, value in raw.items() if name != "reply_to_message"}}


def thread_fields(chat: Chat, thread_id: int, content: Json) -> Json:
    """The fields that say where in its chat a message stands.

    In a topic, what replies to nothing points at the service message that began it; in other supergroups a
    reply names the message that its thread began with, without being a topic message.
    """
    if thread_id:
        fields: Json = {"message_thread_id": thread_id, "is_topic_message": True}
        topic = chat.topics.get(thread_id)
        if topic is not None and not chat.is_private and "reply_to_message" not in content:
            fields["reply_to_message"] = topic.root
        return fields
    replied = content.get("reply_to_message")
    if replied is None or chat.raw["type"] != "supergroup" or chat.raw.get("is_forum"):
        return {}
    return {"message_thread_id": replied.get("message_thread_id", replied["message_id"])}


def split_text(text: str) -> Iterator[str]:
    """A long text split as a client does: messages of at most 4096 UTF-16 units."""
    start = 0
    units = 0
    for position, character in enumerate(text):
        width = count_utf16_units(character)
        if units + width > MAX_TEXT_UNITS:
            yield text[start:position]
            start = position
            units = 0
        units += width
    if start < len(text):
        yield text[start:]
