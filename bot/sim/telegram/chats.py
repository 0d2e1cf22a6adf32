"""Chats as their people see them: messages, topics, drafts, chat actions, button taps.

Knows what is visible to a person, and what a bot may do in a private chat. Methods and accounts write into
it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bot.sim.telegram.events import Clock
from bot.sim.telegram.params import Json, TelegramRefusal, bad_request

DRAFT_SECONDS = 30.0
TYPING_SECONDS = 5.0
MAX_TAP_SECONDS = 150.0


@dataclass(slots=True)
class ChatMessage:
    """A message of a chat.

    `raw` is Telegram's Message object as it is now, `edits` what it was before each edit; `reactions` are the
    bot's, `reactions_by` those of people by their id. `inline_message_id` names the answer of a guest.
    """

    raw: Json
    from_bot: bool
    silent: bool = False
    deleted: bool = False
    edits: list[Json] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)
    reactions_by: dict[int, str] = field(default_factory=dict)
    inline_message_id: str = ""

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
    def shown_reactions(self) -> list[str]:
        return [*self.reactions, *self.reactions_by.values()]

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


@dataclass(slots=True)
class Topic:
    """A topic, named by the id of the service message `root` that began it."""

    name: str
    root: Json
    is_closed: bool = False


class Chat:
    """One chat as its people see it; a private one, unless it is a GroupChat.

    `message_ids` gives the ids of its messages: private chats and basic groups share theirs, each supergroup
    has its own.
    """

    def __init__(self, raw: Json, clock: Clock, message_ids: Iterator[int]) -> None:
        self.raw = raw
        self.topics: dict[int, Topic] = {}
        self.is_known = False  # a bot cannot write to a person who never wrote to it
        self.is_blocked = False
        self.takes_voice = True  # a person's privacy settings may refuse voice messages
        self._message_ids = message_ids
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

    def next_message_id(self) -> int:
        return next(self._message_ids)

    def check_access(self) -> None:
        """Refuse every call about a chat that is not the bot's."""
        if not self.is_known:
            raise bad_request("chat not found")

    def check_writable(self) -> None:
        """Refuse everything that people would see of a bot they have blocked."""
        if self.is_blocked:
            raise TelegramRefusal(403, "Forbidden: bot was blocked by the user")

    def check_can_send(self, content: str, thread_id: int) -> None:
        """Refuse a message of this content, such as `photos`, to a topic that does not exist."""
        if thread_id and thread_id not in self.topics:
            raise bad_request("message thread not found")

    def check_can_act(self, thread_id: int) -> None:
        """Refuse a chat action in a topic that does not exist."""
        self.check_can_send("", thread_id)

    def is_heard(self, raw: Json) -> bool:
        """Whether the bot receives this message."""
        return True

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
