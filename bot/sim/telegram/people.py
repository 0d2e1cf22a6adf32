"""The people of the simulated Telegram: they write, edit, tap, stop, block, and see what the bot shows them.

Every action becomes an update of the shape Telegram sends; its return value lets a test refer to it.
"""

import mimetypes
from dataclasses import dataclass, replace
from typing import Any

from bot.sim.telegram import shapes
from bot.sim.telegram.chats import MAX_TAP_SECONDS, Chat, ChatMessage, Tap, World
from bot.sim.telegram.entities import MAX_TEXT_UNITS, count_utf16_units
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.params import Json


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


@dataclass(frozen=True, slots=True)
class ChatThread:
    """Where a person writes: a chat, and a topic in it if `thread_id` is not 0.

    With privacy mode on (Telegram's default in groups) the bot receives only commands, mentions of it and
    replies to it.
    """

    chat: Chat
    thread_id: int = 0
    privacy_mode: bool = False

    @property
    def id(self) -> int:
        return self.chat.id

    def add_topic(self, thread_id: int) -> "ChatThread":
        """Add a topic to this chat."""
        self.chat.topics.add(thread_id)
        return replace(self, thread_id=thread_id)


class SimulatedPerson:
    """Someone with a Telegram account.

    `private_thread` is their private chat with the bot, which may write there once they have written.
    """

    def __init__(self, world: World, user: Json, private_thread: ChatThread) -> None:
        self.user = user
        self.private_thread = private_thread
        self._world = world

    @property
    def id(self) -> int:
        return int(self.user["id"])

    @property
    def chat(self) -> Chat:
        """The private chat with the bot."""
        return self.private_thread.chat

    def send(
        self,
        text: str,
        *,
        reply_to: MessageReference | None = None,
        quote: str | None = None,
        forward_from: "SimulatedPerson | str | None" = None,
        date: float | None = None,
        thread: ChatThread | None = None,
    ) -> PersonMessage:
        """Write a message of at most 4096 UTF-16 units. `date` is Unix time, now by default."""
        if not 0 < count_utf16_units(text) <= MAX_TEXT_UNITS:
            raise ValueError("a message has 1 to 4096 UTF-16 units; `paste` sends longer ones as several")
        return self._post(
            shapes.text_fields(text) | self._context_fields(reply_to, quote, forward_from, thread),
            date,
            thread,
        )

    def paste(self, text: str, **options: Any) -> list[PersonMessage]:
        """Send any text as a client does, split into several messages if it is too long.

        `options` are those of `send`.
        """
        return [self.send(part, **options) for part in shapes.split_text(text)]

    def send_photo(
        self,
        caption: str = "",
        *,
        content: bytes = b"",
        album: str = "",
        reply_to: MessageReference | None = None,
        forward_from: "SimulatedPerson | str | None" = None,
        thread: ChatThread | None = None,
    ) -> PersonMessage:
        """Send a photo; photos with the same `album` belong together. getFile returns its `content`."""
        photo = shapes.photo_sizes(self._store_file("photo", content), len(content))
        album_fields = {"media_group_id": album} if album else {}
        about = self._context_fields(reply_to, None, forward_from, thread)
        return self._post(
            {"photo": photo, **shapes.caption_fields(caption), **album_fields, **about}, None, thread
        )

    def send_voice(
        self, *, seconds: int = 3, content: bytes = b"", thread: ChatThread | None = None
    ) -> PersonMessage:
        voice = shapes.file_fields(self._store_file("voice", content), len(content), "audio/ogg") | {
            "duration": seconds
        }
        return self._post({"voice": voice}, None, thread)

    def send_audio(
        self, name: str, *, seconds: int = 180, caption: str = "", content: bytes = b""
    ) -> PersonMessage:
        """Send a piece of music or the like."""
        audio = shapes.file_fields(self._store_file("audio", content), len(content), "audio/mpeg")
        return self._post(
            {"audio": audio | {"file_name": name, "duration": seconds}, **shapes.caption_fields(caption)},
            None,
            None,
        )

    def send_video_note(self, *, seconds: int = 5, content: bytes = b"") -> PersonMessage:
        """Send a round video message."""
        note = shapes.file_fields(self._store_file("video_note", content), len(content)) | {
            "duration": seconds,
            "length": 240,
        }
        return self._post({"video_note": note}, None, None)

    def send_sticker(self, emoji: str = "👍", *, thread: ChatThread | None = None) -> PersonMessage:
        return self._post(
            {"sticker": shapes.sticker_fields(self._store_file("sticker", b""), emoji)}, None, thread
        )

    def send_video(
        self, caption: str = "", *, seconds: int = 34, size: int = 1 << 20, album: str = ""
    ) -> PersonMessage:
        """Send a video of `size` bytes; more than 20 MB of it cannot be fetched by a bot."""
        video = shapes.video_fields(self._store_file("video", b""), size, seconds, "video.mp4")
        album_fields = {"media_group_id": album} if album else {}
        return self._post({"video": video, **shapes.caption_fields(caption), **album_fields}, None, None)

    def send_animation(self, caption: str = "", *, seconds: int = 3) -> PersonMessage:
        """Send a GIF; as everywhere in Telegram it is a video without sound, and a document too."""
        file = shapes.video_fields(self._store_file("animation", b""), 1 << 16, seconds, "funny.mp4")
        document = {name: file[name] for name in file.keys() - {"width", "height", "duration"}}
        fields = {"animation": file, "document": document, **shapes.caption_fields(caption)}
        return self._post(fields, None, None)

    def send_location(self, latitude: float, longitude: float) -> PersonMessage:
        return self._post({"location": shapes.location_fields(latitude, longitude)}, None, None)

    def send_venue(self, latitude: float, longitude: float, title: str, address: str) -> PersonMessage:
        """Send a place that has a name; Telegram repeats its location outside of it."""
        location = shapes.location_fields(latitude, longitude)
        venue = {"location": location, "title": title, "address": address}
        return self._post({"venue": venue, "location": location}, None, None)

    def send_contact(self, phone_number: str, first_name: str, last_name: str = "") -> PersonMessage:
        contact = shapes.contact_fields(phone_number, first_name, last_name)
        return self._post({"contact": contact}, None, None)

    def send_poll(
        self, question: str, *options: str, forward_from: "SimulatedPerson | str | None" = None
    ) -> PersonMessage:
        poll = shapes.poll_fields(str(self._world.next_message_id()), question, options)
        return self._post({"poll": poll} | self._context_fields(None, None, forward_from, None), None, None)

    def send_dice(self, emoji: str = "🎲", value: int = 4) -> PersonMessage:
        return self._post({"dice": shapes.dice_fields(emoji, value)}, None, None)

    def send_document(
        self,
        name: str,
        *,
        caption: str = "",
        content: bytes = b"",
        media_type: str = "",
        size: int | None = None,
        album: str = "",
    ) -> PersonMessage:
        """Send a file. `media_type` is what the client takes it for; `size` replaces the content's own."""
        media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        document = shapes.file_fields(self._store_file("document", content), size or len(content), media_type)
        album_fields = {"media_group_id": album} if album else {}
        fields = {
            "document": document | {"file_name": name},
            **shapes.caption_fields(caption),
            **album_fields,
        }
        return self._post(fields, None, None)

    def edit(self, message: MessageReference, text: str, *, thread: ChatThread | None = None) -> int:
        """Change an own text; returns the update's id. ValueError for what Telegram lets nobody edit."""
        return self._edit(message, "text", shapes.text_fields(text), thread)

    def edit_caption(self, message: MessageReference, caption: str) -> int:
        """Change the caption of an own photo, file or video; returns the update's id."""
        return self._edit(message, "caption", shapes.caption_fields(caption), None)

    def _edit(self, message: MessageReference, key: str, content: Json, thread: ChatThread | None) -> int:
        there = self._find_message(message, thread)
        is_other_kind = (key == "caption" and "text" in there.raw) or (
            key == "text" and "text" not in there.raw
        )
        if there.from_bot or "forward_origin" in there.raw or is_other_kind:
            raise ValueError("people edit what they wrote themselves: texts, and captions of media")
        if content.get(key, "") == there.raw.get(key, ""):
            raise ValueError("an edit changes something")
        raw = {name: value for name, value in there.raw.items() if name not in {"entities", key}}
        self._world.edit(self._thread_or_private(thread).chat, there, raw | content)
        return self._world.updates.put("edited_message", there.raw, sent_at=there.raw["edit_date"])

    def tap(self, message: MessageReference, button: str, *, thread: ChatThread | None = None) -> Tap:
        """Press an inline button, named by its text or callback data; LookupError if it is not there."""
        chat = self._thread_or_private(thread).chat
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

    def delete(self, message: MessageReference, *, thread: ChatThread | None = None) -> None:
        """Delete a message; bots hear nothing of it."""
        self._world.delete(self._thread_or_private(thread).chat, self._find_message(message, thread))

    def block(self) -> int:
        """Block the bot; returns the update's id."""
        self.chat.is_blocked = True
        return self.change_bot_status(self.private_thread, "member", "kicked")

    def unblock(self) -> int:
        """Let the bot write again; returns the update's id."""
        self.chat.is_blocked = False
        return self.change_bot_status(self.private_thread, "kicked", "member")

    def change_bot_status(self, thread: ChatThread, before: str, after: str) -> int:
        """Change the bot's status in a chat, such as from `left` to `member`; returns the update's id."""
        change = {"chat": thread.chat.raw, "from": self.user, "date": self._world.unix_seconds()}
        change |= {"old_chat_member": self._bot_member(before), "new_chat_member": self._bot_member(after)}
        return self._world.updates.put("my_chat_member", change)

    def _post(self, content: Json, date: float | None, thread: ChatThread | None) -> PersonMessage:
        place = self._thread_or_private(thread)
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
        if place.privacy_mode and not shapes.is_heard_by_bot(raw, self._world.bot):
            return PersonMessage(0, raw)
        return PersonMessage(self._world.updates.put("message", raw, sent_at=sent_at), raw)

    def _context_fields(
        self,
        reply_to: MessageReference | None,
        quote: str | None,
        forward_from: "SimulatedPerson | str | None",
        thread: ChatThread | None,
    ) -> Json:
        """The fields about other messages: the one it replies to, and the forward's origin."""
        if reply_to is None:
            about = {}
        else:
            about = shapes.reply_fields(self._find_message(reply_to, thread).raw, quote)
        if forward_from is not None:
            writer = forward_from.user if isinstance(forward_from, SimulatedPerson) else forward_from
            about["forward_origin"] = shapes.forward_origin(writer, self._world.unix_seconds())
        return about

    def _thread_or_private(self, thread: ChatThread | None) -> ChatThread:
        return thread or self.private_thread

    def _find_message(self, message: MessageReference, thread: ChatThread | None) -> ChatMessage:
        chat = self._thread_or_private(thread).chat
        message_id = message if isinstance(message, int) else message.message_id
        there = chat.find_message(message_id)
        if there is None:
            raise LookupError(f"no message {message_id} in chat {chat.id}")
        return there

    def _store_file(self, kind: str, content: bytes) -> str:
        file_id = f"{kind}-{len(self._world.files) + 1}"
        self._world.files[file_id] = content
        return file_id

    def _bot_member(self, status: str) -> Json:
        member: Json = {"user": self._world.bot, "status": status}
        if status == "kicked":
            member["until_date"] = 0
        return member
