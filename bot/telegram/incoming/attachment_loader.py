"""Gathers what came with the messages of a turn: fetches it from Telegram and has it read, side by side.

Owns how much of it a turn takes. What cannot be had is a reason, never an exception.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.attachments.reader import Reader
from bot.attachments.transcription import Transcriber
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from bot.telegram.incoming.attachments import Enclosure
from bot.telegram.incoming.downloads import MOST_BYTES, TOO_LARGE, Files
from bot.telegram.incoming.user_message import Found, Letter
from bot.usage.timers import Watch

AT_ONCE = 3  # of one turn: one place of the reader's is always left to other chats
NO_SOUND = "sound is not understood here; please write it as text"
NO_PICTURES = "pictures are not looked at here"

_ENDINGS = {
    "audio/ogg": "ogg",
    "video/mp4": "mp4",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/x-wav": "wav",
}


@dataclass(frozen=True, slots=True)
class Gathering:
    """`most` pictures of a turn are looked at; without a `transcriber` sound is not understood.

    Documents and transcripts share about `room` bytes of a turn's messages.
    """

    files: Files
    reader: Reader
    transcriber: Transcriber | None
    most: int
    room: int

    def foreseen(self, letters: Sequence[Letter]) -> list[Letter]:
        """The letters with what is known before anything is fetched: why some of what came will not be used."""
        judged = list[Letter]()
        pictures = 0
        for one in letters:
            pictures += one.enclosure is not None and one.enclosure.kind == "picture"
            if one.enclosure:
                why = self._ruled_out(one.enclosure, pictures)
            else:
                why = None
            judged.append(replace(one, why=why) if why else one)
        return judged

    def _ruled_out(self, enclosure: Enclosure, pictures: int) -> str | None:
        if enclosure.size > MOST_BYTES:
            return TOO_LARGE
        if enclosure.kind == "sound" and self.transcriber is None:
            return NO_SOUND
        if enclosure.kind == "picture" and pictures > self.most:
            return self._too_many
        return None

    @property
    def _too_many(self) -> str:
        if not self.most:
            return NO_PICTURES
        if self.most == 1:
            pictures = "1 picture is"
        else:
            pictures = f"{self.most} pictures are"
        return f"no more than {pictures} looked at in one go"

    async def gathered(self, letters: Sequence[Letter], watch: Watch) -> list[Letter]:
        """The letters with what was made of all that came with them; `watch` measures what that takes."""
        places = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            work = [tasks.create_task(self._one(letter, places, watch)) for letter in letters]
        return self._bounded([task.result() for task in work])

    async def _one(self, letter: Letter, places: asyncio.Semaphore, watch: Watch) -> Letter:
        if letter.enclosure is None or not letter.wanting:
            return letter
        try:
            async with places:
                with watch.beside("Telegram"):
                    body = await self.files.fetch(letter.enclosure.file_id)
                return replace(letter, found=await self._read(letter.enclosure, body, watch))
        except AttachmentUnusable as unusable:
            return replace(letter, why=str(unusable))

    async def _read(self, enclosure: Enclosure, body: bytes, watch: Watch) -> Found:
        match enclosure.kind:
            case "picture":
                return await self.reader.picture(body, enclosure.name)
            case "file":
                return await self.reader.file(body, enclosure.name)
        assert self.transcriber is not None
        kind = enclosure.media_type
        name = enclosure.name or f"sound.{_ENDINGS.get(kind, 'ogg')}"
        with watch.beside("tools"):
            text = await self.transcriber.transcript(body, name, kind)
        return Attachment("sound", enclosure.name, kind, text=text)

    def _bounded(self, letters: Sequence[Letter]) -> list[Letter]:
        """Files may turn out to be pictures, too: those beyond the bound are left out."""
        kept = list[Letter]()
        pictures = 0
        for one in letters:
            is_picture = isinstance(one.found, Attachment) and one.found.kind == "image"
            pictures += is_picture
            kept.append(
                replace(one, found=None, why=self._too_many) if is_picture and pictures > self.most else one
            )
        return kept
