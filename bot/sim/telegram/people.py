"""The people of the simulated Telegram: they write, tap, stop, and see what the bot shows them."""

from bot.sim.telegram.accounts import Account, ChatThread, MessageReference
from bot.sim.telegram.chats import MAX_TAP_SECONDS, Chat, Tap
from bot.sim.telegram.events import ChatEvent


class SimulatedPerson(Account):
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
