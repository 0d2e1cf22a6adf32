"""Adapts what telegramify-markdown returns to what Telegram takes, and finds lost words. Pure.

That check relies on neither the guards nor the library.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, chain, pairwise
from typing import Any

from bot.telegram.formatting.links import is_web_url
from bot.telegram.formatting.markdown_events import MarkdownEvent, is_line_break
from bot.telegram.formatting.splitter import Piece, slice_piece

Entity = dict[str, Any]

_UTF16 = "utf-16-le"
_LINE_END = "\n".encode(_UTF16)
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}")
_PLACEHOLDER_URL = "https://no.link"
# Underline comes from headings only, which are bold already; a model never means spoilers and custom emoji.
_ALLOWED_TYPES = ("bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote")

_WORD = re.compile(r"[^\W_]+")
_LIST_NUMBER = re.compile(r"\d{1,9}[.)]")
_WORDLESS_EVENTS = ("InlineMath", "DisplayMath", "TaskListMarker")


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


def has_lost_words(source: str, events: tuple[MarkdownEvent, ...], rendered: str) -> bool:
    """Whether a word of the source that is neither syntax nor formula is missing in what is shown.

    Syntax: link addresses and titles, the words behind a fence that holds code, list numbers. Formulas are
    translated, so their words change.
    """
    position = 0
    for word in _find_expected_words(source, events):
        start = rendered.find(word, position)
        if start < 0:
            return True
        position = start + len(word)
    return False


def _find_expected_words(source: str, events: tuple[MarkdownEvent, ...]) -> Iterator[str]:
    raw = source.encode()
    position = 0
    for start, end, value in (*_find_meaningful_ranges(events), (len(raw), len(raw), "")):
        if start > position:
            # What the parser skipped must be punctuation or the number of a list item.
            yield from _WORD.findall(_LIST_NUMBER.sub("", raw[position:start].decode(errors="ignore")))
        yield from _WORD.findall(value)
        position = max(position, end)


def _find_meaningful_ranges(events: tuple[MarkdownEvent, ...]) -> Iterator[tuple[int, int, str]]:
    """Yield the ranges to which the parser gave a meaning, in order, with the text that must be shown."""
    fence_start: int | None = None
    for event in events:
        if event.name in ("Text", "Code"):
            if fence_start is None:
                yield event.start, event.end, event.value
            elif event.value.strip():
                yield fence_start, event.end, event.value
                fence_start = None
        elif event.kind == "CodeBlock":
            fence_start = event.start if event.name == "Start" else None
        elif event.name in _WORDLESS_EVENTS or event.is_end_of("Link", "Image") or is_line_break(event):
            yield event.start, event.end, ""
