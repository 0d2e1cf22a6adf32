"""Everything that one bot's Telegram knows: its chats, taps, files and commands, and the queue of updates.

Finds the chat that a call names, and makes what happens there visible and heard.
"""

import itertools

from bot.sim.telegram.chats import Chat, ChatMessage, Tap
from bot.sim.telegram.events import ChangeNotifier, ChatEvent, Clock
from bot.sim.telegram.files import FileStore
from bot.sim.telegram.flood_limits import FloodGate, FloodLimits
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Json, Params, bad_request
from bot.sim.telegram.updates import UpdateQueue


class World:
    """Everything that one bot's Telegram knows."""

    def __init__(self, bot: Json, limits: FloodLimits) -> None:
        self.bot = bot
        self.clock = Clock()
        self.changes = ChangeNotifier()
        self.flood_gate = FloodGate(limits, self.clock.now)
        self.updates = self.open_queue()
        self.chats: dict[int, Chat] = {}
        self.taps: dict[str, Tap] = {}
        self.commands: dict[tuple[str, str], list[Json]] = {}  # by scope and language, see command_menus
        self.files = FileStore()
        self.users: dict[int, Json] = {bot["id"]: bot}
        self.album_ids = itertools.count(13_000_000_000_000_001)
        self._shared_message_ids = itertools.count(1)  # of private chats and basic groups

    def open_queue(self) -> UpdateQueue:
        """The queue of the bot's updates, empty."""
        return UpdateQueue(self.clock, self.changes)

    def add_private_chat(self, raw: Json) -> Chat:
        chat = Chat(raw, self.clock, self._shared_message_ids)
        self.chats[chat.id] = chat
        return chat

    def add_group_chat(self, raw: Json) -> GroupChat:
        message_ids = itertools.count(1) if raw["type"] == "supergroup" else self._shared_message_ids
        chat = GroupChat(raw, self.clock, message_ids, self.bot)
        self.chats[chat.id] = chat
        return chat

    def unix_seconds(self) -> int:
        """The time in whole seconds of Unix time."""
        return int(self.clock.now())

    def find_chat(self, params: Params) -> Chat:
        """The chat that a call names by id or by @username."""
        name = params.text("chat_id").strip()
        if not name:
            raise bad_request("chat_id is empty")
        if name.startswith("@"):
            chat = self._find_by_username(name)
        else:
            chat = self.chats.get(params.integer("chat_id"))
        if chat is None:
            raise bad_request("chat not found")
        chat.check_access()
        return chat

    def find_inline_message(self, inline_id: str) -> tuple[Chat, ChatMessage]:
        """A message that was sent by inline mode or as a guest, and its chat; here are none."""
        raise bad_request("MESSAGE_ID_INVALID")

    def find_user(self, user_id: int) -> Json | None:
        return self.users.get(user_id)

    def find_writable_chat(self, params: Params) -> Chat:
        """The chat that a call names, if the bot may do there what people see."""
        chat = self.find_chat(params)
        chat.check_writable()
        return chat

    def deliver(self, kind: str, chat: Chat, raw: Json, sent_at: float) -> int:
        """Queue an update about a message; returns its id, 0 if the bot does not receive the message."""
        if not chat.is_heard(raw):
            return 0
        return self.updates.put(kind, raw, sent_at=sent_at)

    def post(self, chat: Chat, message: ChatMessage) -> None:
        """Make a message visible."""
        chat.add_message(message)
        self.changes.notify(ChatEvent("message", chat.id, message.message_id, message.raw))

    def edit(self, chat: Chat, message: ChatMessage, raw: Json) -> None:
        """Replace a message by its edited version."""
        message.edits.append(message.raw)
        message.raw = {**raw, "edit_date": self.unix_seconds()}
        self.changes.notify(ChatEvent("edited", chat.id, message.message_id, message.raw))

    def delete(self, chat: Chat, message: ChatMessage) -> None:
        message.deleted = True
        self.changes.notify(ChatEvent("deleted", chat.id, message.message_id))

    def _find_by_username(self, name: str) -> Chat | None:
        return next(
            (chat for chat in self.chats.values() if "@" + chat.raw.get("username", "") == name), None
        )
