"""The library's entities adapted to what Telegram takes and what reads well.

Pure; a border between telegramify-markdown's output and our pieces.
"""

import re
from typing import Any

from bot.telegram.formatting.links import is_web_url
from bot.telegram.formatting.splitter import Piece, slice_piece

Entity = dict[str, Any]

# underline comes from headings only, which are bold already; spoilers and custom emoji are never meant by a
# model
_UTF16 = "utf-16-le"
_LINE_END = "\n".encode(_UTF16)
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}")
_PLACEHOLDER_URL = "https://no.link"
_ALLOWED_TYPES = ("bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote")


def adapt_entities(text: str, entities: list[Entity]) -> Piece:
    """The text with the entities Telegram takes; code stands on lines of its own, below the words behind its
    fence.
    """
    kept = [
        entity
        for entity in entities
        if entity["type"] in _ALLOWED_TYPES and is_web_url(entity.get("url", _PLACEHOLDER_URL))
    ]
    units = text.encode(_UTF16)
    codes = [entity for entity in kept if entity["type"] == "pre"]
    for code in sorted(codes, key=lambda entity: -int(entity["offset"])):
        start = code["offset"]
        end = code["offset"] + code["length"]
        if units[end * 2 : end * 2 + 2] not in (b"", _LINE_END):
            units = _insert_text(units, kept, end, "\n")
        begun = start > 0 and units[start * 2 - 2 : start * 2] != _LINE_END
        units = _insert_text(units, kept, start, "\n" * begun + _pop_title(code))
    whole = units.decode(_UTF16)
    return slice_piece(Piece(whole, tuple(kept)), 0, len(whole.rstrip()))


def _pop_title(code: Entity) -> str:
    """What stands behind a fence and is not its language, as a line: a file name, or code that slipped up
    there.
    """
    words = code.pop("language", "").split()
    if words and _LANGUAGE.fullmatch(words[0]):
        code["language"] = words.pop(0)
    if words:
        return " ".join(words) + "\n"
    return ""


def _insert_text(units: bytes, entities: list[Entity], offset: int, text: str) -> bytes:
    """Put text before the unit `at`; entities behind it move, entities around it grow."""
    added = text.encode(_UTF16)
    for entity in entities:
        if entity["offset"] >= offset:
            entity["offset"] += len(added) // 2
        elif entity["offset"] + entity["length"] > offset:
            entity["length"] += len(added) // 2
    return units[: offset * 2] + added + units[offset * 2 :]
