"""The people of the tests: they do all that a client can, summon the bot as a guest, and block it."""

from bot.sim.telegram.accounts import ChatThread, MessageReference
from bot.sim.telegram.members import Member, MemberStatus
from bot.sim.telegram.params import Json
from bot.sim.telegram.people import SimulatedPerson
from tests.support.telegram import guest_queries
from tests.support.telegram.media import MediaAccount
from tests.support.telegram.world import GuestQuery, ScriptedWorld


class ScriptedPerson(MediaAccount, SimulatedPerson):
    """Someone with a Telegram account."""

    def __init__(self, world: ScriptedWorld, user: Json, private_thread: ChatThread) -> None:
        super().__init__(world, user, private_thread)
        self._scripted_world = world

    def summon(
        self, text: str, *, thread: ChatThread, reply_to: MessageReference | None = None
    ) -> GuestQuery:
        """Ask the bot as a guest of this chat, by a mention or a reply to what it answered here before."""
        replied = None if reply_to is None else self._find_message(reply_to, thread)
        mention = f"@{self._world.bot['username']}".lower()
        if mention not in text.lower() and not (replied and replied.inline_message_id):
            raise ValueError("a guest is summoned by a mention, or by a reply to its answer")
        return guest_queries.ask(
            self._scripted_world, thread.chat, self.send(text, thread=thread, reply_to=reply_to).message
        )

    def block(self) -> int:
        """Block the bot; returns the update's id."""
        self.chat.is_blocked = True
        return self._change_bot_status("member", "kicked")

    def unblock(self) -> int:
        """Let the bot write again; returns the update's id."""
        self.chat.is_blocked = False
        return self._change_bot_status("kicked", "member")

    def _change_bot_status(self, before: MemberStatus, after: MemberStatus) -> int:
        bot = self._world.bot
        change = {
            "chat": self.chat.raw,
            "from": self.user,
            "date": self._world.unix_seconds(),
            "old_chat_member": Member(bot, before).to_raw(),
            "new_chat_member": Member(bot, after).to_raw(),
        }
        return self._world.updates.put("my_chat_member", change)
