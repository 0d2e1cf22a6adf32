"""What people do to a simulated group: they add and remove members."""

from bot.sim.telegram.accounts import Account, ChatThread, PersonMessage
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.members import Member, MemberStatus
from bot.sim.telegram.params import Json
from bot.sim.telegram.world import World


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

    def _actor(self, by: Account | None) -> Json:
        return by.user if by else self.owner
