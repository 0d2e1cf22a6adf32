"""The contents of updates: entities found in texts, origins of forwards, media, places in chats. Pure."""

import re
from collections.abc import Iterator, Sequence

from bot.sim.telegram.chats import Chat
from bot.sim.telegram.entities import MAX_TEXT_UNITS, count_utf16_units
from bot.sim.telegram.params import Json

_DICE_FACES = {"🎲": 6, "🎯": 6, "🎳": 6, "🏀": 5, "⚽": 5, "🎰": 64}
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


def sticker_fields(file_id: str, emoji: str) -> Json:
    shape = {"type": "regular", "emoji": emoji, "width": 512, "height": 512}
    return file_id_fields(file_id) | shape | {"is_animated": False, "is_video": False}


def video_fields(file_id: str, size: int, seconds: int, name: str = "") -> Json:
    """A video, or a GIF that is one."""
    file = file_fields(file_id, size, "video/mp4") | {"width": 640, "height": 480, "duration": seconds}
    return file | ({"file_name": name} if name else {})


def location_fields(latitude: float, longitude: float) -> Json:
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise ValueError("a location has a latitude of -90 to 90 and a longitude of -180 to 180")
    return {"latitude": latitude, "longitude": longitude}


def contact_fields(phone_number: str, first_name: str, last_name: str) -> Json:
    return {"phone_number": phone_number, "first_name": first_name} | (
        {"last_name": last_name} if last_name else {}
    )


def poll_fields(poll_id: str, question: str, options: Sequence[str]) -> Json:
    """A poll that nobody has voted in."""
    if not (
        1 <= len(question) <= 300 and 1 <= len(options) <= 12 and all(0 < len(o) <= 100 for o in options)
    ):
        raise ValueError("a poll has a question of 1 to 300 letters and 1 to 12 options of 1 to 100")
    return {
        "id": poll_id,
        "question": question,
        "options": [
            {"persistent_id": str(number), "text": option, "voter_count": 0}
            for number, option in enumerate(options)
        ],
        "total_voter_count": 0,
        "is_closed": False,
        "is_anonymous": True,
        "type": "regular",
        "allows_multiple_answers": False,
        "allows_revoting": True,
        "members_only": False,
    }


def dice_fields(emoji: str, value: int) -> Json:
    if not 1 <= value <= _DICE_FACES.get(emoji, 0):
        raise ValueError(f"{emoji} never shows {value}")
    return {"emoji": emoji, "value": value}


def forward_origin(sender: Json | str, date: int) -> Json:
    """The origin of a forwarded message: a user, or the name of someone who hides theirs."""
    if isinstance(sender, str):
        return {"type": "hidden_user", "date": date, "sender_user_name": sender}
    return {"type": "user", "date": date, "sender_user": sender}


def reply_fields(raw: Json, quote: str | None) -> Json:
    """The fields of a reply to a message, with the words quoted from it if any."""
    quoted = {name: value for name, value in raw.items() if name != "reply_to_message"}
    if quote is None:
        return {"reply_to_message": quoted}
    text = str(raw.get("text", raw.get("caption", "")))
    position = count_utf16_units(text[: max(0, text.find(quote))])
    return {"reply_to_message": quoted, "quote": {"text": quote, "position": position, "is_manual": True}}


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
