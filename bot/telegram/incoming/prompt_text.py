"""Formats a raw message as prompt text: the sender's own text, and text of others marked as data. Pure.

Lenient: what is missing or malformed is left out.
"""

import re
from typing import Any

from telegram.constants import MessageType

from bot.agent.prompt import build_data_block
from bot.agent.sanitize import to_sendable
from bot.domain import HOOK_SECRET_PREFIX
from bot.telegram.incoming.attachments import extract_media
from bot.telegram.incoming.shared_items import describe_shared_item, format_shared_item

MAX_QUOTE_CHARS = 2000  # what is quoted is usually in the conversation already

_KIND_NOUNS = {
    "photo": "photos",
    "live_photo": "photos",
    "voice": "voice messages",
    "video_note": "video messages",
    "animation": "animations",  # also comes with a document, so it stands before that
    "video": "videos",
    "audio": "audio files",
    "document": "files",
    "sticker": "stickers",
    "venue": "places",  # also comes with a location
    "location": "locations",
    "contact": "contacts",
    "poll": "polls",
    "checklist": "checklists",
    "dice": "dice",
    "game": "games",
    "story": "stories",
    "invoice": "invoices",
    "paid_media": "paid media",
    "giveaway": "giveaways",
    "giveaway_winners": "giveaways",
    "rich_message": "rich messages",
}
_HOOK_SECRET = re.compile(rf"{HOOK_SECRET_PREFIX}[\w-]{{40,50}}")
_EVENT_KEYS = {kind.value for kind in MessageType} - _KIND_NOUNS.keys()


def format_message(message: dict[str, Any], *, media_block: str = "", transcript: str = "") -> str:
    """Format a message for the prompt; what it quotes, replies to or forwards stands in data blocks.

    `media_block` is the data block of what came with it, `transcript` what its sender said in it.
    """
    origin = _get_object(message, "forward_origin")
    shared_item = describe_shared_item(message) if origin else format_shared_item(message)
    own_text = "\n".join(text for text in (transcript, shared_item, extract_text(message)) if text)
    if origin:
        label = f"message forwarded from {_find_origin_name(origin)}"
        own_text = build_data_block(label, own_text or "(no words)")
    return "\n".join(piece for piece in (_format_quote(message), media_block, own_text) if piece)


def describe_kind(message: dict[str, Any]) -> str | None:
    """Name the kind of a message without text in a plural noun; None for an event that needs no answer."""
    noun = _find_kind_noun(message)
    if noun is None and not _EVENT_KEYS & message.keys():
        return "this kind of message"
    return noun


def _find_kind_noun(message: dict[str, Any]) -> str | None:
    return next((noun for key, noun in _KIND_NOUNS.items() if key in message), None)


def extract_text(message: dict[str, Any]) -> str:
    """Return the text of a message, or the caption of a picture or a file."""
    text = message.get("text", message.get("caption"))
    if not isinstance(text, str):
        return ""
    return _hide_hook_secrets(to_sendable(text))


def _hide_hook_secrets(text: str) -> str:
    return _HOOK_SECRET.sub(f"{HOOK_SECRET_PREFIX}…", text) if HOOK_SECRET_PREFIX in text else text


def _format_quote(message: dict[str, Any]) -> str | None:
    replied = _get_object(message, "reply_to_message") or _get_object(message, "external_reply")
    if not replied:
        return None
    label = f"the message this replies to, written by {_find_author_name(replied)}"
    text = extract_text(replied)
    quoted_part = _get_object(message, "quote").get("text")
    if isinstance(quoted_part, str):
        label = f"quoted part of {label}"
        text = _hide_hook_secrets(quoted_part)
    text = text or describe_shared_item(replied) or _describe_quoted_media(replied)
    if not text:
        return None
    if len(text) > MAX_QUOTE_CHARS:
        text = text[:MAX_QUOTE_CHARS] + " …"
    return build_data_block(label, text)


def _describe_quoted_media(replied: dict[str, Any]) -> str:
    kind = _find_kind_noun(replied)
    if kind is None:
        return ""
    media = extract_media(replied)
    if media is not None and media.file_id:
        return f"({kind}, which you see only where they stand in this conversation)"
    return f"({kind}, which you cannot see)"


def _find_author_name(message: dict[str, Any]) -> str:
    writer = _get_object(message, "from")
    if writer.get("is_bot"):
        return "you"
    return _read_first_name(writer) or _find_origin_name(_get_object(message, "origin"))


def _find_origin_name(origin: dict[str, Any]) -> str:
    """Name who first wrote a forwarded message: a person, someone who hides their account, or a chat."""
    hidden_name = origin.get("sender_user_name")
    chat = _get_object(origin, "sender_chat") or _get_object(origin, "chat")
    name = _read_first_name(_get_object(origin, "sender_user")) or hidden_name or chat.get("title")
    if isinstance(name, str) and name.strip():
        return name
    return "someone"


def _read_first_name(user: dict[str, Any]) -> str:
    name = user.get("first_name")
    if not isinstance(name, str):
        return ""
    return name


def _get_object(message: dict[str, Any], key: str) -> dict[str, Any]:
    value = message.get(key)
    if not isinstance(value, dict):
        return {}
    return value
