"""Cutting formatted text into messages that Telegram takes: pieces with entities, measured in UTF-16 units.

Pure; knows lengths, borders and entities, nothing of Markdown.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

MAX_ENTITIES = 100
"""Telegram silently ignores every entity of a message after its hundredth."""

CARRIER_TYPES = ("text_link", "pre")
"""Entities that hold something the text does not: never dropped, the text is cut instead."""

_IMPORTANCE = ("text_link", "pre", "blockquote", "code", "bold", "italic", "strikethrough")
_BREAK_PATTERNS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?…]\s+|[。！？]"),
    re.compile(r"\s"),
)
_INVISIBLE_CHARS = "\u2800\u3164\u115f\u1160\uffa0\ufffc\u034f"
_JOINER = "\u200d"


@dataclass(frozen=True, slots=True)
class Piece:
    """Text and its entities in the Bot API's JSON shape: type, offset and length in UTF-16 units, url,
    language.
    """

    text: str
    entities: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """What should stay together: its content, what parts it from the block before, whether it is code or a
    table.
    """

    content: Piece
    gap: str = "\n\n"
    is_solid: bool = False


def utf16_len(text: str) -> int:
    """Length as Telegram counts it: UTF-16 code units."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_visible(text: str) -> bool:
    """Whether a person would see anything; Telegram refuses a message without."""
    return any(char not in _INVISIBLE_CHARS and unicodedata.category(char)[0] in "LMNPS" for char in text)


def pack_blocks(
    blocks: Iterable[MarkdownBlock], limit: int, first_limit: int | None = None
) -> tuple[Piece, ...]:
    """Fill pieces of at most `limit` UTF-16 units (the first: `first_limit`) with blocks, cutting only the
    too long.

    A closed piece depends on the text up to its end alone, so text added later leaves it as it was.
    """
    pieces: list[Piece] = []
    current = Piece("")
    for block in blocks:
        room = limit if pieces or first_limit is None else first_limit
        whole = append_block(current, block)
        if _fits(whole, room):
            current = whole
            continue
        # a long block may begin in the rest of a piece, code and tables only when next to nothing stands
        # there
        if utf16_len(current.text) > room // (8 if block.is_solid else 2):
            pieces.append(current)
            whole = block.content
            room = limit
        while not _fits(whole, room):
            head, whole = _split_piece(whole, room)
            pieces.append(head)
            room = limit
        current = whole
    trimmed = (_trim(piece) for piece in (*pieces, current))
    return tuple(_cap_entities(piece) for piece in trimmed if is_visible(piece.text))


def slice_piece(piece: Piece, start: int, end: int) -> Piece:
    """The piece's characters `start` to `end`, entities clipped to it."""
    first = utf16_len(piece.text[:start])
    last = first + utf16_len(piece.text[start:end])
    entities: list[dict[str, Any]] = []
    for entity in piece.entities:
        begin = max(entity["offset"], first)
        stop = min(entity["offset"] + entity["length"], last)
        if begin < stop:
            entities.append({**entity, "offset": begin - first, "length": stop - begin})
    return Piece(piece.text[start:end], tuple(entities))


def append_block(current: Piece, block: MarkdownBlock) -> Piece:
    """The block's content after the piece; its gap only where there is something to stand apart from."""
    if not current.text:
        return block.content
    text = current.text + block.gap
    shift = utf16_len(text)
    moved = ({**entity, "offset": entity["offset"] + shift} for entity in block.content.entities)
    return Piece(text + block.content.text, (*current.entities, *moved))


def _fits(piece: Piece, max_units: int) -> bool:
    carriers = sum(entity["type"] in CARRIER_TYPES for entity in piece.entities)
    return utf16_len(piece.text) <= max_units and carriers <= MAX_ENTITIES


def _split_piece(piece: Piece, max_units: int) -> tuple[Piece, Piece]:
    """The longest good beginning of at most `room` units and 100 carriers, and the rest; both hold some text."""
    carriers = sorted(entity["offset"] for entity in piece.entities if entity["type"] in CARRIER_TYPES)
    if len(carriers) > MAX_ENTITIES:
        max_units = min(max_units, carriers[MAX_ENTITIES])
    at = _find_border(piece.text, _count_chars_within(piece.text, max_units))
    return slice_piece(piece, 0, at), slice_piece(piece, at, len(piece.text))


def _count_chars_within(text: str, units: int) -> int:
    """How many characters fit into so many UTF-16 units; at least one."""
    head = text[:units].encode("utf-16-le")[: units * 2]
    return max(1, len(head.decode("utf-16-le", "ignore")))


def _find_border(text: str, max_chars: int) -> int:
    """Where to cut, at most at `most`: after a paragraph, line, sentence or word, if it can be in the second
    half.
    """
    for least, border in product((max_chars // 2, 1), _BREAK_PATTERNS):
        ends = [found.end() for found in border.finditer(text, least, max_chars)]
        if ends:
            return ends[-1]
    for at in range(max_chars, max(0, max_chars - 64), -1):
        if not _is_joined_to_previous(text, at):
            return at
    return max_chars


def _is_joined_to_previous(text: str, index: int) -> bool:
    """Whether the character is drawn together with the one before: marks, joined emoji, skin tones, flags,
    Hangul.
    """
    before = text[index - 1]
    char = text[index]
    if _JOINER in (before, char) or unicodedata.category(char) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f":
        return True
    if _is_flag_letter(char):
        return _count_flag_letters_before(text, index) % 2 == 1
    return "\u1160" <= char <= "\u11ff" and "\u1100" <= before <= "\u11ff"


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _count_flag_letters_before(text: str, index: int) -> int:
    start = index
    while start > 0 and _is_flag_letter(text[start - 1]):
        start -= 1
    return index - start


def _trim(piece: Piece) -> Piece:
    """Without what Telegram trims: white space at the end, and at the start unless it is code."""
    end = len(piece.text.rstrip())
    start = len(piece.text) - len(piece.text.lstrip())
    code = (entity["offset"] for entity in piece.entities if entity["type"] == "pre")
    start = min(start, min(code, default=start))
    return slice_piece(piece, start, max(start, end))


def _cap_entities(piece: Piece) -> Piece:
    """At most 100 entities: the important kinds first, then the earlier ones, in order of place."""
    kept = sorted(piece.entities, key=lambda entity: (_rank_entity(entity["type"]), entity["offset"]))[
        :MAX_ENTITIES
    ]
    return Piece(piece.text, tuple(sorted(kept, key=lambda entity: (entity["offset"], -entity["length"]))))


def _rank_entity(kind: str) -> int:
    if kind in _IMPORTANCE:
        return _IMPORTANCE.index(kind)
    return len(_IMPORTANCE)
