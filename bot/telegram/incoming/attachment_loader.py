"""Gathers what came with the messages of a turn: fetches it from Telegram and has it read, side by side.

Owns how much of it a turn takes. What cannot be had is a reason, never an exception.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.attachments.reader import AttachmentReader
from bot.attachments.transcription import Transcriber
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from bot.telegram.incoming.attachments import MediaItem
from bot.telegram.incoming.downloads import FILE_TOO_LARGE, MAX_BYTES, FileDownloader
from bot.telegram.incoming.user_message import IncomingMessage, MediaContent
from bot.usage.timers import TurnTimer

MAX_CONCURRENT = 3  # of one turn: one place of the reader's is always left to other chats
SOUND_UNSUPPORTED = "sound is not understood here; please write it as text"
IMAGES_UNSUPPORTED = "pictures are not looked at here"

_EXTENSIONS = {
    "audio/ogg": "ogg",
    "video/mp4": "mp4",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/x-wav": "wav",
}


@dataclass(frozen=True, slots=True)
class AttachmentLoader:
    """`most` pictures of a turn are looked at; without a `transcriber` sound is not understood.

    Documents and transcripts share about `room` bytes of a turn's messages.
    """

    downloader: FileDownloader
    reader: AttachmentReader
    transcriber: Transcriber | None
    max_images: int
    max_text_bytes: int

    def mark_unusable(self, messages: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """The letters with what is known before anything is fetched: why some of what came will not be used."""
        judged = list[IncomingMessage]()
        pictures = 0
        for one in messages:
            pictures += one.media is not None and one.media.kind == "picture"
            if one.media:
                why = self._find_rejection_reason(one.media, pictures)
            else:
                why = None
            judged.append(replace(one, unusable_reason=why) if why else one)
        return judged

    def _find_rejection_reason(self, media: MediaItem, image_count: int) -> str | None:
        if media.size_bytes > MAX_BYTES:
            return FILE_TOO_LARGE
        if media.kind == "sound" and self.transcriber is None:
            return SOUND_UNSUPPORTED
        if media.kind == "picture" and image_count > self.max_images:
            return self._too_many_reason
        return None

    @property
    def _too_many_reason(self) -> str:
        if not self.max_images:
            return IMAGES_UNSUPPORTED
        if self.max_images == 1:
            pictures = "1 picture is"
        else:
            pictures = f"{self.max_images} pictures are"
        return f"no more than {pictures} looked at in one go"

    async def load(self, messages: Sequence[IncomingMessage], turn_timer: TurnTimer) -> list[IncomingMessage]:
        """The letters with what was made of all that came with them; `watch` measures what that takes."""
        places = asyncio.Semaphore(MAX_CONCURRENT)
        async with asyncio.TaskGroup() as tasks:
            work = [tasks.create_task(self._load_one(letter, places, turn_timer)) for letter in messages]
        return self._drop_excess_images([task.result() for task in work])

    async def _load_one(
        self, message: IncomingMessage, slots: asyncio.Semaphore, turn_timer: TurnTimer
    ) -> IncomingMessage:
        if message.media is None or not message.needs_fetch:
            return message
        try:
            async with slots:
                with turn_timer.measure_parallel("Telegram"):
                    body = await self.downloader.fetch(message.media.file_id)
                return replace(message, content=await self._read_media(message.media, body, turn_timer))
        except AttachmentUnusable as unusable:
            return replace(message, unusable_reason=str(unusable))

    async def _read_media(self, media: MediaItem, body: bytes, turn_timer: TurnTimer) -> MediaContent:
        match media.kind:
            case "picture":
                return await self.reader.read_image(body, media.name)
            case "file":
                return await self.reader.read_file(body, media.name)
        assert self.transcriber is not None
        kind = media.media_type
        name = media.name or f"sound.{_EXTENSIONS.get(kind, 'ogg')}"
        with turn_timer.measure_parallel("tools"):
            text = await self.transcriber.transcribe(body, name, kind)
        return Attachment("sound", media.name, kind, text=text)

    def _drop_excess_images(self, messages: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Files may turn out to be pictures, too: those beyond the bound are left out."""
        kept = list[IncomingMessage]()
        pictures = 0
        for one in messages:
            is_picture = isinstance(one.content, Attachment) and one.content.kind == "image"
            pictures += is_picture
            kept.append(
                replace(one, content=None, unusable_reason=self._too_many_reason)
                if is_picture and pictures > self.max_images
                else one
            )
        return kept
