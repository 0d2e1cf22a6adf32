"""One inbox item read as what a person did in Telegram: who, where, and with what. Raises when it cannot be
read.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from telegram import CallbackQuery, ChatMemberUpdated, MaybeInaccessibleMessage, Message, Update, User

from bot.domain import InboxItem, Lane

LONGEST_NAME = 32


@dataclass(frozen=True, slots=True)
class Visit:
    """What one update says. `lane` is None where nobody can be answered, `person` where no person did it.

    At most one of `message`, `edited`, `query` and `membership` is there; an update of another kind has none.
    """

    item: InboxItem
    lane: Lane | None = None
    person: int | None = None
    name: str = ""
    sent_at: float = 0.0
    chat: str = ""  # Telegram's word for its type: private, group, supergroup, channel
    message: Message | None = None
    edited: Message | None = None
    query: CallbackQuery | None = None
    membership: ChatMemberUpdated | None = None


def read(item: InboxItem) -> Visit:
    """Read an update; raises whatever the library raises for one it cannot read."""
    update = Update.de_json(dict(item.body), None)
    if "stopped_message_generation" in update.api_kwargs:
        return _stopped(item, update.api_kwargs["stopped_message_generation"])
    if query := update.callback_query:
        return _visit(item, query.from_user, query.message, query=query)
    if membership := update.my_chat_member:
        chat = membership.chat
        return Visit(item, Lane(chat.id), *_who(membership.from_user), chat=chat.type, membership=membership)
    if message := update.message:
        return _visit(item, message.from_user, message, message=message, sent_at=message.date.timestamp())
    if edited := update.edited_message:
        return _visit(item, edited.from_user, edited, edited=edited)
    return Visit(item)


def name_of(first_name: str, person: int) -> str:
    """What a person is called in prompts and lists: a short name of letters and digits, which can carry no
    orders.
    """
    kept = "".join(letter if _plain(letter) else " " for letter in unicodedata.normalize("NFC", first_name))
    return " ".join(kept.split())[:LONGEST_NAME].strip() or f"Person {person}"


def _visit(item: InboxItem, user: User | None, where: MaybeInaccessibleMessage | None, **what: Any) -> Visit:
    if where is None:
        return Visit(item, item.lane, *_who(user), **what)
    if isinstance(where, Message) and where.is_topic_message:
        topic = where.message_thread_id
    else:
        topic = None
    return Visit(item, item.lane or Lane(where.chat.id, topic), *_who(user), chat=where.chat.type, **what)


def _stopped(item: InboxItem, stopped: Mapping[str, Any]) -> Visit:
    """A person pressed Stop on a draft. The update names the chat alone, which in private is the person."""
    chat = int(stopped["chat"]["id"])
    where = str(stopped["chat"]["type"])
    lane = Lane(chat, stopped.get("message_thread_id"))
    return Visit(item, lane, chat if where == "private" else None, chat=where)


def _who(user: User | None) -> tuple[int | None, str]:
    """A person's id and name; other bots are nobody, so that no two of them ever talk to each other for ever."""
    if user and not user.is_bot:
        return (user.id, name_of(user.first_name, user.id))
    return (None, "")


def _plain(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LMN" or letter in "'’-"
