"""Files are recognized by content, read in processes, and refused with a reason; no process is left over."""

import asyncio
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.reader import (
    DAMAGED,
    EMPTY,
    LOCKED,
    MAX_CHARACTERS,
    MAX_PROCESSES,
    NO_TEXT,
    NOT_AN_IMAGE,
    OTHER_KIND,
    TOO_HEAVY,
    AttachmentReader,
    ReadTimeouts,
)
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from tests.support.attachment_files import (
    PATIENCE,
    build_reader,
    make_huge_png,
    make_image,
    make_locked_pdf,
    make_pdf,
    make_scanned_pdf,
    make_slow_pdf,
    open_image,
)


def list_children() -> set[str]:
    """The processes this one has started and not reaped yet."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


async def read_document(body: bytes, name: str = "a") -> ExtractedDocument:
    document = await build_reader().read_file(body, name)
    assert isinstance(document, ExtractedDocument)
    return document


async def test_a_picture_is_shrunk():
    attachment = await build_reader().read_image(make_image(4000, 3000), "a.jpg")
    assert (attachment.kind, attachment.name, attachment.media_type, attachment.text) == (
        "image",
        "a.jpg",
        "image/jpeg",
        None,
    )
    assert attachment.data is not None
    assert open_image(attachment.data).size == (927, 695)


@pytest.mark.parametrize("image_format", ["PNG", "GIF", "WEBP"])
async def test_a_picture_is_recognized_whatever_its_name(image_format: str):
    attachment = await build_reader().read_file(make_image(image_format=image_format), "notes.txt")
    assert isinstance(attachment, Attachment)
    assert (attachment.kind, attachment.name) == ("image", "notes.txt")


async def test_a_pdf_is_read_page_by_page():
    document = await read_document(b"\n\n" + make_pdf(["First", "", "Third\nand more"]), "a.doc")
    assert (document.name, document.media_type, document.page_count) == ("a.doc", "application/pdf", 3)
    assert document.texts == ("First", "", "Third\nand more")


async def test_a_long_pdf_is_read_to_its_end():
    document = await read_document(make_pdf([f"This is page {number}." for number in range(1, 201)]))
    assert (document.page_count, len(document.texts), document.texts[199]) == (200, 200, "This is page 200.")


async def test_an_encrypted_pdf_without_a_password_is_read():
    assert (await read_document(make_locked_pdf(["open"], ""))).texts == ("open",)


async def test_a_text_file_is_read_whatever_its_name():
    document = await read_document("naïve\r\n".encode("cp1252"), "a.bin")
    assert (document.texts, document.is_encoding_known, document.media_type, document.page_count) == (
        ("naïve\n",),
        False,
        "text/plain",
        None,
    )


HTML = "<html><head><title>Tea</title><script>steal()</script></head><body><p>hot</body></html>"


@pytest.mark.parametrize(
    "start", ["\ufeff\n", f"<?xml version='1.0'?>\n<!-- saved --> <!--{'x' * 2000}\n-->\n"]
)
async def test_a_web_page_is_read_without_its_tags_and_scripts(start: str):
    assert (await read_document((start + HTML).encode(), "a.txt")).texts == ("Tea\nhot",)


async def test_a_text_that_begins_with_a_comment_is_no_web_page():
    assert (await read_document(b"<!-- draft -->\n# Tea\n  <html>")).texts == (
        "<!-- draft -->\n# Tea\n  <html>",
    )


@pytest.mark.parametrize("char", ["😀", '"'])
async def test_a_million_characters_of_any_script_are_read(char: str):
    assert (await read_document(char.encode() * MAX_CHARACTERS)).texts == (char * MAX_CHARACTERS,)


async def test_the_beginning_of_a_very_long_text_is_read_and_its_length_is_known():
    document = await read_document(b"line\n" * 400_000)
    assert (len(document.texts[0]), document.char_count) == (1_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", EMPTY),
        (b" \n\t", EMPTY),
        (b"PK\x03\x04\x14\0\0\0\x08\0", DAMAGED),
        (random.Random(1).randbytes(4096), OTHER_KIND),
        (b"{\\rtf1 hello}", OTHER_KIND),
        (b"\xff\xd8\xff nothing more", NOT_AN_IMAGE),
        (make_image(400, 400)[:-900], DAMAGED),
        (b"%PDF-1.7 nothing more", DAMAGED),
        (make_pdf(["", ""]), NO_TEXT),
        (make_locked_pdf(["secret"], "word"), LOCKED),
        (make_huge_png(8000, 8000), "it has too many points to be opened"),
    ],
)
async def test_an_unreadable_file_is_refused_with_a_reason(body: bytes, reason: str):
    with pytest.raises(AttachmentUnusable) as unusable:
        await build_reader().read_file(body, "a")
    assert str(unusable.value) == reason


@pytest.mark.parametrize(("body", "reason"), [(b"", EMPTY), (b"no picture", NOT_AN_IMAGE)])
async def test_a_file_that_should_be_a_picture_and_is_none_is_refused(body: bytes, reason: str):
    with pytest.raises(AttachmentUnusable, match=reason.split(";")[0]):
        await build_reader().read_image(body)


async def test_pages_without_text_are_looked_at_as_far_as_pictures_go():
    reader = build_reader()
    scan = await reader.read_file(make_scanned_pdf(["", "", ""]), "a.pdf", 2)
    assert isinstance(scan, ExtractedDocument)
    assert (scan.is_scanned, scan.drawn_pages, len(scan.pictures)) == (True, (1, 2, 3), 2)
    with pytest.raises(AttachmentUnusable, match=NO_TEXT):
        await reader.read_file(make_scanned_pdf([""]), "a.pdf")


async def test_the_text_stays_where_a_page_cannot_be_looked_at():
    body = make_scanned_pdf(["", "a text"])
    mixed = await AttachmentReader(replace(PATIENCE, image_seconds=0.0)).read_file(body, "a.pdf", 2)
    assert isinstance(mixed, ExtractedDocument)
    assert (mixed.texts, mixed.pictures) == (("", "a text"), ())


async def test_a_pdf_that_takes_too_long_is_refused_and_leaves_no_process():
    before = list_children()
    with pytest.raises(AttachmentUnusable, match=TOO_HEAVY):
        await AttachmentReader(ReadTimeouts(document_seconds=1.0)).read_file(make_slow_pdf(), "a.pdf")
    assert list_children() <= before


async def test_a_file_that_takes_too_much_memory_is_refused():
    reader = AttachmentReader(PATIENCE, memory_bytes=320 * 1024 * 1024)
    with pytest.raises(AttachmentUnusable, match=TOO_HEAVY):
        await reader.read_file(make_huge_png(7000, 7000), "a.png")


async def test_a_few_files_are_read_at_once_and_the_others_wait():
    reader = AttachmentReader(PATIENCE)
    slow_pdf = make_slow_pdf()
    before = list_children()
    async with asyncio.TaskGroup() as tasks:
        slow_files = [tasks.create_task(reader.read_file(slow_pdf, "a.pdf")) for _ in range(MAX_PROCESSES)]
        while len(list_children() - before) < MAX_PROCESSES:  # noqa: ASYNC110 - no event tells of a new process
            await asyncio.sleep(0.01)
        small_file = tasks.create_task(reader.read_file(b"text", "a.txt"))
        await asyncio.sleep(0)
        assert len(list_children() - before) == MAX_PROCESSES
        slow_files[0].cancel()
        await small_file
        for task in slow_files:
            task.cancel()
    assert list_children() <= before
