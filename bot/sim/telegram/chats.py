"""Telegram's own state: chats with their messages, drafts and chat actions, button taps, files.

Owns all state except the queue of updates; knows what is visible to a person. Methods and people write into
it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bot.sim.telegram.events import ChangeNotifier, ChatEvent, Clock
from bot.sim.telegram.flood_limits import FloodGate, FloodLimits
from bot.sim.telegram.params import Json, Params, TelegramRefusal, bad_request
from bot.sim.telegram.updates import UpdateQueue

DRAFT_SECONDS = 30.0
TYPING_SECONDS = 5.0
MAX_TAP_SECONDS = 150.0


@dataclass(slots=True)
class ChatMessage:
    """A message of a chat.

    `raw` is Telegram's Message object as it is now, `edits` what it was before each edit.
    """

    raw: Json
    from_bot: bool
    silent: bool = False
    deleted: bool = False
    edits: list[Json] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)

    @property
    def message_id(self) -> int:
        return int(self.raw["message_id"])

    @property
    def text(self) -> str:
        return str(self.raw.get("text", self.raw.get("caption", "")))

    @property
    def entities(self) -> list[Json]:
        return self.raw.get("entities") or self.raw.get("caption_entities") or []

    @property
    def reply_markup(self) -> Json | None:
        return self.raw.get("reply_markup")

    @property
    def buttons(self) -> list[Json]:
        """All inline buttons, row by row."""
        return [
            button for row in self.raw.get("reply_markup", {}).get("inline_keyboard", []) for button in row
        ]


@dataclass(frozen=True, slots=True)
class ChatDraft:
    """A draft, visible until `until` (Unix time of the simulator) or until a message arrives."""

    draft_id: int
    text: str
    entities: tuple[Json, ...]
    can_stop: bool
    keeps_on_stop: bool
    thread_id: int
    expires_at: float

    def to_data(self) -> Json:
        return {
            "draft_id": self.draft_id,
            "text": self.text,
            "entities": list(self.entities),
            "can_stop": self.can_stop,
            "seconds": DRAFT_SECONDS,
        }


@dataclass(slots=True)
class Tap:
    """A press of a button; `answer` is what the bot answered to it, None as long as it has not."""

    update_id: int
    query_id: str
    message_id: int
    tapped_at: float
    chat_id: int
    answer: Json | None = None


class Chat:
    """One chat as its people see it."""

    def __init__(self, raw: Json, clock: Clock) -> None:
        self.raw = raw
        self.topics: set[int] = set()
        self.is_known = raw["type"] != "private"  # a bot cannot write to a person who never wrote to it
        self.is_blocked = False
        self._clock = clock
        self._messages: dict[int, ChatMessage] = {}
        self._draft: ChatDraft | None = None
        self._chat_action: tuple[str, float] = ("", 0.0)

    @property
    def id(self) -> int:
        return int(self.raw["id"])

    @property
    def is_private(self) -> bool:
        return bool(self.raw["type"] == "private")

    @property
    def messages(self) -> list[ChatMessage]:
        """The visible messages, in order."""
        return [message for message in self._messages.values() if not message.deleted]

    @property
    def bot_messages(self) -> list[ChatMessage]:
        """The visible messages of the bot, in order."""
        return [message for message in self.messages if message.from_bot]

    @property
    def deleted_messages(self) -> list[ChatMessage]:
        return [message for message in self._messages.values() if message.deleted]

    @property
    def draft(self) -> ChatDraft | None:
        """The draft being shown, if any."""
        if self._draft and self._draft.expires_at > self._clock.now():
            return self._draft
        return None

    @property
    def chat_action(self) -> str:
        """The action being shown, such as `typing`; empty for none."""
        action, until = self._chat_action
        if until > self._clock.now():
            return action
        return ""

    def find_message(self, message_id: int) -> ChatMessage | None:
        """A message that exists and is not deleted."""
        message = self._messages.get(message_id)
        if message and not message.deleted:
            return message
        return None

    def add_message(self, message: ChatMessage) -> None:
        """Add a message; the bot's own ends its draft and its chat action."""
        self._messages[message.message_id] = message
        if message.from_bot:
            self._chat_action = ("", 0.0)
            if self._draft and self._draft.thread_id == message.raw.get("message_thread_id", 0):
                self._draft = None

    def show_draft(self, draft: ChatDraft | None) -> None:
        self._draft = draft

    def show_action(self, action: str) -> None:
        self._chat_action = (action, self._clock.now() + TYPING_SECONDS)


class World:
    """Everything that one bot's Telegram knows."""

    def __init__(self, bot: Json, limits: FloodLimits) -> None:
        self.bot = bot
        self.clock = Clock()
        self.changes = ChangeNotifier()
        self.flood_gate = FloodGate(limits, self.clock.now)
        self.updates = UpdateQueue(self.clock, self.changes, throttled=limits.throttles_polls)
        self.chats: dict[int, Chat] = {}
        self.taps: dict[str, Tap] = {}
        self.commands: dict[tuple[str, str], list[Json]] = {}  # by scope and language
        self.files: dict[str, bytes] = {}
        self._message_ids: Iterator[int] = iter(range(1, 1 << 31))

    def next_message_id(self) -> int:
        return next(self._message_ids)

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
        if chat is None or not chat.is_known:
            raise bad_request("chat not found")
        return chat

    def find_writable_chat(self, params: Params) -> Chat:
        """The chat that a call names, if the bot may write there."""
        chat = self.find_chat(params)
        if chat.is_blocked:
            raise TelegramRefusal(403, _KICKED_FROM_GROUP if not chat.is_private else _BLOCKED_BY_USER)
        return chat

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


_BLOCKED_BY_USER = "Forbidden: bot was blocked by the user"
_KICKED_FROM_GROUP = "Forbidden: bot was kicked from the group chat"
