"""Keeps Telegram from making links by itself: of all addresses in a text only known ones can be tapped. Pure.

Telegram makes a link of each address that it finds outside code and links, of `README.md` as well.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from bot.telegram.formatting.links import is_web_url
from bot.telegram.formatting.splitter import MAX_ENTITIES, Piece

_ADDRESS = re.compile(
    r"[a-zA-Z][a-zA-Z0-9]{0,20}://[^\s<>]+"
    r"|(?<![\w/~.-])[\w~-]+(?:\.[\w~-]+)+(?::[0-9]+)?(?:[/?#][^\s<>]*)?"
)
_HOST_END = re.compile(r"\.(?:[^\W\d_]{2,}|xn--[\w-]+)$|^[0-9]+(?:\.[0-9]+){3}$")
_ENDINGS = ".,;:!?)]}'\"*_~|\\’”"  # what may follow an address in a text
_LOOKALIKES = str.maketrans({".": "\u2024", ":": "\u2236"})
_OPAQUE_TYPES = ("code", "pre", "text_link")
_UTF16 = "utf-16-le"

Span = tuple[int, int]


def find_addresses(text: str) -> Iterator[Span]:
    """Find what Telegram could make a link of, e-mail addresses apart."""
    for match in _ADDRESS.finditer(text):
        start = match.start()
        shown = match[0].rstrip(_ENDINGS)
        if "://" in shown or _is_linked_name(shown, text[start - 1 : start]):
            yield start, start + len(shown)


def _is_linked_name(shown: str, char_before: str) -> bool:
    """Whether Telegram could link an address without `https://`; it does not link `end.Next`."""
    host = re.split("[:/?#]", shown, maxsplit=1)[0]
    if char_before == "@" and host == shown:
        return False
    ending = host.rpartition(".")[2]
    is_capitalised = ending[:1].isupper() and not ending.isupper()
    return _HOST_END.search(host) is not None and not is_capitalised


def complete_address(address: str) -> str:
    """The address with its scheme."""
    return address if "://" in address else f"https://{address}"


def keep_known_links(piece: Piece, known: Collection[str]) -> Piece:
    """The piece with links to known addresses only; others are code, or only look like addresses."""
    kept = [entity for entity in piece.entities if "url" not in entity or entity["url"] in known]
    spans = list(find_addresses(_hide_opaque(piece.text, kept)))
    if not spans:
        return Piece(piece.text, tuple(kept))
    units = _split_units(piece.text)
    marks = [_build_mark(start, units[start:end], known) for start, end in spans]
    cut = [part for entity in kept for part in _cut_entity(entity, spans)]
    if len(cut) + len(marks) > MAX_ENTITIES:
        return Piece(_disguise(units, spans), tuple(kept))
    return Piece(piece.text, tuple(sorted([*cut, *marks], key=_get_reading_order)))


def _get_reading_order(entity: dict[str, Any]) -> tuple[int, int]:
    return entity["offset"], -entity["length"]


def _split_units(text: str) -> str:
    """The text with one character for each UTF-16 unit, as entities count."""
    return "".join(map(chr, memoryview(text.encode(_UTF16)).cast("H")))


def _hide_opaque(text: str, entities: Iterable[dict[str, Any]]) -> str:
    """The units of a text with spaces for code and links, in which Telegram finds no addresses."""
    units = bytearray(text.encode(_UTF16))
    for entity in entities:
        if entity["type"] in _OPAQUE_TYPES:
            start, length = entity["offset"], entity["length"]
            units[start * 2 : (start + length) * 2] = " ".encode(_UTF16) * length
    return _split_units(units.decode(_UTF16))


def _build_mark(start: int, address: str, known: Collection[str]) -> dict[str, Any]:
    """The entity of an address: a link that ends where the address does, or code."""
    url = complete_address(address)
    if url in known and is_web_url(url):
        return {"type": "text_link", "offset": start, "length": len(address), "url": url}
    return {"type": "code", "offset": start, "length": len(address)}


def _cut_entity(entity: dict[str, Any], spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    """The parts of an entity outside the spans: no code may stand within bold, but it may within a quote."""
    start = entity["offset"]
    end = start + entity["length"]
    inner = [span for span in spans if span[0] < end and span[1] > start]
    if entity["type"] == "blockquote" or not inner:
        yield entity
        return
    borders = [start, *(border for span in inner for border in span), end]
    for first, last in zip(borders[::2], borders[1::2], strict=True):
        if first < last:
            yield {**entity, "offset": first, "length": last - first}


def _disguise(units: str, spans: Iterable[Span]) -> str:
    """The text with signs in its addresses that look alike: for more addresses than a message can mark."""
    chars = list(units)
    for start, end in spans:
        chars[start:end] = units[start:end].translate(_LOOKALIKES)
    return "".join(chars).encode(_UTF16, "surrogatepass").decode(_UTF16)
