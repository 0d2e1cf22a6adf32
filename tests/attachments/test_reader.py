"""Files are known by their content, opened apart, and given up with a reason; no process of that stays."""

import asyncio
import os
from pathlib import Path

import pytest

from bot.attachments import reader as reading
from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.reader import AttachmentReader, ReadTimeouts
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from tests.support import attachment_files as made


def list_children() -> set[str]:
    """The processes this one has started and not reaped."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


async def read_document(body: bytes, name: str = "a") -> ExtractedDocument:
    found = await AttachmentReader().read_file(body, name)
    assert isinstance(found, ExtractedDocument)
    return found


async def test_a_picture_is_made_small():
    kept = await AttachmentReader().read_image(made.make_image(4000, 3000), "a.jpg")
    assert (kept.kind, kept.name, kept.media_type, kept.text) == ("image", "a.jpg", "image/jpeg", None)
    assert kept.data is not None
    assert made.open_image(kept.data).size == (927, 695)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP"])
async def test_a_file_that_is_a_picture_is_one_whatever_it_is_called(form: str):
    kept = await AttachmentReader().read_file(made.make_image(form=form), "notes.txt")
    assert isinstance(kept, Attachment)
    assert (kept.kind, kept.name) == ("image", "notes.txt")


async def test_a_paper_is_read_page_by_page():
    found = await read_document(b"\n\n" + made.make_pdf(["First", "", "Third\nand more"]), "a.doc")
    assert (found.name, found.media_type, found.page_count) == ("a.doc", "application/pdf", 3)
    assert found.texts == ("First", "", "Third\nand more")


async def test_a_long_paper_is_read_whole():
    found = await read_document(made.make_pdf([f"This is page {number}." for number in range(1, 201)]))
    assert (found.page_count, len(found.texts), found.texts[199]) == (200, 200, "This is page 200.")


async def test_a_paper_that_anybody_may_read_is_read_although_it_is_encrypted():
    assert (await read_document(made.make_locked_pdf(["open"], ""))).texts == ("open",)


@pytest.mark.parametrize(
    ("body", "text", "sure"),
    [
        (b"plain", "plain", True),
        ("ж ✓ 😀".encode(), "ж ✓ 😀", True),
        ("ж".encode("utf-16"), "ж", True),
        ("ж".encode("utf-32"), "ж", True),
        ("ж".encode("utf-8-sig"), "ж", True),
        ("naïve".encode("cp1252"), "naïve", False),
        (b"a,b\r\n1,2\r3", "a,b\n1,2\n3", True),
        (b'{"a": 1}\x1b[0m', '{"a": 1}\x1b[0m', True),
        (b"x" * 600 + b"\x01", "x" * 600, True),
    ],
)
async def test_a_text_file_is_read_however_it_is_written(body: bytes, text: str, *, sure: bool):
    found = await read_document(body, "a.bin")
    assert (found.texts, found.is_encoding_known, found.media_type, found.page_count) == (
        (text,),
        sure,
        "text/plain",
        None,
    )


@pytest.mark.parametrize("sign", ["😀", "ж", '"'])
async def test_a_million_signs_of_any_script_are_read(sign: str):
    assert (await read_document(sign.encode() * reading.MAX_CHARACTERS)).texts == (
        sign * reading.MAX_CHARACTERS,
    )


async def test_of_a_very_long_text_the_beginning_is_read_and_its_length_is_known():
    found = await read_document(b"line\n" * 400_000)
    assert (len(found.texts[0]), found.char_count) == (1_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", reading.EMPTY),
        (b" \n\t", reading.EMPTY),
        (b"PK\x03\x04\x14\0\0\0\x08\0", reading.OTHER_KIND),
        (os.urandom(4096), reading.OTHER_KIND),
        (b"{\\rtf1 hello}", reading.OTHER_KIND),
        (b"\xff\xd8\xff nothing more", reading.NOT_AN_IMAGE),
        (made.make_image(400, 400)[:-900], reading.DAMAGED),
        (b"%PDF-1.7 nothing more", reading.DAMAGED),
        (made.make_pdf(["", ""]), reading.NO_TEXT),
        (made.make_locked_pdf(["secret"], "word"), reading.LOCKED),
        (made.make_huge_png(8000, 8000), "it has 64 million points, too many to be opened"),
    ],
)
async def test_what_cannot_be_read_is_given_up_with_a_reason(body: bytes, why: str):
    with pytest.raises(AttachmentUnusable) as unusable:
        await AttachmentReader().read_file(body, "a")
    assert str(unusable.value) == why


@pytest.mark.parametrize(("body", "why"), [(b"", reading.EMPTY), (b"no picture", reading.NOT_AN_IMAGE)])
async def test_what_should_be_a_picture_and_is_none_is_given_up(body: bytes, why: str):
    with pytest.raises(AttachmentUnusable, match=why.split(";")[0]):
        await AttachmentReader().read_image(body)


async def test_a_paper_that_takes_too_long_is_given_up_and_nothing_of_it_stays():
    before = list_children()
    with pytest.raises(AttachmentUnusable, match=reading.TOO_HEAVY):
        await AttachmentReader(ReadTimeouts(document_seconds=1.0)).read_file(made.make_slow_pdf(), "a.pdf")
    assert list_children() <= before


async def test_what_takes_too_much_memory_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "_MEMORY", 320 * 1024 * 1024)
    with pytest.raises(AttachmentUnusable, match=reading.TOO_HEAVY):
        await AttachmentReader().read_file(made.make_huge_png(7000, 7000), "a.png")


async def test_a_few_are_read_at_once_and_the_others_wait():
    reader, slow, before = (
        AttachmentReader(ReadTimeouts(document_seconds=30.0)),
        made.make_slow_pdf(),
        list_children(),
    )
    async with asyncio.TaskGroup() as tasks:
        heavy = [tasks.create_task(reader.read_file(slow, "a.pdf")) for _ in range(reading.MAX_PROCESSES)]
        while len(list_children() - before) < reading.MAX_PROCESSES:  # noqa: ASYNC110 - no event tells of a new process
            await asyncio.sleep(0.01)
        light = tasks.create_task(reader.read_file(b"text", "a.txt"))
        await asyncio.sleep(0)
        assert len(list_children() - before) == reading.MAX_PROCESSES
        heavy[0].cancel()
        await light
        for task in heavy:
            task.cancel()
    assert list_children() <= before
