"""The attachments of a turn's messages are downloaded and read in parallel, within the limits of a turn."""

import asyncio
from typing import cast

import pytest

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.transcription import Transcriber
from bot.errors import AttachmentUnusable
from bot.telegram.incoming.attachment_loader import IMAGES_UNSUPPORTED, SOUND_UNSUPPORTED, AttachmentLoader
from bot.telegram.incoming.attachments import MediaItem
from bot.telegram.incoming.downloads import FILE_TOO_LARGE, MAX_BYTES, FileDownloader
from bot.telegram.incoming.file_places import (
    MAX_BYTES_IN_FLIGHT,
    MAX_PLACES,
    MAX_PLACES_PER_PERSON,
    FilePlaces,
)
from bot.telegram.incoming.user_message import IncomingMessage
from bot.usage.timers import TurnTimer
from tests.support import attachment_files as attachment_files
from tests.support.update_harness import FakeFileDownloader

ANN = 1
PHOTO = MediaItem("picture", "photo", "photo")
FILE = MediaItem("file", "file", "text", "a.txt")
VOICE = MediaItem("sound", "voice message", "voice", media_type="audio/ogg", is_own_voice=True)
FILES = {
    "photo": attachment_files.make_image(),
    "text": b"some text",
    "voice": b"OggS",
    "drawn": attachment_files.make_image(image_format="PNG"),
}


class FakeTranscriber:
    def __init__(self) -> None:
        self.heard: list[tuple[bytes, str, str]] = []

    async def transcribe(self, body: bytes, name: str, media_type: str) -> str:
        self.heard.append((body, name, media_type))
        return "hello"


def build_loader(
    files: object = None, transcriber: FakeTranscriber | None = None, max_images: int = 2
) -> AttachmentLoader:
    downloader = files or FakeFileDownloader(dict(FILES))
    return AttachmentLoader(
        cast(FileDownloader, downloader),
        attachment_files.build_reader(),
        cast(Transcriber, transcriber) if transcriber else None,
        count_images=lambda: max_images,
        max_text_bytes=8000,
    )


def build_messages(*media_items: MediaItem | None) -> list[IncomingMessage]:
    return [IncomingMessage({}, 1.0, media) for media in media_items]


@pytest.mark.parametrize(
    ("max_images", "media_items", "reasons"),
    [
        (
            2,
            [PHOTO, FILE, PHOTO, PHOTO],
            ["", "", "", "I can't look at that many in one go; please send them one after another"],
        ),
        (1, [PHOTO, PHOTO], ["", "I can't look at that many in one go; please send them one after another"]),
        (0, [PHOTO], [IMAGES_UNSUPPORTED]),
        (2, [VOICE, None], [SOUND_UNSUPPORTED, ""]),
        (2, [MediaItem("file", "file", "x", size_bytes=MAX_BYTES + 1)], [FILE_TOO_LARGE]),
        (2, [MediaItem("file", "file", "x", size_bytes=MAX_BYTES)], [""]),
    ],
)
def test_what_is_known_before_is_not_fetched(
    max_images: int, media_items: list[MediaItem | None], reasons: list[str]
):
    messages = build_loader(max_images=max_images).mark_unusable(build_messages(*media_items))
    assert [message.unusable_reason for message in messages] == reasons
    assert [message.needs_fetch for message in messages] == [
        bool(media) and not reason for media, reason in zip(media_items, reasons, strict=True)
    ]


async def test_each_kind_is_read_as_what_it_is_and_order_is_kept():
    transcriber = FakeTranscriber()
    messages = [
        *build_messages(PHOTO, None, FILE, VOICE),
        IncomingMessage({}, 1.0, PHOTO, unusable_reason="it is too much"),
    ]
    picture, nothing, text, voice, ruled_out = await build_loader(transcriber=transcriber).load(
        messages, ANN, TurnTimer()
    )
    assert picture.content is not None
    assert (nothing.content, ruled_out.content, ruled_out.unusable_reason) == (None, None, "it is too much")
    assert isinstance(text.content, ExtractedDocument)
    assert text.content.texts == ("some text",)
    assert voice.content is not None
    assert not isinstance(voice.content, ExtractedDocument)
    assert (voice.content.kind, voice.content.text, voice.content.data) == ("sound", "hello", None)
    assert transcriber.heard == [(b"OggS", "sound.ogg", "audio/ogg")]


async def test_a_name_goes_with_the_sound_where_there_is_one():
    transcriber = FakeTranscriber()
    await build_loader(transcriber=transcriber).load(
        build_messages(MediaItem("sound", "file", "voice", "talk.mp3", "audio/mpeg")), ANN, TurnTimer()
    )
    await build_loader(transcriber=transcriber).load(
        build_messages(MediaItem("sound", "video message", "voice", media_type="video/mp4")), ANN, TurnTimer()
    )
    assert [name for _, name, _ in transcriber.heard] == ["talk.mp3", "sound.mp4"]


async def test_what_cannot_be_had_is_a_reason_and_the_others_are_had():
    gone, picture = await build_loader().load(
        build_messages(MediaItem("file", "file", "gone"), PHOTO), ANN, TurnTimer()
    )
    assert "Telegram does not have it any more" in gone.unusable_reason
    assert picture.content is not None


async def test_files_that_turn_out_to_be_pictures_count_as_such():
    drawn = MediaItem("file", "file", "drawn", "a.bin")
    first, second, third = await build_loader(max_images=2).load(
        build_messages(PHOTO, drawn, drawn), ANN, TurnTimer()
    )
    assert (first.content is not None, second.content is not None, third.content) == (True, True, None)
    assert third.unusable_reason == "I can't look at that many in one go; please send them one after another"


class SlowDownloader:
    """Returns no file until `free` is set, and counts what is under way."""

    def __init__(self) -> None:
        self.under_way = 0
        self.max_under_way = 0
        self.free = asyncio.Event()
        self.full = asyncio.Event()

    async def fetch(self, file_id: str) -> bytes:
        self.under_way += 1
        self.max_under_way = max(self.max_under_way, self.under_way)
        if self.under_way == MAX_PLACES_PER_PERSON:
            self.full.set()
        try:
            await self.free.wait()
        finally:
            self.under_way -= 1
        raise AttachmentUnusable("it is gone")


async def test_a_few_are_fetched_side_by_side():
    slow = SlowDownloader()
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(build_loader(slow).load(build_messages(*[FILE] * 9), ANN, TurnTimer()))
        await slow.full.wait()
        slow.free.set()
    assert (len(work.result()), slow.max_under_way) == (9, MAX_PLACES_PER_PERSON)


async def test_cancelling_leaves_nothing_under_way():
    slow = SlowDownloader()
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(build_loader(slow).load(build_messages(*[FILE] * 9), ANN, TurnTimer()))
        await slow.full.wait()
        work.cancel()
    assert slow.under_way == 0


class KeptDownloader:
    """Returns no file until `free` is set; tells `arrived` of each that is under way."""

    def __init__(self) -> None:
        self.under_way = list[str]()
        self.arrived = asyncio.Queue[str]()
        self.free = asyncio.Event()

    async def fetch(self, file_id: str) -> bytes:
        self.under_way.append(file_id)
        self.arrived.put_nowait(file_id)
        await self.free.wait()
        raise AttachmentUnusable("it is gone")


async def test_many_chats_of_one_person_leave_places_to_others_before_anything_is_fetched():
    kept = KeptDownloader()
    loader = build_loader(kept)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(loader.load(build_messages(MediaItem("file", "file", "ann")), ANN, TurnTimer()))
        assert [await kept.arrived.get() for _ in range(2)] == ["ann", "ann"]
        tasks.create_task(loader.load(build_messages(MediaItem("file", "file", "bob")), 2, TurnTimer()))
        assert await kept.arrived.get() == "bob"
        assert kept.under_way == ["ann", "ann", "bob"]
        kept.free.set()


async def test_files_under_way_are_bounded_for_all_and_whoever_holds_fewest_is_next():
    assert MAX_PLACES * MAX_BYTES <= MAX_BYTES_IN_FLIGHT == 100 * 1024 * 1024
    places = FilePlaces()
    releases = {person: asyncio.Event() for person in range(5)}
    order = asyncio.Queue[int]()

    async def hold(person: int) -> None:
        async with places.take(person):
            order.put_nowait(person)
            await releases[person].wait()

    async with asyncio.TaskGroup() as tasks:
        for person in (0, 0, 0, 1, 1, 1, 2, 2):
            tasks.create_task(hold(person))
        assert [await order.get() for _ in range(MAX_PLACES)] == [0, 0, 1, 1, 2]
        cancelled = tasks.create_task(hold(3))
        tasks.create_task(hold(4))
        await asyncio.sleep(0)
        assert order.empty()
        cancelled.cancel()
        releases[1].set()
        assert [await order.get() for _ in range(2)] == [4, 1]
        for release in releases.values():
            release.set()
