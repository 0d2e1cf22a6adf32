"""Adapts the entities of telegramify-markdown to what Telegram takes and what reads well. Pure."""

import re
from typing import Any

from bot.telegram.formatting.links import is_web_url
from bot.telegram.formatting.splitter import Piece, slice_piece

Entity = dict[str, Any]

_UTF16 = "utf-16-le"
_LINE_END = "\n".encode(_UTF16)
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}")
_PLACEHOLDER_URL = "https://no.link"
# Underline comes from headings only, which are bold already; a model never means spoilers and custom emoji.
_ALLOWED_TYPES = ("bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote")


def adapt_entities(text: str, entities: list[Entity]) -> Piece:
    """Keep the entities that Telegram takes; put code on lines of its own, below the title of its fence."""
    allowed = [
        entity
        for entity in entities
        if entity["type"] in _ALLOWED_TYPES and is_web_url(entity.get("url", _PLACEHOLDER_URL))
    ]
    units = text.encode(_UTF16)
    codes = [entity for entity in allowed if entity["type"] == "pre"]
    for code in sorted(codes, key=lambda entity: -int(entity["offset"])):
        start = code["offset"]
        end = start + code["length"]
        if units[end * 2 : end * 2 + 2] not in (b"", _LINE_END):
            units = _insert_text(units, allowed, end, "\n")
        is_inside_line = start > 0 and units[start * 2 - 2 : start * 2] != _LINE_END
        units = _insert_text(units, allowed, start, "\n" * is_inside_line + _pop_title(code))
    adapted = units.decode(_UTF16)
    return slice_piece(Piece(adapted, tuple(allowed)), 0, len(adapted.rstrip()))


def _pop_title(code: Entity) -> str:
    """Return what follows a fence and is not its language, as a line: a file name, or misplaced code."""
    info = code.pop("language", "").split()
    if info and _LANGUAGE.fullmatch(info[0]):
        code["language"] = info.pop(0)
    if not info:
        return ""
    return " ".join(info) + "\n"


def _insert_text(units: bytes, entities: list[Entity], offset: int, text: str) -> bytes:
    """Insert text before the unit at `offset`; entities behind it move, entities around it grow."""
    added = text.encode(_UTF16)
    for entity in entities:
        if entity["offset"] >= offset:
            entity["offset"] += len(added) // 2
        elif entity["offset"] + entity["length"] > offset:
            entity["length"] += len(added) // 2
    return units[: offset * 2] + added + units[offset * 2 :]
