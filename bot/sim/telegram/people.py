"""The people of the simulated Telegram: they write, edit, tap, stop, block, and see what the bot shows them.

Every deed becomes an update of the shape Telegram sends; what is returned lets a test refer to it.
"""

import mimetypes
from dataclasses import dataclass, replace
from typing import Any

from bot.sim.telegram import shapes
from bot.sim.telegram.chats import TAP_SECONDS, Chat, ChatMessage, Tap, World
from bot.sim.telegram.entities import TEXT_UNITS, utf16_units
from bot.sim.telegram.events import Event
from bot.sim.telegram.params import Json


@dataclass(frozen=True, slots=True)
class Posted:
    """A message a person has written: its update (0 if the bot does not hear it) and Telegram's Message
    object.
    """

    update_id: int
    message: Json

    @property
    def message_id(self) -> int:
        return int(self.message["message_id"])

    @property
    def chat_id(self) -> int:
        return int(self.message["chat"]["id"])


AnyMessage = ChatMessage | Posted | int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a person writes: a chat, and a topic in it if `thread_id` is not 0. With privacy mode on
    (Telegram's default in groups) the bot hears commands, mentions of it and replies to it only."""

    chat: Chat
    thread_id: int = 0
    privacy: bool = False

    @property
    def id(self) -> int:
        return self.chat.id

    def topic(self, thread_id: int) -> "Place":
        """A topic of this place, there from now on."""
        self.chat.topics.add(thread_id)
        return replace(self, thread_id=thread_id)


class Person:
    """Someone with a Telegram account. `home` is their private chat with the bot, open to it once they have
    written.
    """

    def __init__(self, world: World, user: Json, home: Place) -> None:
        self.user = user
        self.home = home
        self._world = world

    @property
    def id(self) -> int:
        return int(self.user["id"])

    @property
    def chat(self) -> Chat:
        """The private chat with the bot."""
        return self.home.chat

    def send(
        self,
        text: str,
        *,
        reply_to: AnyMessage | None = None,
        quote: str | None = None,
        forward_from: "Person | str | None" = None,
        date: float | None = None,
        where: Place | None = None,
    ) -> Posted:
        """Write a message of at most 4096 UTF-16 units. `date` is Unix time, now by default."""
        if not 0 < utf16_units(text) <= TEXT_UNITS:
            raise ValueError("a message has 1 to 4096 UTF-16 units; `paste` sends longer ones as several")
        return self._post(
            shapes.worded(text) | self._about(reply_to, quote, forward_from, where), date, where
        )

    def paste(self, text: str, **more: Any) -> list[Posted]:
        """Send any text as a client does, cut into several messages where it is too long for one; `more` as
        in send.
        """
        return [self.send(part, **more) for part in shapes.cut(text)]

    def send_photo(
        self,
        caption: str = "",
        *,
        content: bytes = b"",
        album: str = "",
        reply_to: AnyMessage | None = None,
        forward_from: "Person | str | None" = None,
        where: Place | None = None,
    ) -> Posted:
        """A photo; photos with the same `album` belong together. getFile gives its `content`."""
        photo = shapes.sized_photo(self._file("photo", content), len(content))
        together = {"media_group_id": album} if album else {}
        about = self._about(reply_to, None, forward_from, where)
        return self._post({"photo": photo, **shapes.captioned(caption), **together, **about}, None, where)

    def send_voice(self, *, seconds: int = 3, content: bytes = b"", where: Place | None = None) -> Posted:
        voice = shapes.stored(self._file("voice", content), len(content), "audio/ogg") | {"duration": seconds}
        return self._post({"voice": voice}, None, where)

    def send_audio(self, name: str, *, seconds: int = 180, caption: str = "", content: bytes = b"") -> Posted:
        """A piece of music or the like."""
        audio = shapes.stored(self._file("audio", content), len(content), "audio/mpeg")
        return self._post(
            {"audio": audio | {"file_name": name, "duration": seconds}, **shapes.captioned(caption)},
            None,
            None,
        )

    def send_video_note(self, *, seconds: int = 5, content: bytes = b"") -> Posted:
        """A round video message."""
        note = shapes.stored(self._file("video_note", content), len(content)) | {
            "duration": seconds,
            "length": 240,
        }
        return self._post({"video_note": note}, None, None)

    def send_sticker(self, emoji: str = "👍", *, where: Place | None = None) -> Posted:
        return self._post({"sticker": shapes.sticker(self._file("sticker", b""), emoji)}, None, where)

    def send_document(
        self,
        name: str,
        *,
        caption: str = "",
        content: bytes = b"",
        media_type: str = "",
        size: int | None = None,
        album: str = "",
    ) -> Posted:
        """A file. Its `media_type` is what the client takes it for; `size` is told instead of the content's."""
        media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        document = shapes.stored(self._file("document", content), size or len(content), media_type)
        together = {"media_group_id": album} if album else {}
        told = {"document": document | {"file_name": name}, **shapes.captioned(caption), **together}
        return self._post(told, None, None)

    def edit(self, message: AnyMessage, text: str, *, where: Place | None = None) -> int:
        """Change an own message; gives the update's id."""
        there = self._find(message, where)
        raw = {name: value for name, value in there.raw.items() if name != "entities"}
        self._world.edit(self._place(where).chat, there, raw | shapes.worded(text))
        return self._world.updates.put("edited_message", there.raw, sent_at=there.raw["edit_date"])

    def tap(self, message: AnyMessage, button: str, *, where: Place | None = None) -> Tap:
        """Press an inline button, named by its text or its callback data; LookupError if it is not there."""
        chat = self._place(where).chat
        there = self._find(message, where)
        named = (b for b in there.buttons if button in (b["text"], b.get("callback_data")))
        data = next((b["callback_data"] for b in named if "callback_data" in b), None)
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
        update_id = self._world.updates.put("callback_query", query, lifetime=TAP_SECONDS)
        tap = Tap(update_id, query_id, there.message_id, self._world.clock.now(), chat.id)
        self._world.taps[query_id] = tap
        return tap

    def stop_draft(self) -> int:
        """Press Stop on the draft shown in private; LookupError if there is none to stop. Gives the update's
        id.
        """
        draft = self.chat.draft
        if draft is None or not draft.can_stop:
            raise LookupError("no draft that can be stopped is shown")
        if not draft.keep_on_stop:
            self.chat.show_draft(None)
            self._world.changes.tell(Event("draft", self.chat.id))
        if draft.thread_id:
            thread = {"message_thread_id": draft.thread_id}
        else:
            thread = {}
        stopped = {"chat": self.chat.raw, "draft_id": draft.draft_id, **thread}
        return self._world.updates.put("stopped_message_generation", stopped)

    def delete(self, message: AnyMessage, *, where: Place | None = None) -> None:
        """Take a message away; bots are not told."""
        self._world.delete(self._place(where).chat, self._find(message, where))

    def block(self) -> int:
        """Block the bot; gives the update's id."""
        self.chat.is_blocked = True
        return self.meet_bot(self.home, "member", "kicked")

    def unblock(self) -> int:
        """Let the bot write again; gives the update's id."""
        self.chat.is_blocked = False
        return self.meet_bot(self.home, "kicked", "member")

    def meet_bot(self, where: Place, before: str, after: str) -> int:
        """Change the bot's standing in a chat, such as from `left` to `member`; gives the update's id."""
        change = {"chat": where.chat.raw, "from": self.user, "date": self._world.today()}
        change |= {"old_chat_member": self._bot_as(before), "new_chat_member": self._bot_as(after)}
        return self._world.updates.put("my_chat_member", change)

    def _post(self, content: Json, date: float | None, where: Place | None) -> Posted:
        place = self._place(where)
        chat = place.chat
        chat.is_known = True
        sent_at = int(self._world.clock.now() if date is None else date)
        raw = {
            "message_id": self._world.next_message_id(),
            "from": self.user,
            "chat": chat.raw,
            "date": sent_at,
        }
        if place.thread_id:
            raw |= {"message_thread_id": place.thread_id, "is_topic_message": True}
        raw |= content
        self._world.post(chat, ChatMessage(raw, from_bot=False))
        if place.privacy and not shapes.addresses_bot(raw, self._world.bot):
            return Posted(0, raw)
        return Posted(self._world.updates.put("message", raw, sent_at=sent_at), raw)

    def _about(
        self,
        reply_to: AnyMessage | None,
        quote: str | None,
        source: "Person | str | None",
        where: Place | None,
    ) -> Json:
        """What a message says of others: the one it replies to, who first wrote it."""
        if reply_to is None:
            about = {}
        else:
            about = shapes.quoted(self._find(reply_to, where).raw, quote)
        if source is not None:
            writer = source.user if isinstance(source, Person) else source
            about["forward_origin"] = shapes.origin(writer, self._world.today())
        return about

    def _place(self, where: Place | None) -> Place:
        return where or self.home

    def _find(self, message: AnyMessage, where: Place | None) -> ChatMessage:
        chat = self._place(where).chat
        message_id = message if isinstance(message, int) else message.message_id
        there = chat.find(message_id)
        if there is None:
            raise LookupError(f"no message {message_id} in chat {chat.id}")
        return there

    def _file(self, kind: str, content: bytes) -> str:
        file_id = f"{kind}-{len(self._world.files) + 1}"
        self._world.files[file_id] = content
        return file_id

    def _bot_as(self, status: str) -> Json:
        return {"user": self._world.bot, "status": status} | ({"until_date": 0} if status == "kicked" else {})
