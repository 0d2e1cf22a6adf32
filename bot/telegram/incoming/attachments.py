"""Extracts the media of a raw message: a picture, a file, sound or a video, as Telegram describes it. Pure.

Lenient: what is missing or malformed is left out.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Any, Literal

from bot.attachments.images import AREA_PER_TOKEN, IMAGE_TOKENS

MAX_NAME_CHARS = 40  # a longer file name is cut in the middle: its end says more
_NAME_END_CHARS = 12

_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
_SOUND_NOUNS = {"voice": "voice message", "video_note": "video message", "audio": "file"}
_VIDEO_NOUNS = {"animation": "GIF", "video": "video"}
_MAX_AREA = IMAGE_TOKENS[-1] * AREA_PER_TOKEN
_OGG = "audio/ogg"
_MP4 = "video/mp4"
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class MediaItem:
    """A file that Telegram keeps as `file_id`; of a video that is its thumbnail, or "" where there is none.

    `noun`: what people call it, such as "photo".
    `name`: the file's name, or "".
    `size_bytes`, `duration_seconds`: 0 where Telegram does not say.
    `is_own_voice`: the sender speaks, rather than sends a recording.
    """

    kind: Literal["picture", "file", "sound", "video"]
    noun: str
    file_id: str
    name: str = ""
    media_type: str = ""
    size_bytes: int = 0
    duration_seconds: int = 0
    is_own_voice: bool = False

    @property
    def label(self) -> str:
        """Its noun, with its name if it has one."""
        return f"{self.noun} {self.name}".rstrip()


def extract_media(message: dict[str, Any]) -> MediaItem | None:
    """Return what came with a message, if it is of a known kind; a message never has more than one."""
    photo = message.get("photo")
    if isinstance(photo, list):
        return _parse_photo([size for size in photo if isinstance(size, dict)])
    for key, noun in _VIDEO_NOUNS.items():
        # A GIF that is still a picture is read as the document that comes with it.
        if key in message and _read_media_type(message[key]) not in _IMAGE_TYPES:
            return _parse_video(noun, message[key])
    for key, noun in _SOUND_NOUNS.items():
        if key in message:
            sound = _parse_recording(noun, message[key], _MP4 if key == "video_note" else _OGG)
            return replace(sound, is_own_voice=key != "audio") if sound else None
    return _parse_document(message.get("document"))


def _parse_photo(sizes: list[dict[str, Any]]) -> MediaItem | None:
    """Take the smallest size that has all the pixels a model can see, else the largest there is."""
    usable = sorted((size for size in sizes if _read_text(size, "file_id")), key=_count_pixels)
    if not usable:
        return None
    best = next((size for size in usable if _count_pixels(size) >= _MAX_AREA), usable[-1])
    file_size = _read_number(best, "file_size")
    return MediaItem("picture", "photo", _read_text(best, "file_id"), "", "image/jpeg", file_size)


def _count_pixels(size: dict[str, Any]) -> int:
    return _read_number(size, "width") * _read_number(size, "height")


def _parse_document(raw: object) -> MediaItem | None:
    if not isinstance(raw, dict) or not _read_text(raw, "file_id"):
        return None
    media_type = _read_media_type(raw)
    name = clean_name(_read_text(raw, "file_name"))
    fields = (_read_text(raw, "file_id"), name, media_type, _read_number(raw, "file_size"))
    if media_type in _IMAGE_TYPES:
        return MediaItem("picture", "picture", *fields)
    if media_type.startswith("audio/"):
        return MediaItem("sound", "file", *fields)
    return MediaItem("file", "file", *fields)


def _parse_video(noun: str, raw: object) -> MediaItem | None:
    recording = _parse_recording(noun, raw, _MP4)
    if recording is None or not isinstance(raw, dict):
        return None
    thumbnail = raw.get("thumbnail")
    return replace(
        recording,
        kind="video",
        file_id=_read_text(thumbnail, "file_id"),
        size_bytes=_read_number(thumbnail, "file_size") if isinstance(thumbnail, dict) else 0,
    )


def _parse_recording(noun: str, raw: object, default_type: str) -> MediaItem | None:
    if not isinstance(raw, dict) or not _read_text(raw, "file_id"):
        return None
    return MediaItem(
        "sound",
        noun,
        _read_text(raw, "file_id"),
        clean_name(_read_text(raw, "file_name")),
        _read_media_type(raw) or default_type,
        _read_number(raw, "file_size"),
        _read_number(raw, "duration"),
    )


def clean_name(name: str) -> str:
    """Shorten a file's name to one short line of visible letters."""
    visible = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in name)
    line = " ".join(visible.split())
    if len(line) <= MAX_NAME_CHARS:
        return line
    start = line[: MAX_NAME_CHARS - _NAME_END_CHARS - 1].rstrip()
    end = line[-_NAME_END_CHARS:].lstrip()
    return f"{start}…{end}"


def _read_media_type(raw: object) -> str:
    """Return the media type if it is valid: the sender's program names it, and a request header takes it."""
    media_type = _read_text(raw, "mime_type").lower()
    if not _MEDIA_TYPE.fullmatch(media_type):
        return ""
    return media_type


def _read_text(raw: object, key: str) -> str:
    match raw:
        case dict() if isinstance(raw.get(key), str):
            return str(raw[key])
    return ""


def _read_number(raw: dict[str, Any], key: str) -> int:
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return 0
