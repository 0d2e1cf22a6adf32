"""What people do to a simulated group: add and remove members, begin topics, migrate, link a channel."""

from bot.sim.telegram.accounts import Account, ChatThread, MessageReference, PersonMessage
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.members import Member, MemberStatus
from bot.sim.telegram.params import Json
from bot.sim.telegram.world import World

GROUP_ANONYMOUS_BOT: Json = {
    "id": 1087968824,
    "is_bot": True,
    "first_name": "Group",
    "username": "GroupAnonymousBot",
}
TELEGRAM_ACCOUNT: Json = {"id": 777000, "is_bot": False, "first_name": "Telegram"}


class SimulatedGroup(ChatThread):
    """A group to act upon, and to write in: the `thread` of what people send (in a forum, its General topic).

    Everything is done by `owner` unless `by` names somebody else.
    """

    def __init__(self, world: World, chat: GroupChat, owner: Json) -> None:
        super().__init__(chat)
        self.chat: GroupChat = chat
        self.owner = owner
        self._world = world

    def change_member(
        self,
        user: Json,
        status: MemberStatus,
        *,
        by: Account | None = None,
        can_send: bool = True,
        is_anonymous: bool = False,
    ) -> int:
        """Change what a user is here, the bot included; returns the update's id.

        0: the bot does not hear of others where it is no administrator. `can_send` is of who is `restricted`.
        """
        before = self.chat.find_member(user)
        after = Member(user, status, can_send, is_anonymous)
        is_own = user["id"] == self._world.bot["id"]
        if is_own and after.is_present and not before.is_present:
            self.chat.hears_everything = self._world.bot["can_read_all_group_messages"]
        self.chat.members[user["id"]] = after
        change = {
            "chat": self.chat.raw,
            "from": self._actor(by),
            "date": self._world.unix_seconds(),
            "old_chat_member": before.to_raw(),
            "new_chat_member": after.to_raw(),
        }
        update_id = 0
        if is_own:
            update_id = self._world.updates.put("my_chat_member", change)
        elif self.chat.bot_member.is_admin:
            update_id = self._world.updates.put("chat_member", change)
        if after.is_present and not before.is_present:
            self.post_service({"new_chat_members": [user]}, by=by)
        if before.is_present and not after.is_present:
            self.post_service({"left_chat_member": user}, by=by)
        return update_id

    def post_service(self, fields: Json, *, by: Account | None = None, thread_id: int = 0) -> PersonMessage:
        """Post a service message, such as `{"delete_chat_photo": True}`."""
        raw = {
            "message_id": self.chat.next_message_id(),
            "from": self._actor(by),
            "chat": self.chat.raw,
            "date": self._world.unix_seconds(),
            **fields,
        }
        if thread_id:
            raw |= {"message_thread_id": thread_id, "is_topic_message": True}
        self._world.post(self.chat, ChatMessage(raw, from_bot=False))
        return PersonMessage(self._world.deliver("message", self.chat, raw, raw["date"]), raw)

    def change_title(self, title: str) -> PersonMessage:
        self.chat.raw = {**self.chat.raw, "title": title}
        return self.post_service({"new_chat_title": title})

    def pin(self, message: MessageReference) -> PersonMessage:
        """Pin a message; the service message carries it whole."""
        message_id = message if isinstance(message, int) else message.message_id
        pinned = self.chat.find_message(message_id)
        if pinned is None:
            raise LookupError(f"no message {message_id} to pin")
        return self.post_service({"pinned_message": pinned.raw})

    def find_topic(self, thread_id: int) -> ChatThread:
        """A topic to write in; KeyError if it does not exist."""
        self.chat.topics[thread_id]
        return ChatThread(self.chat, thread_id)

    def close_topic(self, topic: ChatThread) -> PersonMessage:
        """Close a topic to all but administrators; the group itself stands for its General topic."""
        if not topic.thread_id:
            self.chat.is_general_closed = True
            return self.post_service({"forum_topic_closed": {}})
        self.chat.topics[topic.thread_id].is_closed = True
        return self.post_service({"forum_topic_closed": {}}, thread_id=topic.thread_id)

    def reopen_topic(self, topic: ChatThread) -> PersonMessage:
        if not topic.thread_id:
            self.chat.is_general_closed = False
            return self.post_service({"forum_topic_reopened": {}})
        self.chat.topics[topic.thread_id].is_closed = False
        return self.post_service({"forum_topic_reopened": {}}, thread_id=topic.thread_id)

    def delete_topic(self, topic: ChatThread) -> None:
        """Delete a topic with its messages; bots hear nothing of it."""
        del self.chat.topics[topic.thread_id]
        for message in self.chat.messages:
            if message.raw.get("message_thread_id") == topic.thread_id:
                self._world.delete(self.chat, message)

    def migrate(self, chat_id: int) -> "SimulatedGroup":
        """Make this basic group a supergroup with a new id; returns it. The old id is refused from now on."""
        if self.chat.kind != "group":
            raise ValueError("only a basic group becomes a supergroup")
        upgraded = self._world.add_group_chat({**self.chat.raw, "id": chat_id, "type": "supergroup"})
        upgraded.members = dict(self.chat.members)
        upgraded.hears_everything = self.chat.hears_everything
        self.post_service({"migrate_to_chat_id": chat_id})
        self.chat.migrated_to = chat_id
        group = SimulatedGroup(self._world, upgraded, self.owner)
        group.post_service({"migrate_from_chat_id": self.chat.id})
        return group

    def add_anonymous_admin(self) -> Account:
        """An administrator who writes as the group; Telegram tells nobody who it is."""
        return Account(self._world, GROUP_ANONYMOUS_BOT, self, {"sender_chat": self.chat.raw})

    def link_channel(self, chat_id: int, title: str) -> Account:
        """The channel that this group discusses; each of its posts is forwarded here by Telegram."""
        channel = {"id": chat_id, "type": "channel", "title": title}
        origin = {"type": "channel", "chat": channel, "message_id": 1, "date": self._world.unix_seconds()}
        self.chat.linked_chat_id = chat_id
        fields = {"sender_chat": channel, "is_automatic_forward": True, "forward_origin": origin}
        return Account(self._world, TELEGRAM_ACCOUNT, self, fields)

    def _actor(self, by: Account | None) -> Json:
        return by.user if by else self.owner
