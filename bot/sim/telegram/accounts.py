"""Who writes into chats: texts, photos, voice messages and files, and edits of them.

What they write becomes an update of the shape Telegram sends, if the bot receives it; what `send` and the
like return lets the caller refer to it.
"""

import mimetypes
from dataclasses import dataclass
from typing import Any

from bot.sim.telegram import shapes
from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.entities import MAX_TEXT_UNITS, count_utf16_units
from bot.sim.telegram.params import Json
from bot.sim.telegram.world import World


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """A message that a person has written.

    Its update (0 if the bot does not receive it) and Telegram's Message object.
    """

    update_id: int
    message: Json

    @property
    def message_id(self) -> int:
        return int(self.message["message_id"])

    @property
    def chat_id(self) -> int:
        return int(self.message["chat"]["id"])


MessageReference = ChatMessage | PersonMessage | int


class ChatThread:
    """Where somebody writes: a chat, and a topic in it if `thread_id` is not 0."""

    def __init__(self, chat: Chat, thread_id: int = 0) -> None:
        self.chat = chat
        self.thread_id = thread_id

    @property
    def id(self) -> int:
        return self.chat.id


class Account:
    """Someone who writes, with their User object. `private_thread` is their private chat with the bot."""

    def __init__(self, world: World, user: Json, private_thread: ChatThread) -> None:
        self.user = user
        self.private_thread = private_thread
        self._world = world

    @property
    def id(self) -> int:
        return int(self.user["id"])

    def send(
        self,
        text: str,
        *,
        reply_to: MessageReference | None = None,
        thread: ChatThread | None = None,
    ) -> PersonMessage:
        """Write a message of at most 4096 UTF-16 units."""
        if reply_to is None:
            return self._write(text, {}, thread)
        return self._write(text, shapes.reply_fields(self._find_message(reply_to, thread).raw), thread)

    def paste(self, text: str, **options: Any) -> list[PersonMessage]:
        """Send any text as a client does, split into several messages if it is too long.

        `options` are those of `send`.
        """
        return [self.send(part, **options) for part in shapes.split_text(text)]

    def send_photo(
        self, caption: str = "", *, content: bytes = b"", thread: ChatThread | None = None
    ) -> PersonMessage:
        """Send a photo. getFile returns its `content`."""
        photo = shapes.photo_sizes(self._store_file("photo", content), len(content))
        return self._post({"photo": photo, **shapes.caption_fields(caption)}, thread)

    def send_voice(self, *, content: bytes = b"", thread: ChatThread | None = None) -> PersonMessage:
        """Send a voice message of three seconds."""
        file = shapes.file_fields(self._store_file("voice", content), len(content), "audio/ogg")
        return self._post({"voice": file | {"duration": 3}}, thread)

    def send_document(
        self, name: str, *, caption: str = "", content: bytes = b"", thread: ChatThread | None = None
    ) -> PersonMessage:
        """Send a file."""
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        document = shapes.file_fields(self._store_file("document", content), len(content), media_type)
        fields = {"document": document | {"file_name": name}, **shapes.caption_fields(caption)}
        return self._post(fields, thread)

    def edit(self, message: MessageReference, text: str, *, thread: ChatThread | None = None) -> int:
        """Change an own text; returns the update's id. ValueError for what Telegram lets nobody edit."""
        return self._edit(message, "text", shapes.text_fields(text), thread)

    def _edit(self, message: MessageReference, key: str, content: Json, thread: ChatThread | None) -> int:
        there = self._find_message(message, thread)
        is_other_kind = (key == "caption" and "text" in there.raw) or (
            key == "text" and "text" not in there.raw
        )
        is_own = there.raw["from"]["id"] == self.id
        if not is_own or "forward_origin" in there.raw or is_other_kind:
            raise ValueError("people edit what they wrote themselves: texts, and captions of media")
        if content.get(key, "") == there.raw.get(key, ""):
            raise ValueError("an edit changes something")
        raw = {
            name: value
            for name, value in there.raw.items()
            if name not in {"entities", "caption_entities", key}
        }
        chat = (thread or self.private_thread).chat
        self._world.edit(chat, there, raw | content)
        return self._world.deliver("edited_message", chat, there.raw, there.raw["edit_date"])

    def _write(self, text: str, about: Json, thread: ChatThread | None) -> PersonMessage:
        if not 0 < count_utf16_units(text) <= MAX_TEXT_UNITS:
            raise ValueError("a message has 1 to 4096 UTF-16 units; `paste` sends longer ones as several")
        return self._post(shapes.text_fields(text) | about, thread)

    def _post(self, content: Json, thread: ChatThread | None) -> PersonMessage:
        place = thread or self.private_thread
        chat = place.chat
        if chat.is_private:
            chat.is_known = True
        raw: Json = {
            "message_id": chat.next_message_id(),
            "from": self.user,
            "chat": chat.raw,
            "date": self._world.unix_seconds(),
        }
        raw |= shapes.thread_fields(chat, place.thread_id, content) | content
        self._world.post(chat, ChatMessage(raw, from_bot=False))
        return PersonMessage(self._world.deliver("message", chat, raw, raw["date"]), raw)

    def _find_message(self, message: MessageReference, thread: ChatThread | None) -> ChatMessage:
        chat = (thread or self.private_thread).chat
        message_id = message if isinstance(message, int) else message.message_id
        there = chat.find_message(message_id)
        if there is None:
            raise LookupError(f"no message {message_id} in chat {chat.id}")
        return there

    def _store_file(self, kind: str, content: bytes) -> str:
        return self._world.files.store(kind, content).file_id
