"""Puts what a person sent into the words of a prompt: their own text, and text of others marked as data.
Pure.

Reads raw messages, leniently: what is missing, or not as it should be, is left out.
"""

from typing import Any

from telegram.constants import MessageType

from bot.agent.prompt import build_data_block
from bot.agent.sanitize import to_sendable
from bot.telegram.incoming.attachments import extract_media

MAX_QUOTE_CHARS = 2000  # characters; what is quoted is usually in the conversation already

_KIND_NOUNS = {
    "photo": "photos",
    "live_photo": "photos",
    "voice": "voice messages",
    "video_note": "video messages",
    "animation": "animations",  # also comes with a document, and is told first
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
_EVENT_KEYS = {kind.value for kind in MessageType} - _KIND_NOUNS.keys()


def format_message(message: dict[str, Any], *, media_block: str = "", transcript: str = "") -> str:
    """The text of a message for the prompt; what it quotes, replies to or forwards stands in blocks of data.

    `block` is one of what came with it, `spoken` what was said in it.
    """
    text = "\n".join(words for words in (transcript, extract_text(message)) if words)
    forwarded = _get_object(message, "forward_origin")
    if forwarded:
        own = build_data_block(f"message forwarded from {_find_origin_name(forwarded)}", text or "(no words)")
    else:
        own = text
    return "\n".join(piece for piece in (_format_quote(message), media_block, own) if piece)


def describe_kind(message: dict[str, Any]) -> str | None:
    """What a message without text is, in a plural word for people; None for an event that needs no answer."""
    found = next((word for key, word in _KIND_NOUNS.items() if key in message), None)
    return found or (None if _EVENT_KEYS & message.keys() else "this kind of message")


def extract_text(message: dict[str, Any]) -> str:
    """The words of a message: its text, or what stands under a picture or a file."""
    text = message.get("text", message.get("caption"))
    if isinstance(text, str):
        return to_sendable(text)
    return ""


def _format_quote(message: dict[str, Any]) -> str | None:
    replied = _get_object(message, "reply_to_message") or _get_object(message, "external_reply")
    if not replied:
        return None
    part = _get_object(message, "quote").get("text")
    text = part if isinstance(part, str) else extract_text(replied)
    if not text:
        kind = next((word for key, word in _KIND_NOUNS.items() if key in replied), None)
        if extract_media(replied):
            seen = "which you see only where they stand in this conversation"
        else:
            seen = "which you cannot see"
        text = f"({kind}, {seen})" if kind else ""
    if not text:
        return None
    if len(text) > MAX_QUOTE_CHARS:
        text = text[:MAX_QUOTE_CHARS] + " …"
    what = "quoted part of " if isinstance(part, str) else ""
    return build_data_block(
        f"{what}the message this replies to, written by {_find_author_name(replied)}", text
    )


def _find_author_name(message: dict[str, Any]) -> str:
    writer = _get_object(message, "from")
    if writer.get("is_bot"):
        return "you"
    return _read_first_name(writer) or _find_origin_name(_get_object(message, "origin"))


def _find_origin_name(origin: dict[str, Any]) -> str:
    """Who first wrote a forwarded message: a person, someone who hides, or a chat."""
    hidden = origin.get("sender_user_name")
    chat = _get_object(origin, "sender_chat") or _get_object(origin, "chat")
    title = chat.get("title")
    told = _read_first_name(_get_object(origin, "sender_user")) or hidden or title
    if isinstance(told, str) and told.strip():
        return told
    return "someone"


def _read_first_name(user: dict[str, Any]) -> str:
    name = user.get("first_name")
    if isinstance(name, str):
        return name
    return ""


def _get_object(message: dict[str, Any], key: str) -> dict[str, Any]:
    value = message.get(key)
    if isinstance(value, dict):
        return value
    return {}
