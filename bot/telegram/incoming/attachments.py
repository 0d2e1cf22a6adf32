"""What comes with a message beside its words: a picture, a file or sound, as Telegram names it. Pure.

Reads raw messages, leniently: what is missing, or not as it should be, is left out.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal

from bot.attachments.images import MAX_AREA

MAX_NAME_CHARS = 40  # characters of a file's name; its end tells more than its middle
_NAME_END_CHARS = 12

_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
_SOUND_NOUNS = {"voice": "voice message", "video_note": "video message", "audio": "file"}
_OGG = "audio/ogg"
_MP4 = "video/mp4"
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class MediaItem:
    """Something that Telegram keeps as `file_id`. `word` is what people call it, `name` what the file is
    called.

    `size` in bytes and `seconds` are 0 where Telegram does not tell; `own`: a person speaks for themselves.
    """

    kind: Literal["picture", "file", "sound"]
    noun: str
    file_id: str
    name: str = ""
    media_type: str = ""
    size_bytes: int = 0
    duration_seconds: int = 0
    is_own_voice: bool = False

    @property
    def label(self) -> str:
        """What it is, with its name if it has one."""
        return f"{self.noun} {self.name}".rstrip()


def extract_media(message: dict[str, Any]) -> MediaItem | None:
    """What came with a message, if it is of a kind that may be of use; a message never has more than one."""
    photo = message.get("photo")
    if isinstance(photo, list):
        return _parse_photo([size for size in photo if isinstance(size, dict)])
    if "animation" in message and _read_media_type(message["animation"]) not in _IMAGE_TYPES:
        return None
    for key, word in _SOUND_NOUNS.items():
        if key in message:
            return _parse_sound(key, word, message[key])
    return _parse_document(message.get("document"))


def _parse_photo(sizes: list[dict[str, Any]]) -> MediaItem | None:
    """The smallest size that has all the points the model can see, else the largest there is."""
    sizes = sorted((size for size in sizes if _read_text(size, "file_id")), key=_count_pixels)
    best = next((size for size in sizes if _count_pixels(size) >= MAX_AREA), sizes[-1] if sizes else None)
    if best is None:
        return None
    return MediaItem(
        "picture", "photo", _read_text(best, "file_id"), "", "image/jpeg", _read_number(best, "file_size")
    )


def _count_pixels(size: dict[str, Any]) -> int:
    return _read_number(size, "width") * _read_number(size, "height")


def _parse_document(raw: object) -> MediaItem | None:
    if not isinstance(raw, dict) or not _read_text(raw, "file_id"):
        return None
    media_type = _read_media_type(raw)
    name = clean_name(_read_text(raw, "file_name"))
    told = (_read_text(raw, "file_id"), name, media_type, _read_number(raw, "file_size"))
    if media_type in _IMAGE_TYPES:
        return MediaItem("picture", "picture", *told)
    return MediaItem("sound" if media_type.startswith("audio/") else "file", "file", *told)


def _parse_sound(key: str, noun: str, raw: object) -> MediaItem | None:
    if not isinstance(raw, dict) or not _read_text(raw, "file_id"):
        return None
    return MediaItem(
        "sound",
        noun,
        _read_text(raw, "file_id"),
        clean_name(_read_text(raw, "file_name")),
        _read_media_type(raw) or (_MP4 if key == "video_note" else _OGG),
        _read_number(raw, "file_size"),
        _read_number(raw, "duration"),
        is_own_voice=key != "audio",
    )


def clean_name(name: str) -> str:
    """A file's name in one short line of visible letters."""
    visible = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in name)
    whole = " ".join(visible.split())
    if len(whole) <= MAX_NAME_CHARS:
        return whole
    return f"{whole[: MAX_NAME_CHARS - _NAME_END_CHARS - 1].rstrip()}…{whole[-_NAME_END_CHARS:].lstrip()}"


def _read_media_type(raw: object) -> str:
    """The media type, if it is one: the sender's program names it, and it goes into the head of a request."""
    named = _read_text(raw, "mime_type").lower()
    if _MEDIA_TYPE.fullmatch(named):
        return named
    return ""


def _read_text(raw: object, key: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if isinstance(value, str):
        return value
    return ""


def _read_number(raw: dict[str, Any], key: str) -> int:
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return 0
