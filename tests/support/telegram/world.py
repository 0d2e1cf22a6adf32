"""What the Telegram of a test knows beside chats: guests' queries, and a queue that it may fill itself."""

from dataclasses import dataclass

from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.flood_limits import FloodLimits
from bot.sim.telegram.params import Json
from bot.sim.telegram.world import World
from tests.support.telegram.updates import ScriptedUpdateQueue


@dataclass(slots=True)
class GuestQuery:
    """A summons that waits for its answer; `update_id` is 0 if the bot does not receive it."""

    query_id: str
    chat: Chat
    message: Json
    asked_at: float
    update_id: int = 0
    answer: ChatMessage | None = None


class ScriptedWorld(World):
    """Everything that one bot's Telegram knows. `throttles_polls` is as in ScriptedUpdateQueue."""

    def __init__(self, bot: Json, limits: FloodLimits, *, throttles_polls: bool) -> None:
        self.guest_queries: dict[str, GuestQuery] = {}
        self._throttles_polls = throttles_polls
        super().__init__(bot, limits)

    def open_queue(self) -> ScriptedUpdateQueue:
        """The queue of the bot's updates, empty."""
        self.scripted_updates = ScriptedUpdateQueue(self.clock, self.changes, throttled=self._throttles_polls)
        return self.scripted_updates

    def find_inline_message(self, inline_id: str) -> tuple[Chat, ChatMessage]:
        """The answer of a guest, and its chat."""
        for query in self.guest_queries.values():
            if query.answer and query.answer.inline_message_id == inline_id and not query.answer.deleted:
                return query.chat, query.answer
        return super().find_inline_message(inline_id)
