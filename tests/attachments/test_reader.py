"""Files are known by their content, opened apart, and given up with a reason; no process of that stays."""

import asyncio
import os
from pathlib import Path

import pytest

from bot.attachments import reader as reading
from bot.attachments.excerpts import Document
from bot.attachments.reader import Patience, Reader
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from tests.support import attachment_files as made


def children() -> set[str]:
    """The processes this one has started and not reaped."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


async def document(body: bytes, name: str = "a") -> Document:
    found = await Reader().file(body, name)
    assert isinstance(found, Document)
    return found


async def test_a_picture_is_made_small():
    kept = await Reader().picture(made.image(4000, 3000), "a.jpg")
    assert (kept.kind, kept.name, kept.media_type, kept.text) == ("image", "a.jpg", "image/jpeg", None)
    assert kept.data is not None
    assert made.opened(kept.data).size == (927, 695)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP"])
async def test_a_file_that_is_a_picture_is_one_whatever_it_is_called(form: str):
    kept = await Reader().file(made.image(form=form), "notes.txt")
    assert isinstance(kept, Attachment)
    assert (kept.kind, kept.name) == ("image", "notes.txt")


async def test_a_paper_is_read_page_by_page():
    found = await document(b"\n\n" + made.pdf(["First", "", "Third\nand more"]), "a.doc")
    assert (found.name, found.media_type, found.pages) == ("a.doc", "application/pdf", 3)
    assert found.texts == ("First", "", "Third\nand more")


async def test_a_long_paper_is_read_whole():
    found = await document(made.pdf([f"This is page {number}." for number in range(1, 201)]))
    assert (found.pages, len(found.texts), found.texts[199]) == (200, 200, "This is page 200.")


async def test_a_paper_that_anybody_may_read_is_read_although_it_is_encrypted():
    assert (await document(made.locked_pdf(["open"], ""))).texts == ("open",)


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
    found = await document(body, "a.bin")
    assert (found.texts, found.sure, found.media_type, found.pages) == ((text,), sure, "text/plain", None)


@pytest.mark.parametrize("sign", ["😀", "ж", '"'])
async def test_a_million_signs_of_any_script_are_read(sign: str):
    assert (await document(sign.encode() * reading.CHARACTERS)).texts == (sign * reading.CHARACTERS,)


async def test_of_a_very_long_text_the_beginning_is_read_and_its_length_is_known():
    found = await document(b"line\n" * 400_000)
    assert (len(found.texts[0]), found.length) == (1_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", reading.EMPTY),
        (b" \n\t", reading.EMPTY),
        (b"PK\x03\x04\x14\0\0\0\x08\0", reading.OTHER_KIND),
        (os.urandom(4096), reading.OTHER_KIND),
        (b"{\\rtf1 hello}", reading.OTHER_KIND),
        (b"\xff\xd8\xff nothing more", reading.NO_PICTURE),
        (made.image(400, 400)[:-900], reading.DAMAGED),
        (b"%PDF-1.7 nothing more", reading.DAMAGED),
        (made.pdf(["", ""]), reading.NO_TEXT),
        (made.locked_pdf(["secret"], "word"), reading.LOCKED),
        (made.huge_png(8000, 8000), "it has 64 million points, too many to be opened"),
    ],
)
async def test_what_cannot_be_read_is_given_up_with_a_reason(body: bytes, why: str):
    with pytest.raises(AttachmentUnusable) as unusable:
        await Reader().file(body, "a")
    assert str(unusable.value) == why


@pytest.mark.parametrize(("body", "why"), [(b"", reading.EMPTY), (b"no picture", reading.NO_PICTURE)])
async def test_what_should_be_a_picture_and_is_none_is_given_up(body: bytes, why: str):
    with pytest.raises(AttachmentUnusable, match=why.split(";")[0]):
        await Reader().picture(body)


async def test_a_paper_that_takes_too_long_is_given_up_and_nothing_of_it_stays():
    before = children()
    with pytest.raises(AttachmentUnusable, match=reading.HEAVY):
        await Reader(Patience(document=1.0)).file(made.slow_pdf(), "a.pdf")
    assert children() <= before


async def test_what_takes_too_much_memory_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "_MEMORY", 320 * 1024 * 1024)
    with pytest.raises(AttachmentUnusable, match=reading.HEAVY):
        await Reader().file(made.huge_png(7000, 7000), "a.png")


async def test_a_few_are_read_at_once_and_the_others_wait():
    reader, slow, before = Reader(Patience(document=30.0)), made.slow_pdf(), children()
    async with asyncio.TaskGroup() as tasks:
        heavy = [tasks.create_task(reader.file(slow, "a.pdf")) for _ in range(reading.AT_ONCE)]
        while len(children() - before) < reading.AT_ONCE:  # noqa: ASYNC110 - no event tells of a new process
            await asyncio.sleep(0.01)
        light = tasks.create_task(reader.file(b"text", "a.txt"))
        await asyncio.sleep(0)
        assert len(children() - before) == reading.AT_ONCE
        heavy[0].cancel()
        await light
        for task in heavy:
            task.cancel()
    assert children() <= before
