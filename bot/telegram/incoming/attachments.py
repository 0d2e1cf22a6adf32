"""What comes with a message beside its words: a picture, a file or sound, as Telegram names it. Pure.

Reads raw messages, leniently: what is missing, or not as it should be, is left out.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal

from bot.attachments.images import AREA

LONGEST_NAME = 40  # characters of a file's name; its end tells more than its middle
_ENDING = 12

_PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
_SOUNDS = {"voice": "voice message", "video_note": "video message", "audio": "file"}
_OGG = "audio/ogg"
_MP4 = "video/mp4"
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Something that Telegram keeps as `file_id`. `word` is what people call it, `name` what the file is
    called.

    `size` in bytes and `seconds` are 0 where Telegram does not tell; `own`: a person speaks for themselves.
    """

    kind: Literal["picture", "file", "sound"]
    word: str
    file_id: str
    name: str = ""
    media_type: str = ""
    size: int = 0
    seconds: int = 0
    own: bool = False

    @property
    def label(self) -> str:
        """What it is, with its name if it has one."""
        return f"{self.word} {self.name}".rstrip()


def enclosed(message: dict[str, Any]) -> Enclosure | None:
    """What came with a message, if it is of a kind that may be of use; a message never has more than one."""
    photo = message.get("photo")
    if isinstance(photo, list):
        return _photo([size for size in photo if isinstance(size, dict)])
    if "animation" in message and _type(message["animation"]) not in _PICTURES:
        return None
    for key, word in _SOUNDS.items():
        if key in message:
            return _sound(key, word, message[key])
    return _document(message.get("document"))


def _photo(sizes: list[dict[str, Any]]) -> Enclosure | None:
    """The smallest size that has all the points the model can see, else the largest there is."""
    sizes = sorted((size for size in sizes if _text(size, "file_id")), key=_points)
    best = next((size for size in sizes if _points(size) >= AREA), sizes[-1] if sizes else None)
    if best is None:
        return None
    return Enclosure("picture", "photo", _text(best, "file_id"), "", "image/jpeg", _number(best, "file_size"))


def _points(size: dict[str, Any]) -> int:
    return _number(size, "width") * _number(size, "height")


def _document(raw: object) -> Enclosure | None:
    if not isinstance(raw, dict) or not _text(raw, "file_id"):
        return None
    media_type = _type(raw)
    name = clean_name(_text(raw, "file_name"))
    told = (_text(raw, "file_id"), name, media_type, _number(raw, "file_size"))
    if media_type in _PICTURES:
        return Enclosure("picture", "picture", *told)
    return Enclosure("sound" if media_type.startswith("audio/") else "file", "file", *told)


def _sound(key: str, word: str, raw: object) -> Enclosure | None:
    if not isinstance(raw, dict) or not _text(raw, "file_id"):
        return None
    return Enclosure(
        "sound",
        word,
        _text(raw, "file_id"),
        clean_name(_text(raw, "file_name")),
        _type(raw) or (_MP4 if key == "video_note" else _OGG),
        _number(raw, "file_size"),
        _number(raw, "duration"),
        own=key != "audio",
    )


def clean_name(name: str) -> str:
    """A file's name in one short line of visible letters."""
    visible = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in name)
    whole = " ".join(visible.split())
    if len(whole) <= LONGEST_NAME:
        return whole
    return f"{whole[: LONGEST_NAME - _ENDING - 1].rstrip()}…{whole[-_ENDING:].lstrip()}"


def _type(raw: object) -> str:
    """The media type, if it is one: the sender's program names it, and it goes into the head of a request."""
    named = _text(raw, "mime_type").lower()
    if _MEDIA_TYPE.fullmatch(named):
        return named
    return ""


def _text(raw: object, key: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if isinstance(value, str):
        return value
    return ""


def _number(raw: dict[str, Any], key: str) -> int:
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return 0
