"""Splits formatted text into messages that Telegram takes: pieces with entities, measured in UTF-16 units.

Pure; knows lengths, borders and entities, nothing of Markdown.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

MAX_ENTITIES = 100
"""Telegram silently ignores every entity of a message after its hundredth."""

CARRIER_TYPES = ("text_link", "pre")
"""Entities that hold something the text does not: never dropped, the text is split instead."""

_IMPORTANCE = ("text_link", "pre", "blockquote", "code", "bold", "italic", "strikethrough")
_BREAK_PATTERNS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?…]\s+|[。！？]"),
    re.compile(r"\s"),
)
_INVISIBLE_CHARS = "\u2800\u3164\u115f\u1160\uffa0\ufffc\u034f"
_JOINER = "\u200d"
_MAX_CLUSTER_CHARS = 64  # longer sequences of joined characters are split anyway


@dataclass(frozen=True, slots=True)
class Piece:
    """Text and its entities in the Bot API's JSON: type, offset and length in UTF-16 units, url, language."""

    text: str
    entities: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """What should stay together.

    `gap`: what separates it from the block before.
    `is_solid`: it is code or a table.
    """

    content: Piece
    gap: str = "\n\n"
    is_solid: bool = False


class _PieceBuilder:
    """Collects blocks; appending one takes time for that block only, not for all before it."""

    def __init__(self) -> None:
        self.units = 0
        self._carriers = 0
        self._texts: list[str] = []
        self._entities: list[dict[str, Any]] = []

    def append_if_fits(self, block: MarkdownBlock, max_units: int) -> bool:
        """Append the block unless the piece becomes too long; its gap only if the piece has any text."""
        gap = block.gap if self.units else ""
        offset = self.units + utf16_len(gap)
        units = offset + utf16_len(block.content.text)
        carriers = self._carriers + _count_carriers(block.content)
        if units > max_units or carriers > MAX_ENTITIES:
            return False
        self._texts += (gap, block.content.text)
        self._entities += _move_entities(block.content, offset)
        self.units = units
        self._carriers = carriers
        return True

    def build(self) -> Piece:
        return Piece("".join(self._texts), tuple(self._entities))


def utf16_len(text: str) -> int:
    """Return the length as Telegram counts it: UTF-16 code units."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_visible(text: str) -> bool:
    """Whether a person would see anything; Telegram refuses a message without."""
    return any(char not in _INVISIBLE_CHARS and unicodedata.category(char)[0] in "LMNPS" for char in text)


def pack_blocks(blocks: Iterable[MarkdownBlock], max_units: int) -> tuple[Piece, ...]:
    """Fill pieces of at most so many UTF-16 units; only too long blocks are split.

    A finished piece depends only on the text up to its end, so text added later does not change it.
    """
    pieces: list[Piece] = []
    current = _PieceBuilder()
    for block in blocks:
        if current.append_if_fits(block, max_units):
            continue
        # A long block may begin in the rest of a piece; code and tables only if the piece is nearly empty.
        if current.units > max_units // (8 if block.is_solid else 2):
            pieces.append(current.build())
            rest = block.content
        else:
            rest = append_block(current.build(), block)
        while not _fits(rest, max_units):
            head, rest = _split_piece(rest, max_units)
            pieces.append(head)
        current = _PieceBuilder()
        current.append_if_fits(MarkdownBlock(rest), max_units)
    trimmed = (_trim(piece) for piece in (*pieces, current.build()))
    return tuple(_cap_entities(piece) for piece in trimmed if is_visible(piece.text))


def slice_piece(piece: Piece, start: int, end: int) -> Piece:
    """Return the characters `start` to `end` of a piece, with the entities clipped to them."""
    first_unit = utf16_len(piece.text[:start])
    end_unit = first_unit + utf16_len(piece.text[start:end])
    entities: list[dict[str, Any]] = []
    for entity in piece.entities:
        entity_start = max(entity["offset"], first_unit)
        entity_end = min(entity["offset"] + entity["length"], end_unit)
        if entity_start < entity_end:
            offset = entity_start - first_unit
            entities.append({**entity, "offset": offset, "length": entity_end - entity_start})
    return Piece(piece.text[start:end], tuple(entities))


def append_block(current: Piece, block: MarkdownBlock) -> Piece:
    """Append the block's content to the piece; its gap only if the piece has any text."""
    if not current.text:
        return block.content
    text = current.text + block.gap
    moved = _move_entities(block.content, utf16_len(text))
    return Piece(text + block.content.text, (*current.entities, *moved))


def _move_entities(piece: Piece, offset: int) -> Iterator[dict[str, Any]]:
    return ({**entity, "offset": entity["offset"] + offset} for entity in piece.entities)


def _fits(piece: Piece, max_units: int) -> bool:
    return utf16_len(piece.text) <= max_units and _count_carriers(piece) <= MAX_ENTITIES


def _count_carriers(piece: Piece) -> int:
    return sum(entity["type"] in CARRIER_TYPES for entity in piece.entities)


def _split_piece(piece: Piece, max_units: int) -> tuple[Piece, Piece]:
    """Split off the longest good beginning of at most `max_units` and 100 carriers; both halves have text."""
    carriers = sorted(entity["offset"] for entity in piece.entities if entity["type"] in CARRIER_TYPES)
    if len(carriers) > MAX_ENTITIES:
        max_units = min(max_units, carriers[MAX_ENTITIES])
    border = _find_border(piece.text, _count_chars_within(piece.text, max_units))
    return slice_piece(piece, 0, border), slice_piece(piece, border, len(piece.text))


def _count_chars_within(text: str, units: int) -> int:
    """Return how many characters fit into so many UTF-16 units; at least one."""
    head = text[:units].encode("utf-16-le")[: units * 2]
    return max(1, len(head.decode("utf-16-le", "ignore")))


def _find_border(text: str, max_chars: int) -> int:
    """Return where to cut, at most at `max_chars`: after a paragraph, line, sentence or word.

    If possible in the second half, else anywhere; never inside what is drawn as one character.
    """
    for min_chars, pattern in product((max_chars // 2, 1), _BREAK_PATTERNS):
        borders = [match.end() for match in pattern.finditer(text, min_chars, max_chars)]
        if borders:
            return borders[-1]
    for border in range(max_chars, max(0, max_chars - _MAX_CLUSTER_CHARS), -1):
        if not _is_joined_to_previous(text, border):
            return border
    return max_chars


def _is_joined_to_previous(text: str, index: int) -> bool:
    """Whether the character is drawn with the one before: marks, joined emoji, skin tones, flags, Hangul."""
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
    """Remove what Telegram trims: white space at the end, and at the start unless it is code."""
    end = len(piece.text.rstrip())
    start = len(piece.text) - len(piece.text.lstrip())
    code_offsets = (entity["offset"] for entity in piece.entities if entity["type"] == "pre")
    start = min(start, min(code_offsets, default=start))
    return slice_piece(piece, start, max(start, end))


def _cap_entities(piece: Piece) -> Piece:
    """Keep at most 100 entities, the important types first, then the earlier ones; in order of place."""
    by_rank = sorted(piece.entities, key=lambda entity: (_rank_entity(entity["type"]), entity["offset"]))
    in_order = sorted(by_rank[:MAX_ENTITIES], key=lambda entity: (entity["offset"], -entity["length"]))
    return Piece(piece.text, tuple(in_order))


def _rank_entity(kind: str) -> int:
    if kind in _IMPORTANCE:
        return _IMPORTANCE.index(kind)
    return len(_IMPORTANCE)
