"""Puts what a person sent into the words of a prompt: their own text, and text of others marked as data.
Pure.

Reads raw messages, leniently: what is missing, or not as it should be, is left out.
"""

from typing import Any

from telegram.constants import MessageType

from bot.agent.prompt import data_block
from bot.agent.sanitize import sendable
from bot.telegram.incoming.attachments import enclosed

LONGEST_QUOTE = 2000  # characters; what is quoted is usually in the conversation already

_KINDS = {
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
_EVENTS = {kind.value for kind in MessageType} - _KINDS.keys()


def entered(message: dict[str, Any], *, block: str = "", spoken: str = "") -> str:
    """The text of a message for the prompt; what it quotes, replies to or forwards stands in blocks of data.

    `block` is one of what came with it, `spoken` what was said in it.
    """
    text = "\n".join(words for words in (spoken, said(message)) if words)
    forwarded = _object(message, "forward_origin")
    if forwarded:
        own = data_block(f"message forwarded from {_origin(forwarded)}", text or "(no words)")
    else:
        own = text
    return "\n".join(piece for piece in (_quoted(message), block, own) if piece)


def kind_of(message: dict[str, Any]) -> str | None:
    """What a message without text is, in a plural word for people; None for an event that needs no answer."""
    found = next((word for key, word in _KINDS.items() if key in message), None)
    return found or (None if _EVENTS & message.keys() else "this kind of message")


def said(message: dict[str, Any]) -> str:
    """The words of a message: its text, or what stands under a picture or a file."""
    text = message.get("text", message.get("caption"))
    if isinstance(text, str):
        return sendable(text)
    return ""


def _quoted(message: dict[str, Any]) -> str | None:
    replied = _object(message, "reply_to_message") or _object(message, "external_reply")
    if not replied:
        return None
    part = _object(message, "quote").get("text")
    text = part if isinstance(part, str) else said(replied)
    if not text:
        kind = next((word for key, word in _KINDS.items() if key in replied), None)
        if enclosed(replied):
            seen = "which you see only where they stand in this conversation"
        else:
            seen = "which you cannot see"
        text = f"({kind}, {seen})" if kind else ""
    if not text:
        return None
    if len(text) > LONGEST_QUOTE:
        text = text[:LONGEST_QUOTE] + " …"
    what = "quoted part of " if isinstance(part, str) else ""
    return data_block(f"{what}the message this replies to, written by {_writer(replied)}", text)


def _writer(message: dict[str, Any]) -> str:
    writer = _object(message, "from")
    if writer.get("is_bot"):
        return "you"
    return _name(writer) or _origin(_object(message, "origin"))


def _origin(origin: dict[str, Any]) -> str:
    """Who first wrote a forwarded message: a person, someone who hides, or a chat."""
    hidden = origin.get("sender_user_name")
    chat = _object(origin, "sender_chat") or _object(origin, "chat")
    title = chat.get("title")
    told = _name(_object(origin, "sender_user")) or hidden or title
    if isinstance(told, str) and told.strip():
        return told
    return "someone"


def _name(user: dict[str, Any]) -> str:
    name = user.get("first_name")
    if isinstance(name, str):
        return name
    return ""


def _object(message: dict[str, Any], key: str) -> dict[str, Any]:
    value = message.get(key)
    if isinstance(value, dict):
        return value
    return {}
