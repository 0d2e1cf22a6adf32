"""Judges whether a raw message of a group is meant for the assistant. Pure and lenient: it never raises."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from bot.db.people.groups import Group
from bot.telegram.incoming.update import to_plain_name

MAX_SPEAKER_CHARS = 40
NAMELESS = "Somebody"

AddressKind = Literal["reply", "mention", "command", "name"]

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@(\w{1,32}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class GroupIdentity:
    """Who the assistant is in a group.

    `username`: without the @.
    `commands`: the names of its commands, without the slash.
    `name`: what its people call it beside that (None: nothing).
    """

    id: int
    username: str
    commands: frozenset[str]
    name: str | None = None


class KnownGroups(Protocol):
    """Which groups the bot answers in, and what it is called there."""

    def find_open(self, chat: int) -> Group | None:
        """Return the group of this chat if the bot answers there."""
        ...

    def can_answer(self, chat: int) -> bool:
        """Whether the bot answers in this chat, and may write there."""
        ...

    def takes_guest_queries(self, chat: int) -> bool:
        """Whether the bot answers as a guest in this chat."""
        ...

    def get_identity(self, chat: int) -> GroupIdentity:
        """Return who the assistant is in this chat."""
        ...


def find_address(message: dict[str, Any], identity: GroupIdentity) -> AddressKind | None:
    """Return how a raw group message addresses the assistant; None if it is for others."""
    if find_group_sender(message) is None:
        return None
    command = find_command_entity(message)
    if command is not None:
        return "command" if _is_own_command(command, identity) else None
    if is_reply_to(message, identity.id):
        return "reply"
    if any(_is_mention_of(entity, text, identity) for entity, text in _list_entities(message)):
        return "mention"
    if identity.name and _names(_get_text(message), identity.name):
        return "name"
    return None


def find_group_sender(message: dict[str, Any]) -> int | None:
    """Return who wrote a raw group message; an anonymous administrator counts as the group itself.

    None for what nobody asks: of other bots, of channels, and of Telegram itself.
    """
    chat = _as_object(message.get("chat")).get("id")
    sender = _as_object(message.get("from"))
    sender_chat = message.get("sender_chat")
    if message.get("is_automatic_forward") or not isinstance(chat, int):
        return None
    if sender_chat is not None:
        return chat if _as_object(sender_chat).get("id") == chat else None
    person = sender.get("id")
    if sender.get("is_bot") or not isinstance(person, int):
        return None
    return person


def cut_leading_mention(message: dict[str, Any], identity: GroupIdentity) -> dict[str, Any]:
    """Return a raw message without the mention of the assistant that it begins with, unless that is all."""
    for entity, text in _list_entities(message):
        if entity.get("offset") == 0 and _is_mention_of(entity, text, identity):
            key = "text" if isinstance(message.get("text"), str) else "caption"
            rest = _get_text(message)[len(text) :].lstrip(" \t\n,:;")
            return message | {key: rest} if rest else message
    return message


def name_quoted_author(message: dict[str, Any], identity: GroupIdentity) -> dict[str, Any]:
    """Return a raw message whose quoted message is by a named person, unless the assistant wrote it.

    In a private chat the only bot is the assistant; in a group another bot may have written it, or an
    anonymous administrator, who has the account of one.
    """
    quoted = _as_object(message.get("reply_to_message"))
    if not quoted or _as_object(quoted.get("from")).get("id") == identity.id:
        return message
    author = {"is_bot": False, "first_name": find_speaker_name(quoted)}
    return message | {"reply_to_message": quoted | {"from": author}}


def find_speaker_name(message: dict[str, Any]) -> str:
    """Return what the sender of a raw group message is called, in letters and digits."""
    sender = _as_object(message.get("from"))
    names = [str(sender.get(key) or "") for key in ("first_name", "last_name")]
    candidates = [" ".join(names), str(sender.get("username") or "")]
    if "sender_chat" in message:  # an administrator who writes as the group
        candidates = [str(_as_object(message["sender_chat"]).get("title") or "")]
    plain_names = (to_plain_name(name, MAX_SPEAKER_CHARS) for name in candidates)
    return next(filter(None, plain_names), NAMELESS)


def find_command_entity(message: dict[str, Any]) -> str | None:
    """Return the command that a raw message begins with, as it stands there, such as `/stop@other_bot`."""
    if message.get("forward_origin"):  # what others wrote commands nothing
        return None
    for entity, text in _list_entities(message):
        if entity.get("type") == "bot_command" and entity.get("offset") == 0:
            return text
    return None


def _is_own_command(command: str, identity: GroupIdentity) -> bool:
    match = _COMMAND.fullmatch(command)
    if match is None or match[1].lower() not in identity.commands:
        return False
    return match[2] is None or match[2].lower() == identity.username.lower()


def is_reply_to(message: dict[str, Any], person: int) -> bool:
    """Whether a message replies to one that this person wrote."""
    return bool(_as_object(find_reply_target(message).get("from")).get("id") == person)


def find_reply_target(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message that a raw one replies to; empty if it is no reply.

    Every message of a forum topic names the topic's first message, a service message, as the one that it
    replies to: that is no reply, even where the assistant opened the topic. In other groups the thread's
    first message is one as any other.
    """
    target = _as_object(message.get("reply_to_message"))
    if "forum_topic_created" in target:
        return {}
    if message.get("is_topic_message") and target.get("message_id") == message.get("message_thread_id"):
        return {}
    return target


def _is_mention_of(entity: dict[str, Any], text: str, identity: GroupIdentity) -> bool:
    match entity.get("type"):
        case "mention":
            return text.lower() == f"@{identity.username}".lower()
        case "text_mention":
            return bool(_as_object(entity.get("user")).get("id") == identity.id)
    return False


def _list_entities(message: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the entities of a text or caption, with the characters that each covers."""
    key = "entities" if isinstance(message.get("text"), str) else "caption_entities"
    entities = message.get(key)
    if not isinstance(entities, list):
        return
    units = _get_text(message).encode("utf-16-le", "surrogatepass")
    for entity in map(_as_object, entities):
        offset = entity.get("offset")
        length = entity.get("length")
        if isinstance(offset, int) and isinstance(length, int) and offset >= 0:
            yield entity, units[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def _names(text: str, name: str) -> bool:
    """Whether a text has the name as a word of its own, in any case."""
    pattern = rf"(?<!\w){re.escape(name.casefold())}(?!\w)"
    return re.search(pattern, text.casefold()) is not None


def _get_text(message: dict[str, Any]) -> str:
    for key in ("text", "caption"):
        if isinstance(message.get(key), str):
            return str(message[key])
    return ""


def _as_object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
