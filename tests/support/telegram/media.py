"""The media that people send: photos, voice messages, files, places, polls and the like."""

import itertools
import mimetypes

from bot.sim.telegram.accounts import Account, ChatThread, MessageReference, PersonMessage
from bot.sim.telegram.params import Json
from bot.sim.telegram.shapes import caption_fields, file_fields, photo_sizes
from tests.support.telegram import shapes
from tests.support.telegram.accounts import ScriptedAccount

_POLL_IDS = itertools.count(1)


class MediaAccount(ScriptedAccount):
    """An account that sends all that a client can."""

    def send_photo(
        self,
        caption: str = "",
        *,
        content: bytes = b"",
        album: str = "",
        reply_to: MessageReference | None = None,
        forward_from: Account | str | None = None,
        thread: ChatThread | None = None,
    ) -> PersonMessage:
        """Send a photo; photos with the same `album` belong together. getFile returns its `content`."""
        photo = photo_sizes(self._store_file("photo", content), len(content))
        album_fields = {"media_group_id": album} if album else {}
        about = self._context_fields(reply_to, None, forward_from, thread)
        return self._post({"photo": photo, **caption_fields(caption), **album_fields, **about}, thread)

    def replace_photo(self, message: MessageReference, content: bytes) -> int:
        """Put another photo into an own message, under the same caption; returns the update's id."""
        there = self._find_message(message, None)
        if there.from_bot or "photo" not in there.raw:
            raise ValueError("people replace the photo of an own message")
        chat = self.private_thread.chat
        photo = photo_sizes(self._store_file("photo", content), len(content))
        self._world.edit(chat, there, there.raw | {"photo": photo})
        return self._world.deliver("edited_message", chat, there.raw, there.raw["edit_date"])

    def send_voice(
        self, *, seconds: int = 3, content: bytes = b"", thread: ChatThread | None = None
    ) -> PersonMessage:
        voice = file_fields(self._store_file("voice", content), len(content), "audio/ogg") | {
            "duration": seconds
        }
        return self._post({"voice": voice}, thread)

    def send_audio(
        self, name: str, *, seconds: int = 180, caption: str = "", content: bytes = b""
    ) -> PersonMessage:
        """Send a piece of music or the like."""
        audio = file_fields(self._store_file("audio", content), len(content), "audio/mpeg")
        return self._post(
            {"audio": audio | {"file_name": name, "duration": seconds}, **caption_fields(caption)},
            None,
        )

    def send_video_note(self, *, content: bytes = b"") -> PersonMessage:
        """Send a round video message."""
        note = file_fields(self._store_file("video_note", content), len(content)) | {
            "duration": 5,
            "length": 240,
        }
        return self._post({"video_note": note}, None)

    def send_sticker(self) -> PersonMessage:
        sticker = shapes.sticker_fields(self._store_file("sticker", b""), "👍")
        return self._post({"sticker": sticker}, None)

    def send_video(
        self,
        caption: str = "",
        *,
        size: int = 1 << 20,
        thumbnail: bytes | None = None,
    ) -> PersonMessage:
        """Send a video of `size` bytes; more than 20 MB of it cannot be fetched by a bot."""
        video = shapes.video_fields(self._store_file("video", b""), size, 34, "video.mp4")
        video |= self._thumbnail_fields(thumbnail)
        return self._post({"video": video, **caption_fields(caption)}, None)

    def send_animation(self, caption: str = "", *, thumbnail: bytes | None = None) -> PersonMessage:
        """Send a GIF; as everywhere in Telegram it is a video without sound, and a document too."""
        file = shapes.video_fields(self._store_file("animation", b""), 1 << 16, 3, "funny.mp4")
        file |= self._thumbnail_fields(thumbnail)
        document = {name: file[name] for name in file.keys() - {"width", "height", "duration"}}
        fields = {"animation": file, "document": document, **caption_fields(caption)}
        return self._post(fields, None)

    def _thumbnail_fields(self, content: bytes | None) -> Json:
        """One frame of a video, which Telegram makes of most."""
        if content is None:
            return {}
        file = file_fields(self._store_file("photo", content), len(content))
        return {"thumbnail": file | {"width": 320, "height": 240}}

    def send_location(self, latitude: float, longitude: float) -> PersonMessage:
        return self._post({"location": shapes.location_fields(latitude, longitude)}, None)

    def send_venue(self, latitude: float, longitude: float, title: str, address: str) -> PersonMessage:
        """Send a place that has a name; Telegram repeats its location outside of it."""
        location = shapes.location_fields(latitude, longitude)
        venue = {"location": location, "title": title, "address": address}
        return self._post({"venue": venue, "location": location}, None)

    def send_contact(self, phone_number: str, first_name: str, last_name: str = "") -> PersonMessage:
        contact = shapes.contact_fields(phone_number, first_name, last_name)
        return self._post({"contact": contact}, None)

    def send_poll(
        self, question: str, *options: str, forward_from: Account | str | None = None
    ) -> PersonMessage:
        poll = shapes.poll_fields(str(next(_POLL_IDS)), question, options)
        return self._post({"poll": poll} | self._context_fields(None, None, forward_from, None), None)

    def send_dice(self, emoji: str = "🎲", value: int = 4) -> PersonMessage:
        return self._post({"dice": shapes.dice_fields(emoji, value)}, None)

    def send_document(  # what a client may send with it
        self,
        name: str,
        *,
        caption: str = "",
        content: bytes = b"",
        media_type: str = "",
        size: int | None = None,
        album: str = "",
        thread: ChatThread | None = None,
    ) -> PersonMessage:
        """Send a file. `media_type` is what the client takes it for; `size` replaces the content's own."""
        media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        document = file_fields(self._store_file("document", content), size or len(content), media_type)
        album_fields = {"media_group_id": album} if album else {}
        fields = {
            "document": document | {"file_name": name},
            **caption_fields(caption),
            **album_fields,
        }
        return self._post(fields, thread)
