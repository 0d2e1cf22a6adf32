"""Values that a tool returns: `Found`, `Picture`, `File`, and what any other value becomes.

Who writes a tool imports them from `tools.base`.
"""

import json
import re
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date
from enum import Enum

_PICTURES = {
    "image/png": re.compile(rb"\x89PNG\r\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: the bytes of a file whose stated media type is `media_type`, such as `image/png`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class File:
    """A file for the person, sent after the answer; the model reads only its name and size.

    `name` is shown without folders. How the file is sent follows from its bytes; `media_type`, such as
    `image/png`, only completes a name that has no ending.
    """

    name: str
    data: bytes
    caption: str = ""
    media_type: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise TypeError(f"the data of the file {self.name!r:.60} are not bytes")


@dataclass(frozen=True, slots=True)
class Found:
    """A result with pictures, which a model that can see is shown after the text, and files to send.

    `has_undelivered`: a service returned pictures or files, and no admin lets its tool deliver them.
    """

    text: str
    images: tuple[Picture, ...] = ()
    files: tuple[File, ...] = ()
    has_undelivered: bool = False


def find_picture_type(data: bytes) -> str | None:
    """The media type of the picture that these bytes begin as; None: of none that a model is shown."""
    return next((media_type for media_type, beginning in _PICTURES.items() if beginning.match(data)), None)


def to_found(result: object) -> Found:
    """The result that a tool's value stands for: text, pictures, files, or compact JSON."""
    if isinstance(result, Found):
        return result
    parts = result if isinstance(result, list | tuple) else [result]
    if parts and all(isinstance(part, Picture | File) for part in parts):
        pictures = tuple(part for part in parts if isinstance(part, Picture))
        return Found("", pictures, tuple(part for part in parts if isinstance(part, File)))
    if isinstance(result, str):
        return Found(result)
    if result is None:
        return Found("Done.")
    if isinstance(result, bytes | bytearray):
        return _bytes_to_found(bytes(result))
    return Found(json.dumps(result, ensure_ascii=False, separators=(",", ":"), default=_to_json_value))


def _bytes_to_found(data: bytes) -> Found:
    """Bytes as the picture or the text that they are."""
    media_type = find_picture_type(data)
    if media_type is not None:
        return Found("", (Picture(media_type, data),))
    try:
        return Found(data.decode())
    except UnicodeDecodeError:
        return Found(f"[{len(data)} bytes that are neither text nor a picture]")


def _to_json_value(value: object) -> object:
    """Convert a value that JSON has no type for.

    Dataclasses become objects, dates ISO 8601, enums their value, bytes and everything else its text.
    """
    if isinstance(value, bytes | bytearray):
        return _bytes_to_found(bytes(value)).text
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    return str(value)
