"""Identities that write as tests want: topics, forwards, reactions, edits of captions, deletions."""

from bot.sim.telegram import shapes
from bot.sim.telegram.accounts import Account, ChatThread, MessageReference, PersonMessage
from bot.sim.telegram.chats import ChatMessage, Topic
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Json
from bot.sim.telegram.world import World
from tests.support.telegram import reactions
from tests.support.telegram.shapes import forward_origin, quote_fields


class ScriptedAccount(Account):
    """Someone who writes.

    `sender_fields` stand in each of their messages, such as the chat in whose name they write; then they need
    not be a member of the group.
    """

    def __init__(
        self, world: World, user: Json, private_thread: ChatThread, sender_fields: Json | None = None
    ) -> None:
        super().__init__(world, user, private_thread)
        self._sender_fields = sender_fields or {}

    def send(
        self,
        text: str,
        *,
        reply_to: MessageReference | None = None,
        quote: str | None = None,
        forward_from: Account | str | None = None,
        date: float | None = None,
        thread: ChatThread | None = None,
    ) -> PersonMessage:
        """Write a message of at most 4096 UTF-16 units. `date` is Unix time, now by default."""
        about = self._context_fields(reply_to, quote, forward_from, thread)
        if date is not None:
            about["date"] = int(date)
        return self._write(text, about, thread)

    def send_with_entities(
        self, text: str, entities: list[Json], *, thread: ChatThread | None = None
    ) -> PersonMessage:
        """Write a text with these entities beside those that Telegram finds, such as a `text_mention`."""
        fields = shapes.text_fields(text)
        found = fields.get("entities", [])
        return self._post(fields | {"entities": [*found, *entities]}, thread)

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
        raw: Json = {
            "message_id": thread_id,
            "message_thread_id": thread_id,
            "is_topic_message": True,
            "from": self.user,
            "chat": chat.raw,
            "date": self._world.unix_seconds(),
            "forum_topic_created": topic,
        }
        chat.topics[thread_id] = Topic(name, raw)
        self._world.post(chat, ChatMessage(raw, from_bot=False))
        self._world.deliver("message", chat, raw, raw["date"])
        return ChatThread(chat, thread_id)

    def rename_topic(self, topic: ChatThread, name: str) -> None:
        """Give an own topic of the private chat another name; the bot hears of it."""
        topic.chat.topics[topic.thread_id].name = name
        self._post({"forum_topic_edited": {"name": name}}, topic)

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

    def delete(self, message: MessageReference) -> None:
        """Delete a message; bots hear nothing of it."""
        self._world.delete(self.private_thread.chat, self._find_message(message, None))

    def _post(self, content: Json, thread: ChatThread | None) -> PersonMessage:
        self._check_may_write(thread or self.private_thread)
        return super()._post(self._sender_fields | content, thread)

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
        forward_from: Account | str | None,
        thread: ChatThread | None,
    ) -> Json:
        """The fields about other messages: the one it replies to, and the forward's origin."""
        about: Json = {}
        if reply_to is not None:
            replied = self._find_message(reply_to, thread).raw
            about = shapes.reply_fields(replied)
            if quote is not None:
                about |= quote_fields(replied, quote)
        if forward_from is not None:
            writer = forward_from.user if isinstance(forward_from, Account) else forward_from
            about["forward_origin"] = forward_origin(writer, self._world.unix_seconds())
        return about
