"""Cutting formatted text into messages that Telegram takes: pieces with entities, measured in UTF-16 units.

Pure; knows lengths, borders and entities, nothing of Markdown.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

MOST_ENTITIES = 100
"""Telegram silently ignores every entity of a message after its hundredth."""

CARRIERS = ("text_link", "pre")
"""Entities that hold something the text does not: never dropped, the text is cut instead."""

_IMPORTANCE = ("text_link", "pre", "blockquote", "code", "bold", "italic", "strikethrough")
_BORDERS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?…]\s+|[。！？]"), re.compile(r"\s"))
_NEVER_SEEN = "\u2800\u3164\u115f\u1160\uffa0\ufffc\u034f"
_JOINER = "\u200d"


@dataclass(frozen=True, slots=True)
class Piece:
    """Text and its entities in the Bot API's JSON shape: type, offset and length in UTF-16 units, url,
    language.
    """

    text: str
    entities: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """What should stay together: its content, what parts it from the block before, whether it is code or a
    table.
    """

    content: Piece
    gap: str = "\n\n"
    solid: bool = False


def utf16_len(text: str) -> int:
    """Length as Telegram counts it: UTF-16 code units."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def visible(text: str) -> bool:
    """Whether a person would see anything; Telegram refuses a message without."""
    return any(char not in _NEVER_SEEN and unicodedata.category(char)[0] in "LMNPS" for char in text)


def pack(blocks: Iterable[Block], limit: int, first_limit: int | None = None) -> tuple[Piece, ...]:
    """Fill pieces of at most `limit` UTF-16 units (the first: `first_limit`) with blocks, cutting only the
    too long.

    A closed piece depends on the text up to its end alone, so text added later leaves it as it was.
    """
    pieces: list[Piece] = []
    current = Piece("")
    for block in blocks:
        room = limit if pieces or first_limit is None else first_limit
        whole = joined(current, block)
        if _fits(whole, room):
            current = whole
            continue
        # a long block may begin in the rest of a piece, code and tables only when next to nothing stands
        # there
        if utf16_len(current.text) > room // (8 if block.solid else 2):
            pieces.append(current)
            whole = block.content
            room = limit
        while not _fits(whole, room):
            head, whole = _cut(whole, room)
            pieces.append(head)
            room = limit
        current = whole
    trimmed = (_trimmed(piece) for piece in (*pieces, current))
    return tuple(_capped(piece) for piece in trimmed if visible(piece.text))


def part(piece: Piece, start: int, end: int) -> Piece:
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


def joined(current: Piece, block: Block) -> Piece:
    """The block's content after the piece; its gap only where there is something to stand apart from."""
    if not current.text:
        return block.content
    text = current.text + block.gap
    shift = utf16_len(text)
    moved = ({**entity, "offset": entity["offset"] + shift} for entity in block.content.entities)
    return Piece(text + block.content.text, (*current.entities, *moved))


def _fits(piece: Piece, room: int) -> bool:
    carriers = sum(entity["type"] in CARRIERS for entity in piece.entities)
    return utf16_len(piece.text) <= room and carriers <= MOST_ENTITIES


def _cut(piece: Piece, room: int) -> tuple[Piece, Piece]:
    """The longest good beginning of at most `room` units and 100 carriers, and the rest; both hold some text."""
    carriers = sorted(entity["offset"] for entity in piece.entities if entity["type"] in CARRIERS)
    if len(carriers) > MOST_ENTITIES:
        room = min(room, carriers[MOST_ENTITIES])
    at = _border(piece.text, _index(piece.text, room))
    return part(piece, 0, at), part(piece, at, len(piece.text))


def _index(text: str, units: int) -> int:
    """How many characters fit into so many UTF-16 units; at least one."""
    head = text[:units].encode("utf-16-le")[: units * 2]
    return max(1, len(head.decode("utf-16-le", "ignore")))


def _border(text: str, most: int) -> int:
    """Where to cut, at most at `most`: after a paragraph, line, sentence or word, if it can be in the second
    half.
    """
    for least, border in product((most // 2, 1), _BORDERS):
        ends = [found.end() for found in border.finditer(text, least, most)]
        if ends:
            return ends[-1]
    for at in range(most, max(0, most - 64), -1):
        if not _belongs(text, at):
            return at
    return most


def _belongs(text: str, at: int) -> bool:
    """Whether the character is drawn together with the one before: marks, joined emoji, skin tones, flags,
    Hangul.
    """
    before = text[at - 1]
    char = text[at]
    if _JOINER in (before, char) or unicodedata.category(char) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f":
        return True
    if _is_flag_letter(char):
        return _flag_letters_before(text, at) % 2 == 1
    return "\u1160" <= char <= "\u11ff" and "\u1100" <= before <= "\u11ff"


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _is_flag_letter(text[start - 1]):
        start -= 1
    return at - start


def _trimmed(piece: Piece) -> Piece:
    """Without what Telegram trims: white space at the end, and at the start unless it is code."""
    end = len(piece.text.rstrip())
    start = len(piece.text) - len(piece.text.lstrip())
    code = (entity["offset"] for entity in piece.entities if entity["type"] == "pre")
    start = min(start, min(code, default=start))
    return part(piece, start, max(start, end))


def _capped(piece: Piece) -> Piece:
    """At most 100 entities: the important kinds first, then the earlier ones, in order of place."""
    kept = sorted(piece.entities, key=lambda entity: (_rank(entity["type"]), entity["offset"]))[
        :MOST_ENTITIES
    ]
    return Piece(piece.text, tuple(sorted(kept, key=lambda entity: (entity["offset"], -entity["length"]))))


def _rank(kind: str) -> int:
    if kind in _IMPORTANCE:
        return _IMPORTANCE.index(kind)
    return len(_IMPORTANCE)
