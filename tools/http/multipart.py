"""Writes a form of parts (multipart/form-data): fields, and files of text. Pure."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from tools.http.styles import HttpParameter, encode_query, to_compact_json, to_text

# As browsers write names in a header; anything else of a name stays as it is.
_NAME_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
_EXTENSIONS = {"application/json": "json", "text/csv": "csv", "text/html": "html", "text/markdown": "md"}


def encode_multipart(
    content: Mapping[str, Any], files: Mapping[str, str], forms: Mapping[str, HttpParameter]
) -> tuple[str, bytes]:
    """The media type with its boundary, and the body, of these parts.

    `files` are the media types of the parts that are files, `forms` how a list is written where not as one
    part an item. The same content has the same bytes, so that a repeated call is the same call.
    """
    parts = [part for name, value in content.items() for part in _encode_field(name, value, files, forms)]
    boundary = hashlib.sha256(b"".join(parts)).hexdigest()[:40]
    lines = b"".join(b"--" + boundary.encode() + b"\r\n" + part + b"\r\n" for part in parts)
    return f"multipart/form-data; boundary={boundary}", lines + b"--" + boundary.encode() + b"--\r\n"


def _encode_field(
    name: str, value: Any, files: Mapping[str, str], forms: Mapping[str, HttpParameter]
) -> Iterator[bytes]:
    if value is None:
        return
    if name in files:
        yield _encode_part(name, to_text(value), files[name], is_file=True)
    elif isinstance(value, list) and (name not in forms or forms[name].explode):
        for item in value:
            yield from _encode_field(name, item, files, {})
    elif isinstance(value, list):
        [joined] = encode_query(forms[name], [to_text(item) for item in value]) or [""]
        yield _encode_part(name, joined.partition("=")[2], "")
    elif isinstance(value, Mapping):
        yield _encode_part(name, to_compact_json(value), "application/json")
    else:
        yield _encode_part(name, to_text(value), "")


def _encode_part(name: str, text: str, media_type: str, *, is_file: bool = False) -> bytes:
    escaped = name.translate(_NAME_ESCAPES)
    head = f'Content-Disposition: form-data; name="{escaped}"'
    if is_file:
        head += f'; filename="{escaped}.{_EXTENSIONS.get(media_type, "txt")}"'
    if media_type:
        head += f"\r\nContent-Type: {media_type}"
        if is_file or media_type.startswith("text/"):
            head += "; charset=utf-8"
    return f"{head}\r\n\r\n{text}".encode("utf-8", "replace")
