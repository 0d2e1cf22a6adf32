"""Identities that write into chats: people, other bots, anonymous admins, channels linked to a group.

What they write becomes an update of the shape Telegram sends, if the bot receives it; what `send` and the
like return lets a test refer to it.
"""

from dataclasses import dataclass
from typing import Any

from bot.sim.telegram import reactions, shapes
from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.entities import MAX_TEXT_UNITS, count_utf16_units
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Json
from bot.sim.telegram.world import World


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """A message that a person has written.

    Its update (0 if the bot does not receive it) and Telegram's Message object.
    """

    update_id: int
    message: Json

    @property
    def message_id(self) -> int:
        return int(self.message["message_id"])

    @property
    def chat_id(self) -> int:
        return int(self.message["chat"]["id"])


MessageReference = ChatMessage | PersonMessage | int


class ChatThread:
    """Where somebody writes: a chat, and a topic in it if `thread_id` is not 0."""

    def __init__(self, chat: Chat, thread_id: int = 0) -> None:
        self.chat = chat
        self.thread_id = thread_id

    @property
    def id(self) -> int:
        return self.chat.id


class Account:
    """Someone who writes, with their User object.

    `sender_fields` stand in each of their messages, such as the chat in whose name they write; then they need
    not be a member of the group. `private_thread` is their private chat with the bot.
    """

    def __init__(
        self, world: World, user: Json, private_thread: ChatThread, sender_fields: Json | None = None
    ) -> None:
        self.user = user
        self.private_thread = private_thread
        self._world = world
        self._sender_fields = sender_fields or {}

    @property
    def id(self) -> int:
        return int(self.user["id"])

    def send(
        self,
        text: str,
        *,
        reply_to: MessageReference | None = None,
        quote: str | None = None,
        forward_from: "Account | str | None" = None,
        date: float | None = None,
        thread: ChatThread | None = None,
    ) -> PersonMessage:
        """Write a message of at most 4096 UTF-16 units. `date` is Unix time, now by default."""
        if not 0 < count_utf16_units(text) <= MAX_TEXT_UNITS:
            raise ValueError("a message has 1 to 4096 UTF-16 units; `paste` sends longer ones as several")
        return self._post(
            shapes.text_fields(text) | self._context_fields(reply_to, quote, forward_from, thread),
            date,
            thread,
        )

    def send_with_entities(
        self, text: str, entities: list[Json], *, thread: ChatThread | None = None
    ) -> PersonMessage:
        """Write a text with these entities beside those that Telegram finds, such as a `text_mention`."""
        fields = shapes.text_fields(text)
        found = fields.get("entities", [])
        return self._post(fields | {"entities": [*found, *entities]}, None, thread)

    def create_topic(
        self, name: str, *, thread: ChatThread | None = None, has_implicit_name: bool = False
    ) -> ChatThread:
        """Begin a topic, in the private chat or in a forum; the bot hears of it.

        `has_implicit_name`: the app names it, since the person has written outside of all topics.
        """
        chat = (thread or self.private_thread).chat
        if chat.is_private and not self._world.bot["has_topics_enabled"]:
            raise ValueError("the bot has no topics in private chats")
        topic: Json = {"name": name, "icon_color": 7322096}
        if has_implicit_name:
            topic["is_name_implicit"] = True
        thread_id = chat.next_message_id()
        raw = {
            "message_id": thread_id,
            "message_thread_id": thread_id,
            "is_topic_message": True,
            "from": self.user,
            "chat": chat.raw,
            "date": self._world.unix_seconds(),
            "forum_topic_created": topic,
        }
        self._world.open_topic(chat, raw)
        return ChatThread(chat, thread_id)

    def rename_topic(self, topic: ChatThread, name: str) -> None:
        """Give an own topic of the private chat another name; the bot hears of it."""
        topic.chat.topics[topic.thread_id].name = name
        self._post({"forum_topic_edited": {"name": name}}, None, topic)

    def paste(self, text: str, **options: Any) -> list[PersonMessage]:
        """Send any text as a client does, split into several messages if it is too long.

        `options` are those of `send`.
        """
        return [self.send(part, **options) for part in shapes.split_text(text)]

    def edit(self, message: MessageReference, text: str, *, thread: ChatThread | None = None) -> int:
        """Change an own text; returns the update's id. ValueError for what Telegram lets nobody edit."""
        return self._edit(message, "text", shapes.text_fields(text), thread)

    def edit_caption(self, message: MessageReference, caption: str) -> int:
        """Change the caption of an own photo, file or video; returns the update's id."""
        return self._edit(message, "caption", shapes.caption_fields(caption), None)

    def edit_metadata(self, message: MessageReference, *, thread: ChatThread | None = None) -> int:
        """Have Telegram tell of an edit that changed no text, as it does; returns the update's id."""
        chat = (thread or self.private_thread).chat
        there = self._find_message(message, thread)
        self._world.edit(chat, there, there.raw)
        return self._world.deliver("edited_message", chat, there.raw, there.raw["edit_date"])

    def react(self, message: MessageReference, emoji: str, *, thread: ChatThread | None = None) -> int:
        """Set the own reaction to a message, empty for none; returns the update's id, 0 for none."""
        chat = (thread or self.private_thread).chat
        sender_chat = self._sender_fields.get("sender_chat")
        actor = {"actor_chat": sender_chat} if sender_chat else {"user": self.user}
        return reactions.react(self._world, chat, self._find_message(message, thread), actor, emoji)

    def _edit(self, message: MessageReference, key: str, content: Json, thread: ChatThread | None) -> int:
        there = self._find_message(message, thread)
        is_other_kind = (key == "caption" and "text" in there.raw) or (
            key == "text" and "text" not in there.raw
        )
        is_own = there.raw["from"]["id"] == self.id
        if not is_own or "forward_origin" in there.raw or is_other_kind:
            raise ValueError("people edit what they wrote themselves: texts, and captions of media")
        if content.get(key, "") == there.raw.get(key, ""):
            raise ValueError("an edit changes something")
        raw = {
            name: value
            for name, value in there.raw.items()
            if name not in {"entities", "caption_entities", key}
        }
        chat = (thread or self.private_thread).chat
        self._world.edit(chat, there, raw | content)
        return self._world.deliver("edited_message", chat, there.raw, there.raw["edit_date"])

    def delete(self, message: MessageReference) -> None:
        """Delete a message; bots hear nothing of it."""
        self._world.delete(self.private_thread.chat, self._find_message(message, None))

    def _post(self, content: Json, date: float | None, thread: ChatThread | None) -> PersonMessage:
        place = thread or self.private_thread
        chat = place.chat
        self._check_may_write(place)
        if chat.is_private:
            chat.is_known = True
        sent_at = int(self._world.clock.now() if date is None else date)
        raw = {
            "message_id": chat.next_message_id(),
            "from": self.user,
            "chat": chat.raw,
            "date": sent_at,
        }
        raw |= self._sender_fields | shapes.thread_fields(chat, place.thread_id, content) | content
        self._world.post(chat, ChatMessage(raw, from_bot=False))
        return PersonMessage(self._world.deliver("message", chat, raw, sent_at), raw)

    def _check_may_write(self, place: ChatThread) -> None:
        """Refuse what a client would not let this account do."""
        if not isinstance(place.chat, GroupChat) or self._sender_fields:
            return
        member = place.chat.find_member(self.user)
        if not member.is_present or not member.can_send:
            raise ValueError(f"{self.user['first_name']} may not write in {place.chat.raw['title']}")
        topic = place.chat.topics.get(place.thread_id)
        if topic is not None and topic.is_closed and not member.is_admin:
            raise ValueError(f"the topic {topic.name} is closed")

    def _context_fields(
        self,
        reply_to: MessageReference | None,
        quote: str | None,
        forward_from: "Account | str | None",
        thread: ChatThread | None,
    ) -> Json:
        """The fields about other messages: the one it replies to, and the forward's origin."""
        if reply_to is None:
            about = {}
        else:
            about = shapes.reply_fields(self._find_message(reply_to, thread).raw, quote)
        if forward_from is not None:
            writer = forward_from.user if isinstance(forward_from, Account) else forward_from
            about["forward_origin"] = shapes.forward_origin(writer, self._world.unix_seconds())
        return about

    def _find_message(self, message: MessageReference, thread: ChatThread | None) -> ChatMessage:
        chat = (thread or self.private_thread).chat
        message_id = message if isinstance(message, int) else message.message_id
        there = chat.find_message(message_id)
        if there is None:
            raise LookupError(f"no message {message_id} in chat {chat.id}")
        return there

    def _store_file(self, kind: str, content: bytes) -> str:
        return self._world.files.store(kind, content).file_id
