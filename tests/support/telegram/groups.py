"""What tests do to a group: rename it, pin, close and delete topics, migrate, link a channel."""

from bot.sim.telegram.accounts import ChatThread, MessageReference, PersonMessage
from bot.sim.telegram.groups import SimulatedGroup
from bot.sim.telegram.params import Json
from tests.support.telegram.accounts import ScriptedAccount

GROUP_ANONYMOUS_BOT: Json = {
    "id": 1087968824,
    "is_bot": True,
    "first_name": "Group",
    "username": "GroupAnonymousBot",
}
TELEGRAM_ACCOUNT: Json = {"id": 777000, "is_bot": False, "first_name": "Telegram"}


class ScriptedGroup(SimulatedGroup):
    """A group to act upon. Everything is done by `owner` unless `by` names somebody else."""

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

    def migrate(self, chat_id: int) -> "ScriptedGroup":
        """Make this basic group a supergroup with a new id; returns it. The old id is refused from now on."""
        if self.chat.kind != "group":
            raise ValueError("only a basic group becomes a supergroup")
        upgraded = self._world.add_group_chat({**self.chat.raw, "id": chat_id, "type": "supergroup"})
        upgraded.members = dict(self.chat.members)
        upgraded.hears_everything = self.chat.hears_everything
        self.post_service({"migrate_to_chat_id": chat_id})
        self.chat.migrated_to = chat_id
        group = ScriptedGroup(self._world, upgraded, self.owner)
        group.post_service({"migrate_from_chat_id": self.chat.id})
        return group

    def add_anonymous_admin(self) -> ScriptedAccount:
        """An administrator who writes as the group; Telegram tells nobody who it is."""
        return ScriptedAccount(self._world, GROUP_ANONYMOUS_BOT, self, {"sender_chat": self.chat.raw})

    def link_channel(self, chat_id: int, title: str) -> ScriptedAccount:
        """The channel that this group discusses; each of its posts is forwarded here by Telegram."""
        channel = {"id": chat_id, "type": "channel", "title": title}
        origin = {"type": "channel", "chat": channel, "message_id": 1, "date": self._world.unix_seconds()}
        fields = {"sender_chat": channel, "is_automatic_forward": True, "forward_origin": origin}
        return ScriptedAccount(self._world, TELEGRAM_ACCOUNT, self, fields)
