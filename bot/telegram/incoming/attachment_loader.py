"""Loads the attachments of a turn's messages: has them downloaded and read, a few at once for each person.

Owns how many of them a turn takes. What cannot be used gets a reason; nothing is raised.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.reader import AttachmentReader
from bot.attachments.transcription import Transcriber
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from bot.telegram.incoming.attachments import MediaItem
from bot.telegram.incoming.downloads import FILE_TOO_LARGE, MAX_BYTES, FileDownloader
from bot.telegram.incoming.file_places import FilePlaces
from bot.telegram.incoming.user_message import IncomingMessage, MediaContent
from bot.translations.translator import translatable
from bot.usage.timers import TurnTimer

SOUND_UNSUPPORTED = translatable("sound is not understood here; please write it as text")
NO_FRAME = translatable("I can look at one frame only, and Telegram sent none that I can open")
TOO_MANY_IMAGES = translatable("I can't look at that many in one go; please send them one after another")
IMAGES_UNSUPPORTED = translatable("pictures are not looked at here")
NO_SPACE = translatable("I keep as many files of you as I can; /new makes room for more")

_SEEN_KINDS = frozenset({"picture", "video"})
_EXTENSIONS = {
    "audio/ogg": "ogg",
    "video/mp4": "mp4",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/x-wav": "wav",
}


@dataclass(frozen=True, slots=True)
class AttachmentLoader:
    """Loads what came with messages.

    `transcriber`: None if sound is not understood.
    `count_images`: how many pictures of a turn are looked at, as far as is known by now.
    `max_text_bytes`: about how much of a turn's messages documents and transcripts share.
    """

    downloader: FileDownloader
    reader: AttachmentReader
    transcriber: Transcriber | None
    count_images: Callable[[], int]
    max_text_bytes: int
    places: FilePlaces = field(default_factory=FilePlaces)

    def mark_unusable(self, messages: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Mark what can be rejected before anything is downloaded, with the reason."""
        marked = list[IncomingMessage]()
        image_count = 0
        for message in messages:
            if message.media is None:
                marked.append(message)
                continue
            image_count += message.media.kind in _SEEN_KINDS and message.media.file_id != ""
            reason = self._find_rejection_reason(message.media, image_count)
            if reason:
                message = replace(message, unusable_reason=reason)
            marked.append(message)
        return marked

    def _find_rejection_reason(self, media: MediaItem, image_count: int) -> str:
        if media.size_bytes > MAX_BYTES:
            return FILE_TOO_LARGE
        if media.kind == "sound" and self.transcriber is None:
            return SOUND_UNSUPPORTED
        if media.kind in _SEEN_KINDS and image_count > self.count_images():
            return self._too_many_reason
        if not media.file_id:
            return NO_FRAME
        return ""

    @property
    def _too_many_reason(self) -> str:
        if not self.count_images():
            return IMAGES_UNSUPPORTED
        return TOO_MANY_IMAGES

    async def load(
        self, messages: Sequence[IncomingMessage], person: int, turn_timer: TurnTimer
    ) -> list[IncomingMessage]:
        """Fill in what came with a person's messages; `turn_timer` measures the time."""
        async with asyncio.TaskGroup() as tasks:
            loading = [tasks.create_task(self._load_one(message, person, turn_timer)) for message in messages]
        return self._drop_excess_images([task.result() for task in loading])

    async def _load_one(
        self, message: IncomingMessage, person: int, turn_timer: TurnTimer
    ) -> IncomingMessage:
        if message.media is None or not message.needs_fetch:
            return message
        try:
            async with self.places.take(person):
                with turn_timer.measure_parallel("Telegram"):
                    body = await self.downloader.fetch(message.media.file_id)
                return replace(message, content=await self._read_media(message.media, body, turn_timer))
        except AttachmentUnusable as unusable:
            return replace(message, unusable_reason=str(unusable))

    async def _read_media(self, media: MediaItem, body: bytes, turn_timer: TurnTimer) -> MediaContent:
        match media.kind:
            case "picture":
                return await self.reader.read_image(body, media.name)
            case "video":
                return await self._read_frame(body, media.name)
            case "file":
                return await self.reader.read_file(body, media.name, self.count_images())
        assert self.transcriber is not None
        media_type = media.media_type
        name = media.name or f"sound.{_EXTENSIONS.get(media_type, 'ogg')}"
        with turn_timer.measure_parallel("tools"):
            text = await self.transcriber.transcribe(body, name, media_type)
        return Attachment("sound", media.name, media_type, text=text)

    async def _read_frame(self, body: bytes, name: str) -> Attachment:
        try:
            return await self.reader.read_image(body, name)
        except AttachmentUnusable as unusable:
            raise AttachmentUnusable(NO_FRAME) from unusable

    def _drop_excess_images(self, messages: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Leave out pictures beyond the limit: files may have turned out to be pictures, too."""
        limited = list[IncomingMessage]()
        images_left = self.count_images()
        for message in messages:
            content = _limit_pictures(message.content, images_left)
            images_left -= _count_pictures(content)
            if message.content is not None and content is None:
                message = replace(message, unusable_reason=self._too_many_reason)
            limited.append(replace(message, content=content))
        return limited


def _limit_pictures(content: MediaContent | None, count: int) -> MediaContent | None:
    """The content with so many pictures at most; None if nothing is left of it."""
    match content:
        case ExtractedDocument(pictures=pictures) if pictures:
            if content.is_scanned and not count:
                return None
            return replace(content, pictures=pictures[:count])
        case Attachment(kind="image") if not count:
            return None
    return content


def _count_pictures(content: MediaContent | None) -> int:
    match content:
        case ExtractedDocument():
            return len(content.pictures)
        case Attachment(kind="image"):
            return 1
    return 0


def refuse_files(messages: Sequence[IncomingMessage]) -> list[IncomingMessage]:
    """Mark what would be fetched as unusable: there is no space to keep it."""
    return [
        replace(message, unusable_reason=NO_SPACE) if message.needs_fetch else message for message in messages
    ]
