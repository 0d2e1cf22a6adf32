"""The people of the simulated Telegram: they write, tap, stop, block, and see what the bot shows them."""

from bot.sim.telegram import guest_queries
from bot.sim.telegram.accounts import ChatThread, MessageReference
from bot.sim.telegram.chats import MAX_TAP_SECONDS, Chat, GuestQuery, Tap
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.media_accounts import MediaAccount
from bot.sim.telegram.members import Member, MemberStatus


class SimulatedPerson(MediaAccount):
    """Someone with a Telegram account.

    `private_thread` is their private chat with the bot, which may write there once they have written.
    """

    @property
    def chat(self) -> Chat:
        """The private chat with the bot."""
        return self.private_thread.chat

    def tap(self, message: MessageReference, button: str, *, thread: ChatThread | None = None) -> Tap:
        """Press an inline button, named by its text or callback data; LookupError if it is not there."""
        chat = (thread or self.private_thread).chat
        there = self._find_message(message, thread)
        matches = (b for b in there.buttons if button in (b["text"], b.get("callback_data")))
        data = next((b["callback_data"] for b in matches if "callback_data" in b), None)
        if data is None:
            raise LookupError(f"no button {button!r} to press among {[b['text'] for b in there.buttons]}")
        query_id = str(7_000_000_001 + len(self._world.taps))
        query = {
            "id": query_id,
            "from": self.user,
            "message": there.raw,
            "chat_instance": f"-{chat.id}",
            "data": data,
        }
        update_id = self._world.updates.put("callback_query", query, lifetime_seconds=MAX_TAP_SECONDS)
        tap = Tap(update_id, query_id, there.message_id, self._world.clock.now(), chat.id)
        self._world.taps[query_id] = tap
        return tap

    def stop_draft(self) -> int:
        """Press Stop on the draft shown in private; returns the update's id.

        LookupError if there is none to stop.
        """
        draft = self.chat.draft
        if draft is None or not draft.can_stop:
            raise LookupError("no draft that can be stopped is shown")
        if not draft.keeps_on_stop:
            self.chat.show_draft(None)
            self._world.changes.notify(ChatEvent("draft", self.chat.id))
        if draft.thread_id:
            thread = {"message_thread_id": draft.thread_id}
        else:
            thread = {}
        stopped = {"chat": self.chat.raw, "draft_id": draft.draft_id, **thread}
        return self._world.updates.put("stopped_message_generation", stopped)

    def summon(
        self, text: str, *, thread: ChatThread, reply_to: MessageReference | None = None
    ) -> GuestQuery:
        """Ask the bot as a guest of this chat, by a mention or a reply to what it answered here before."""
        replied = None if reply_to is None else self._find_message(reply_to, thread)
        mention = f"@{self._world.bot['username']}".lower()
        if mention not in text.lower() and not (replied and replied.inline_message_id):
            raise ValueError("a guest is summoned by a mention, or by a reply to its answer")
        return guest_queries.ask(
            self._world, thread.chat, self.send(text, thread=thread, reply_to=reply_to).message
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
