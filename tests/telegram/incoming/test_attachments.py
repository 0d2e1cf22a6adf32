"""What came with a message is read leniently, and its name can break no prompt and no line
by.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.telegram.incoming.attachments import MAX_NAME_CHARS, MediaItem, clean_name, extract_media
from tests.support.groups import read_private_envelope


def build_photo_size(file: str, width: int, height: int, **more: Any) -> dict[str, Any]:
    return {"file_id": file, "file_unique_id": "u", "width": width, "height": height, **more}


@pytest.mark.parametrize(
    ("sizes", "file"),
    [
        (
            [
                build_photo_size("s", 90, 67),
                build_photo_size("m", 800, 600),
                build_photo_size("l", 1280, 960),
                build_photo_size("xl", 2560, 1920),
                build_photo_size("xxl", 5120, 3840),
            ],
            "xl",
        ),
        ([build_photo_size("xl", 2560, 1920), build_photo_size("s", 90, 67)], "xl"),
        ([build_photo_size("s", 90, 67), build_photo_size("m", 320, 240)], "m"),
        ([{"file_id": "a"}, 7, {"width": 9, "height": 9}], "a"),
    ],
)
def test_of_a_photo_the_smallest_is_taken_that_has_all_the_model_sees(sizes: list[Any], file: str):
    media = extract_media({"photo": sizes})
    assert media is not None
    assert (media.kind, media.noun, media.file_id, media.media_type) == (
        "picture",
        "photo",
        file,
        "image/jpeg",
    )


FILE = {"file_id": "f", "file_name": "a.x", "file_size": 12}


@pytest.mark.parametrize(
    ("message", "media"),
    [
        ({"document": FILE}, MediaItem("file", "file", "f", "a.x", "", 12)),
        (
            {"document": FILE | {"mime_type": "Image/PNG"}},
            MediaItem("picture", "picture", "f", "a.x", "image/png", 12),
        ),
        (
            {"document": FILE | {"mime_type": "image/heic"}},
            MediaItem("file", "file", "f", "a.x", "image/heic", 12),
        ),
        (
            {"document": FILE | {"mime_type": "audio/x\r\nname: y"}},
            MediaItem("file", "file", "f", "a.x", "", 12),
        ),
        (
            {"document": FILE | {"mime_type": "audio/x-wav"}},
            MediaItem("sound", "file", "f", "a.x", "audio/x-wav", 12),
        ),
        (
            {"animation": {"mime_type": "image/gif"}, "document": FILE | {"mime_type": "image/gif"}},
            MediaItem("picture", "picture", "f", "a.x", "image/gif", 12),
        ),
        ({"animation": {"mime_type": "video/mp4"}, "document": FILE}, None),
        (
            {"animation": FILE | {"mime_type": "video/mp4", "duration": 3}, "document": FILE},
            MediaItem("video", "GIF", "", "a.x", "video/mp4", 0, 3),
        ),
        (
            {"video": {"file_id": "v", "file_size": 2 << 30, "duration": 34, "thumbnail": FILE}},
            MediaItem("video", "video", "f", "", "video/mp4", 12, 34),
        ),
        (
            {"video": {"file_id": "v", "thumbnail": "f"}},
            MediaItem("video", "video", "", "", "video/mp4"),
        ),
        (
            {"voice": {"file_id": "v", "duration": 12, "mime_type": "audio/ogg"}},
            MediaItem("sound", "voice message", "v", "", "audio/ogg", 0, 12, is_own_voice=True),
        ),
        (
            {"video_note": {"file_id": "v", "duration": True}},
            MediaItem("sound", "video message", "v", "", "video/mp4", is_own_voice=True),
        ),
        (
            {"audio": FILE | {"mime_type": "audio/mpeg", "duration": 9}},
            MediaItem("sound", "file", "f", "a.x", "audio/mpeg", 12, 9),
        ),
        ({"photo": []}, None),
        ({"document": {"file_name": "a"}}, None),
        ({"document": "f"}, None),
        ({"voice": {"duration": 3}}, None),
        ({"sticker": FILE}, None),
        ({"text": "hi"}, None),
    ],
)
def test_each_kind_is_recognized_by_what_telegram_says_about_it(
    message: dict[str, Any], media: MediaItem | None
):
    assert extract_media(message) == media


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("report.pdf", "report.pdf"),
        (" a\n\tb\u202e\x00\u2028c ", "a b c"),
        ("отчёт 2026.pdf", "отчёт 2026.pdf"),
        ("", ""),
        ("\ud800", ""),
        ("x" * 60 + ".tar.gz", "x" * 27 + "…" + "xxxxx.tar.gz"),
    ],
)
def test_a_name_is_one_short_line_and_keeps_its_end(name: str, clean: str):
    assert clean_name(name) == clean


@given(st.text(max_size=300))
def test_every_name_becomes_short_and_visible(name: str):
    clean = clean_name(name)
    assert len(clean) <= MAX_NAME_CHARS
    assert clean == " ".join(clean.split())
    assert clean.encode().decode() == clean


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = ["file_id", "file_name", "file_size", "mime_type", "duration", "width", "height"]
things = st.dictionaries(st.sampled_from(keys), json, max_size=7)
kinds = ["photo", "document", "voice", "audio", "video_note", "animation", "video", "media_group_id"]
messages = st.dictionaries(st.sampled_from(kinds), things | st.lists(things, max_size=3) | json, max_size=4)


@given(messages)
def test_nothing_that_comes_can_break_the_reading(message: dict[str, Any]):
    media = extract_media(message)
    assert media is None or media.file_id or media.kind == "video"
    arrival = read_private_envelope(
        {"update_id": 1, "message": {"chat": {"id": 5, "type": "private"}, **message}}, 0.0
    )
    assert arrival is not None
    assert arrival.shape == ("text" if media else "other")
    assert arrival.not_before == (1.0 if media and isinstance(message.get("media_group_id"), str) else None)
