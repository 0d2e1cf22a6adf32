"""Adapts the entities of telegramify-markdown to what Telegram takes and what reads well. Pure."""

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate, chain, pairwise
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
    insertions = _build_insertions(units, allowed)
    adapted = _insert_texts(units, allowed, insertions) if insertions else text
    return slice_piece(Piece(adapted, tuple(allowed)), 0, len(adapted.rstrip()))


def _build_insertions(units: bytes, entities: list[Entity]) -> dict[int, str]:
    """Build what code needs before and after it, by its place in UTF-16 units."""
    insertions: dict[int, str] = {}
    codes = [entity for entity in entities if entity["type"] == "pre"]
    for code in sorted(codes, key=lambda entity: -int(entity["offset"])):
        start = code["offset"]
        end = start + code["length"]
        next_unit = insertions.get(end, "").encode(_UTF16)[:2] or units[end * 2 : end * 2 + 2]
        if next_unit not in (b"", _LINE_END):
            insertions[end] = "\n" + insertions.get(end, "")
        is_inside_line = start > 0 and units[start * 2 - 2 : start * 2] != _LINE_END
        insertions[start] = "\n" * is_inside_line + _pop_title(code) + insertions.get(start, "")
    return insertions


def _pop_title(code: Entity) -> str:
    """Return what follows a fence and is not its language, as a line: a file name, or misplaced code."""
    info = code.pop("language", "").split()
    if info and _LANGUAGE.fullmatch(info[0]):
        code["language"] = info.pop(0)
    if not info:
        return ""
    return " ".join(info) + "\n"


def _insert_texts(units: bytes, entities: list[Entity], insertions: dict[int, str]) -> str:
    """Insert texts before units; entities behind them move, entities around them grow."""
    places = sorted(insertions)
    added = [insertions[place].encode(_UTF16) for place in places]
    shifts = (0, *accumulate(len(text) // 2 for text in added))
    for entity in entities:
        start = entity["offset"]
        end = start + entity["length"]
        entity["offset"] = start + shifts[bisect_right(places, start)]
        entity["length"] = end + shifts[bisect_left(places, end)] - entity["offset"]
    borders = (0, *places, len(units) // 2)
    between = (units[first * 2 : last * 2] for first, last in pairwise(borders))
    return b"".join(chain.from_iterable(zip(between, (*added, b""), strict=True))).decode(_UTF16)
