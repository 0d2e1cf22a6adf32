"""How files for the person are named, judged by their bytes, and put together into messages."""

import pytest

from bot.attachments.outgoing_files import (
    MAX_FILE_BYTES,
    clean_file_name,
    plan_file_parts,
    prepare_file,
)
from bot.attachments.picture_size import read_picture_size
from bot.domain import FileKind, OutgoingFile
from bot.translations.translator import ENGLISH
from tests.support.attachment_files import make_image


@pytest.mark.parametrize(
    ("name", "media_type", "expected"),
    [
        ("../../etc/passwd", "", "passwd"),
        ("C:\\temp\\a.txt", "", "a.txt"),
        ("\x00\x1b[31mred\u202egpj.exe", "", "[31mredgpj.exe"),
        ("", "image/png", "file.png"),
        ("...", "", "file"),
        ("a" * 100 + ".csv", "", "a" * 56 + ".csv"),
        ("chart", "image/webp", "chart.webp"),
        ("what: why?.md", "", "what_ why_.md"),
        ("x." + "y" * 100, "", "x." + "y" * 58),
    ],
)
def test_a_name_is_cleaned(name: str, media_type: str, expected: str):
    assert clean_file_name(name, media_type) == expected


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP"])
def test_the_size_of_a_picture_is_read_from_its_bytes(image_format: str):
    content = make_image(300, 200, image_format)
    assert read_picture_size(content) == (300, 200)
    assert all(read_picture_size(content[:end]) in (None, (300, 200)) for end in range(100))


def test_the_size_of_other_webp_pictures_is_read():
    assert read_picture_size(make_image(300, 200, "WEBP", lossless=True)) == (300, 200)
    assert read_picture_size(make_image(300, 200, "WEBP", exif=b"Exif\x00\x00")) == (300, 200)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (make_image(), "photo"),
        (make_image(image_format="GIF"), "document"),
        (make_image(9_971, 30, "PNG"), "document"),
        (make_image(421, 20, "PNG"), "document"),
        (make_image(420, 21, "PNG"), "photo"),
        (make_image() + bytes(10 << 20), "document"),
        (b"%PDF", "document"),
        (b"\xff\xd8\xff" + b"\xff\xe0\x00\x02" * 4000, "document"),
        (bytes(MAX_FILE_BYTES), "document"),
        (bytes(MAX_FILE_BYTES + 1), "too_large"),
    ],
    ids=["photo", "gif", "long sides", "narrow", "ratio", "heavy", "pdf", "segments", "largest", "too large"],
)
def test_a_file_is_judged_by_its_bytes(content: bytes, kind: FileKind):
    assert prepare_file("a.png", content).kind == kind


def make_files(*kinds: FileKind, caption: str = "", size: int = 1) -> list[OutgoingFile]:
    return [OutgoingFile(f"{number}.x", kind, size, caption, id=number) for number, kind in enumerate(kinds)]


def test_files_of_one_kind_go_together_and_what_is_too_large_is_said():
    files = [*make_files("document", "photo", "photo"), *make_files("too_large", size=65_536_000)]
    parts = plan_file_parts(files, ENGLISH)
    assert [(part.kind, [file.id for file in files]) for part, files in parts] == [
        ("album", [1, 2]),
        ("document", [0]),
        ("text", []),
    ]
    assert parts[-1][0].text == "I couldn't send 0.x: it's 62.5 MB, and Telegram takes files up to 50 MB."
    photos: list[FileKind] = ["photo"] * 12
    albums = plan_file_parts(make_files(*photos), ENGLISH)
    assert [len(files) for _, files in albums] == [10, 2]
    documents: list[FileKind] = ["document"] * 3
    uploads = plan_file_parts(make_files(*documents, size=20 << 20), ENGLISH)
    assert [len(files) for _, files in uploads] == [2, 1]


def test_a_long_caption_goes_before_as_a_message():
    (part, _) = plan_file_parts(make_files("photo", caption="😀" * 512), ENGLISH)[0]
    assert (part.kind, part.text) == ("photo", "😀" * 512)
    before, photo = plan_file_parts(make_files("photo", caption="😀" * 512 + "x"), ENGLISH)
    assert (before[0].kind, before[0].text, photo[0].kind, photo[0].text) == (
        "text",
        "😀" * 512 + "x",
        "photo",
        "",
    )
