"""Files for the person: how each is sent within Telegram's bounds, its name, and which go together. Pure."""

import re
import unicodedata
from collections.abc import Sequence

from bot.attachments.picture_size import read_picture_size
from bot.domain import FileKind, FilePart, OutgoingFile, Part, PartKind
from bot.translations.formats import format_size
from bot.translations.translator import Translator

MAX_FILE_BYTES = 50 << 20  # of an upload by a bot
MAX_ALBUM_FILES = 10
MAX_CAPTION_UNITS = 1024  # UTF-16 units
MAX_NAME_CHARS = 60
_MAX_PHOTO_BYTES = 10 << 20
_MAX_PHOTO_SIDES = 10_000  # width and height together
_MAX_PHOTO_RATIO = 20
_MAX_CAPTION_CHARS = 2000  # one message at most, whatever the characters
_MAX_READ_NAME = 1000  # characters of a name that are looked at
_MAX_SUFFIX_CHARS = 12
_SEPARATORS = re.compile(r"[/\\]")
_FORBIDDEN = re.compile(r'[:*?"<>|]')
_SUFFIXES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/svg+xml": "svg",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "application/json": "json",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}


def prepare_file(name: str, data: bytes, caption: str = "", media_type: str = "") -> OutgoingFile:
    """A file as it is stored: with a name that can be shown, and how it is sent.

    The bytes of one that is too large for Telegram are left out.
    """
    kind = _judge_kind(data)
    return OutgoingFile(
        name=clean_file_name(name, media_type),
        kind=kind,
        size=len(data),
        caption=caption.strip()[:_MAX_CAPTION_CHARS],
        data=None if kind == "too_large" else data,
    )


def _judge_kind(data: bytes) -> FileKind:
    """How Telegram takes a file; what it is said to be does not count."""
    if len(data) > MAX_FILE_BYTES:
        return "too_large"
    if len(data) > _MAX_PHOTO_BYTES:
        return "document"
    size = read_picture_size(data)
    if size is None or sum(size) > _MAX_PHOTO_SIDES or max(size) > _MAX_PHOTO_RATIO * min(size):
        return "document"
    return "photo"


def clean_file_name(name: str, media_type: str = "") -> str:
    """The name without folders, and without characters that cannot be seen or that systems forbid."""
    name = _SEPARATORS.split(name[-_MAX_READ_NAME:])[-1]
    visible = "".join(char for char in name if unicodedata.category(char)[0] != "C")
    name = " ".join(_FORBIDDEN.sub("_", visible).split()).strip(". ") or "file"
    stem, dot, suffix = name.rpartition(".")
    if not dot or len(suffix) >= _MAX_SUFFIX_CHARS:
        stem = name
        suffix = _SUFFIXES.get(media_type, "")
    if not suffix:
        return stem[:MAX_NAME_CHARS]
    return f"{stem[: MAX_NAME_CHARS - len(suffix) - 1]}.{suffix}"


def plan_file_parts(files: Sequence[OutgoingFile], translate: Translator) -> list[FilePart]:
    """The messages that bring these files: photos first, then documents, then what cannot be sent."""
    parts: list[FilePart] = []
    for kind in ("photo", "document"):
        for album in _divide([file for file in files if file.kind == kind]):
            parts += _build_album(album)
    for file in files:
        if file.kind == "too_large":
            line = translate(
                "I couldn't send {name}: it's {size}, and Telegram takes files up to {limit}.",
                name=file.name,
                size=format_size(translate, file.size),
                limit=format_size(translate, MAX_FILE_BYTES),
            )
            parts.append((Part(line, silent=True), ()))
    return parts


def _divide(files: Sequence[OutgoingFile]) -> list[tuple[OutgoingFile, ...]]:
    """Albums of files of one kind; one upload has no more bytes than the largest file may have."""
    albums: list[tuple[OutgoingFile, ...]] = []
    album: tuple[OutgoingFile, ...] = ()
    for file in files:
        size = sum(other.size for other in album) + file.size
        if album and (len(album) == MAX_ALBUM_FILES or size > MAX_FILE_BYTES):
            albums.append(album)
            album = ()
        album = (*album, file)
    if album:
        albums.append(album)
    return albums


def _build_album(album: tuple[OutgoingFile, ...]) -> list[FilePart]:
    """The message of these files; a caption that is too long for it goes before as a message."""
    caption = "\n".join(file.caption for file in album if file.caption)[:_MAX_CAPTION_CHARS]
    kind: PartKind = "album"
    if len(album) == 1:
        kind = "photo" if album[0].kind == "photo" else "document"
    if len(caption.encode("utf-16-le")) // 2 <= MAX_CAPTION_UNITS:
        return [(Part(caption, silent=True, kind=kind), album)]
    return [(Part(caption, silent=True), ()), (Part("", silent=True, kind=kind), album)]
