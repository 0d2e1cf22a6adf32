"""Groups, supergroups and forums: who is in them, what the bot receives there, and what it may do.

Owns members, privacy mode's rule and the refusals of groups; messages are kept as in every chat.
"""

from collections.abc import Iterator

from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.events import Clock
from bot.sim.telegram.members import Member
from bot.sim.telegram.params import Json, TelegramRefusal, bad_request

GENERAL_TOPIC = 1
_CONTENT_OF_PEOPLE = (
    "text", "caption", "photo", "document", "voice", "audio", "video", "video_note", "animation", "sticker",
    "location", "venue", "contact", "poll", "dice",
)  # fmt: skip


class GroupChat(Chat):
    """A group as its people see it.

    `hears_everything` is the bot's privacy mode, off, as it was when the bot was added: changing it at
    BotFather has no effect here until the bot is added again. `mentions_pass` is whether a mention reaches
    the bot in spite of privacy mode, about which sources disagree. `allowed_reactions` None are all.
    """

    def __init__(self, raw: Json, clock: Clock, message_ids: Iterator[int], bot: Json) -> None:
        super().__init__(raw, clock, message_ids)
        self.is_known = True
        self.allowed_reactions: frozenset[str] | None = None
        self.hears_everything = False
        self.mentions_pass = False
        self.has_bot_to_bot = False
        self.is_general_closed = False
        self.migrated_to = 0
        self.last_bot_id = int(bot["id"])
        self.members: dict[int, Member] = {}
        self._bot = bot

    @property
    def bot_member(self) -> Member:
        """What the bot is here."""
        return self.find_member(self._bot)

    @property
    def is_forum(self) -> bool:
        return bool(self.raw.get("is_forum"))

    @property
    def admins(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_admin]

    @property
    def kind(self) -> str:
        """`group` or `supergroup`."""
        return str(self.raw["type"])

    def find_member(self, user: Json) -> Member:
        """What a user is here; someone who never was is `left`."""
        return self.members.get(user["id"], Member(user, "left"))

    def add_message(self, message: ChatMessage) -> None:
        super().add_message(message)
        if message.from_bot or _is_from_other_bot(message.raw):
            self.last_bot_id = int(message.raw["from"]["id"])

    def check_access(self) -> None:
        """Refuse a bot that is not in this group, and every call once the group has a new id."""
        if self.migrated_to:
            raise TelegramRefusal(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=self.migrated_to,
            )
        if self._bot["id"] not in self.members:
            raise bad_request("PEER_ID_INVALID" if self.is_known else "chat not found")
        match self.bot_member.status:
            case "kicked":
                raise TelegramRefusal(403, f"Forbidden: bot was kicked from the {self.kind} chat")
            case "left":
                raise TelegramRefusal(403, f"Forbidden: bot is not a member of the {self.kind} chat")

    def check_can_send(self, content: str, thread_id: int) -> None:
        """Refuse a message of this content, such as `photos`, where the bot may not write."""
        super().check_can_send(content, thread_id)
        if not self.bot_member.can_send:
            raise bad_request(f"not enough rights to send {content} to the chat")
        is_closed = self.topics[thread_id].is_closed if thread_id else self.is_general_closed
        if is_closed and not self.bot_member.is_admin:
            raise bad_request("TOPIC_CLOSED")

    def check_can_act(self, thread_id: int) -> None:
        """Refuse a chat action; unlike a message it may name the General topic."""
        if thread_id != GENERAL_TOPIC or not self.is_forum:
            super().check_can_send("messages", thread_id)
        if not self.bot_member.can_send:
            raise bad_request("have no rights to send a message")

    def is_heard(self, raw: Json) -> bool:
        """Whether the bot receives this message, or this version of it."""
        if not self.bot_member.is_present or raw["from"]["id"] == self._bot["id"]:
            return False
        hears_all = self.hears_everything or self.bot_member.is_admin
        if _is_from_other_bot(raw):
            return self.has_bot_to_bot and (
                hears_all or _has_command(raw, self._mention) or self._is_reply_to_bot(raw)
            )
        if hears_all or not any(name in raw for name in _CONTENT_OF_PEOPLE):
            return True
        if self._is_reply_to_bot(raw) or _has_command(raw, self._mention):
            return True
        if _has_command(raw) and self.last_bot_id == self._bot["id"]:
            return True
        return self.mentions_pass and _has_mention(raw, self._mention, self._bot)

    @property
    def _mention(self) -> str:
        return f"@{self._bot['username']}".lower()

    def _is_reply_to_bot(self, raw: Json) -> bool:
        replied = raw.get("reply_to_message", {})
        return bool(replied.get("from", {}).get("id") == self._bot["id"])


def _is_from_other_bot(raw: Json) -> bool:
    return bool(raw["from"]["is_bot"]) and "sender_chat" not in raw


def _has_command(raw: Json, suffix: str = "") -> bool:
    """Whether a message has a command: one with this suffix, or with none."""
    for name in _list_entity_texts(raw, "bot_command"):
        _, at, username = name.lower().partition("@")
        if at + username == suffix:
            return True
    return False


def _has_mention(raw: Json, mention: str, bot: Json) -> bool:
    if any(text.lower() == mention for text in _list_entity_texts(raw, "mention")):
        return True
    named = (entity.get("user", {}) for entity in _list_entities(raw))
    return any(user.get("id") == bot["id"] for user in named)


def _list_entities(raw: Json) -> list[Json]:
    return raw.get("entities") or raw.get("caption_entities") or []


def _list_entity_texts(raw: Json, kind: str) -> list[str]:
    """The words that entities of a kind mark."""
    units = str(raw.get("text", raw.get("caption", ""))).encode("utf-16-le")
    return [
        units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le", "replace")
        for entity in _list_entities(raw)
        if entity["type"] == kind
    ]
