"""What came with a turn's messages is fetched and read side by side, within the bounds of a turn."""

import asyncio
from typing import cast

import pytest

from bot.attachments.excerpts import Document
from bot.attachments.reader import Reader
from bot.attachments.transcription import Transcriber
from bot.errors import AttachmentUnusable
from bot.telegram.incoming import attachment_loader as gathering
from bot.telegram.incoming.attachment_loader import NO_PICTURES, NO_SOUND, Gathering
from bot.telegram.incoming.attachments import Enclosure
from bot.telegram.incoming.downloads import MOST_BYTES, TOO_LARGE, Files
from bot.telegram.incoming.user_message import Letter
from bot.usage.timers import Watch
from tests.support import attachment_files as made
from tests.support.update_harness import FilesStandIn

PHOTO = Enclosure("picture", "photo", "photo")
FILE = Enclosure("file", "file", "text", "a.txt")
VOICE = Enclosure("sound", "voice message", "voice", media_type="audio/ogg", own=True)
KEPT = {"photo": made.image(), "text": b"some text", "voice": b"OggS", "drawn": made.image(form="PNG")}


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[bytes, str, str]] = []

    async def transcript(self, body: bytes, name: str, media_type: str) -> str:
        self.heard.append((body, name, media_type))
        return "hello"


def house(files: object = None, ear: Ear | None = None, most: int = 2) -> Gathering:
    kept = files or FilesStandIn(dict(KEPT))
    return Gathering(
        cast(Files, kept), Reader(), cast(Transcriber, ear) if ear else None, most=most, room=8000
    )


def letters(*enclosures: Enclosure | None) -> list[Letter]:
    return [Letter({}, 1.0, enclosure) for enclosure in enclosures]


@pytest.mark.parametrize(
    ("most", "enclosures", "why"),
    [
        (2, [PHOTO, FILE, PHOTO, PHOTO], ["", "", "", "no more than 2 pictures are looked at in one go"]),
        (1, [PHOTO, PHOTO], ["", "no more than 1 picture is looked at in one go"]),
        (0, [PHOTO], [NO_PICTURES]),
        (2, [VOICE, None], [NO_SOUND, ""]),
        (2, [Enclosure("file", "file", "x", size=MOST_BYTES + 1)], [TOO_LARGE]),
        (2, [Enclosure("file", "file", "x", size=MOST_BYTES)], [""]),
    ],
)
def test_what_is_known_before_is_not_fetched(most: int, enclosures: list[Enclosure | None], why: list[str]):
    judged = house(most=most).foreseen(letters(*enclosures))
    assert [letter.why for letter in judged] == why
    assert [letter.wanting for letter in judged] == [
        bool(what) and not because for what, because in zip(enclosures, why, strict=True)
    ]


async def test_each_kind_is_read_as_what_it_is_and_order_is_kept():
    ear = Ear()
    asked = [*letters(PHOTO, None, FILE, VOICE), Letter({}, 1.0, PHOTO, why="it is too much")]
    picture, nothing, text, voice, ruled_out = await house(ear=ear).gathered(asked, Watch())
    assert picture.found is not None
    assert (nothing.found, ruled_out.found, ruled_out.why) == (None, None, "it is too much")
    assert isinstance(text.found, Document)
    assert text.found.texts == ("some text",)
    assert voice.found is not None
    assert not isinstance(voice.found, Document)
    assert (voice.found.kind, voice.found.text, voice.found.data) == ("sound", "hello", None)
    assert ear.heard == [(b"OggS", "sound.ogg", "audio/ogg")]


async def test_a_name_goes_with_the_sound_where_there_is_one():
    ear = Ear()
    await house(ear=ear).gathered(
        letters(Enclosure("sound", "file", "voice", "talk.mp3", "audio/mpeg")), Watch()
    )
    await house(ear=ear).gathered(
        letters(Enclosure("sound", "video message", "voice", media_type="video/mp4")), Watch()
    )
    assert [name for _, name, _ in ear.heard] == ["talk.mp3", "sound.mp4"]


async def test_what_cannot_be_had_is_a_reason_and_the_others_are_had():
    gone, picture = await house().gathered(letters(Enclosure("file", "file", "gone"), PHOTO), Watch())
    assert "Telegram does not have it any more" in gone.why
    assert picture.found is not None


async def test_files_that_turn_out_to_be_pictures_count_as_such():
    drawn = Enclosure("file", "file", "drawn", "a.bin")
    first, second, third = await house(most=2).gathered(letters(PHOTO, drawn, drawn), Watch())
    assert (first.found is not None, second.found is not None, third.found) == (True, True, None)
    assert third.why == "no more than 2 pictures are looked at in one go"


class Slow:
    """Hands over nothing until it is told to, and counts what is under way."""

    def __init__(self) -> None:
        self.under_way = 0
        self.most = 0
        self.free = asyncio.Event()
        self.full = asyncio.Event()

    async def fetch(self, file_id: str) -> bytes:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way == gathering.AT_ONCE:
            self.full.set()
        try:
            await self.free.wait()
        finally:
            self.under_way -= 1
        raise AttachmentUnusable("it is gone")


async def test_a_few_are_fetched_side_by_side():
    slow = Slow()
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(house(slow).gathered(letters(*[FILE] * 9), Watch()))
        await slow.full.wait()
        slow.free.set()
    assert (len(work.result()), slow.most) == (9, gathering.AT_ONCE)


async def test_cancelling_leaves_nothing_under_way():
    slow = Slow()
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(house(slow).gathered(letters(*[FILE] * 9), Watch()))
        await slow.full.wait()
        work.cancel()
    assert slow.under_way == 0
