"""Parses a stored update into what a person did in Telegram: who, where, and with what, as plain values."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from telegram import (
    ChatMember,
    ChatMemberAdministrator,
    ChatMemberRestricted,
    ChatMemberUpdated,
    MaybeInaccessibleMessage,
    Message,
    Update,
    User,
)

from bot.domain import InboxItem, Lane

MAX_NAME_CHARS = 32

_FILLERS = "\u115f\u1160\u17b4\u17b5"  # letters that show nothing; NFKC makes them of others


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A message that somebody wrote or edited.

    `text`: its text or caption ("": it has neither). `album`: what it came in with others (None: alone).
    `other_chat`: the other number of a group that it says has become a supergroup.
    """

    message_id: int
    chat: int
    chat_title: str | None
    text: str
    is_forward: bool = False
    album: str | None = None
    other_chat: int | None = None


@dataclass(frozen=True, slots=True)
class ButtonTap:
    """A tap on a button; `message_id` of the message that it stands below (None: nobody knows which)."""

    id: str
    data: str
    message_id: int | None


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """How the bot's place in a chat has changed; `is_blocked`: it was removed, or a person blocked it."""

    chat: int
    chat_title: str | None
    was_present: bool
    is_present: bool
    can_send: bool
    is_blocked: bool


@dataclass(frozen=True, slots=True)
class ParsedUpdate:
    """What one update says. `lane` is None if nobody can be answered, `person` if no person did it.

    At most one of `message`, `edited`, `tap`, `is_reaction` and `membership` is set; an update of another
    kind has none.
    """

    item: InboxItem
    lane: Lane | None = None
    person: int | None = None
    name: str = ""
    language_code: str | None = None
    sent_at: float = 0.0
    chat_type: str = ""  # in Telegram's words: private, group, supergroup, channel
    message: ReadMessage | None = None
    edited: ReadMessage | None = None
    tap: ButtonTap | None = None
    is_reaction: bool = False
    membership: MembershipChange | None = None


def parse_update(item: InboxItem) -> ParsedUpdate:
    """Parse an update; raises whatever the library raises for one that it cannot read."""
    update = Update.de_json(_complete_membership(item.body), None)
    if "stopped_message_generation" in update.api_kwargs:
        return _parse_stop(item, update.api_kwargs["stopped_message_generation"])
    if query := update.callback_query:
        message_id = query.message.message_id if query.message else None
        tap = ButtonTap(query.id, query.data or "", message_id)
        return _build_update(item, query.from_user, query.message, tap=tap)
    if reaction := update.message_reaction:
        chat = reaction.chat
        person = _read_person(reaction.user)
        return ParsedUpdate(item, Lane(chat.id), *person, chat_type=chat.type, is_reaction=True)
    if membership := update.my_chat_member:
        chat = membership.chat
        return ParsedUpdate(
            item,
            Lane(chat.id),
            *_read_person(membership.from_user),
            chat_type=chat.type,
            membership=_read_membership(membership),
        )
    if message := update.message:
        sent_at = message.date.timestamp()
        return _build_update(
            item, message.from_user, message, message=_read_message(message), sent_at=sent_at
        )
    if edited := update.edited_message:
        return _build_update(item, edited.from_user, edited, edited=_read_message(edited))
    return ParsedUpdate(item)


def _complete_membership(body: Mapping[str, Any]) -> dict[str, Any]:
    """Add the rights that a raw membership does not name: the library raises without each that it knows.

    Which rights there are differs from version to version of the Bot API.
    """
    update = dict(body)
    change = update.get("my_chat_member")
    if not isinstance(change, dict):
        return update
    update["my_chat_member"] = completed = dict(change)
    for key in ("old_chat_member", "new_chat_member"):
        member = change.get(key)
        if isinstance(member, dict):
            rights = _RIGHTS_BY_STATUS.get(str(member.get("status")), {})
            completed[key] = {**rights, **member}
    return update


def _list_rights(kind: type[ChatMember]) -> dict[str, bool]:
    """The rights without which the library builds no such member, all denied."""
    # All of them: a right whose default is None may be required all the same.
    return {name: False for name in signature(kind).parameters if name.startswith(("can_", "is_"))}


_RIGHTS_BY_STATUS: Mapping[str, dict[str, Any]] = {
    ChatMember.ADMINISTRATOR: _list_rights(ChatMemberAdministrator),
    ChatMember.RESTRICTED: _list_rights(ChatMemberRestricted) | {"is_member": True, "until_date": 0},
    ChatMember.BANNED: {"until_date": 0},
}


def to_display_name(first_name: str, person: int) -> str:
    """Shorten a name for prompts and lists to letters and digits."""
    return to_plain_name(first_name, MAX_NAME_CHARS) or f"Person {person}"


def to_plain_name(name: str, max_chars: int) -> str:
    """Shorten a name to letters and digits, so that it cannot carry instructions; "" if it has none."""
    normalized = unicodedata.normalize("NFKC", name)
    plain = "".join(letter if _is_plain(letter) else " " for letter in normalized)
    return " ".join(plain.split())[:max_chars].strip()


def _build_update(
    item: InboxItem, user: User | None, origin: MaybeInaccessibleMessage | None, **fields: Any
) -> ParsedUpdate:
    if origin is None:
        return ParsedUpdate(item, item.lane, *_read_person(user), **fields)
    topic = None
    if isinstance(origin, Message) and origin.is_topic_message:
        topic = origin.message_thread_id
    sender = _read_person(user)
    if isinstance(origin, Message) and "tap" not in fields:
        sender = _read_author(origin)
    return ParsedUpdate(
        item,
        item.lane or Lane(origin.chat.id, topic),
        *sender,
        chat_type=origin.chat.type,
        **fields,
    )


def _parse_stop(item: InboxItem, payload: Mapping[str, Any]) -> ParsedUpdate:
    """Parse a tap on Stop below a draft. The update names only the chat, which in private is the person."""
    chat = int(payload["chat"]["id"])
    chat_type = str(payload["chat"]["type"])
    lane = Lane(chat, payload.get("message_thread_id"))
    person = chat if chat_type == "private" else None
    return ParsedUpdate(item, lane, person, chat_type=chat_type)


def _read_message(message: Message) -> ReadMessage:
    return ReadMessage(
        message.message_id,
        message.chat.id,
        message.chat.title,
        message.text or message.caption or "",
        is_forward=message.forward_origin is not None,
        album=message.media_group_id,
        other_chat=message.migrate_to_chat_id or message.migrate_from_chat_id,
    )


def _read_membership(change: ChatMemberUpdated) -> MembershipChange:
    member = change.new_chat_member
    return MembershipChange(
        change.chat.id,
        change.chat.title,
        was_present=_is_present(change.old_chat_member),
        is_present=_is_present(member),
        can_send=not isinstance(member, ChatMemberRestricted) or member.can_send_messages,
        is_blocked=member.status == ChatMember.BANNED,
    )


def _is_present(member: ChatMember) -> bool:
    """Whether somebody of this membership is in the group."""
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status in {ChatMember.MEMBER, ChatMember.ADMINISTRATOR, ChatMember.OWNER}


def _read_author(message: Message) -> tuple[int | None, str, str | None]:
    """Return who wrote a message: an anonymous administrator of a group counts as the group."""
    chat = message.chat
    if message.sender_chat is not None and message.sender_chat.id == chat.id:
        return (chat.id, to_display_name(chat.title or "", chat.id), None)
    return _read_person(message.from_user)


def _read_person(user: User | None) -> tuple[int | None, str, str | None]:
    """Return a person's id, name and language code.

    None of another bot, so that no two bots answer each other for ever.
    """
    if user and not user.is_bot:
        return (user.id, to_display_name(user.first_name, user.id), user.language_code)
    return (None, "", None)


def _is_plain(letter: str) -> bool:
    is_letter = unicodedata.category(letter)[0] in "LMN" and letter not in _FILLERS
    return is_letter or letter in "'’-"
