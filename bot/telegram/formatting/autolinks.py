"""Keeps Telegram from making links by itself of addresses that nobody wrote and no tool returned. Pure.

Telegram makes a link of each address that it finds outside code and links, also of `README.md`, whose ending
is one of the web: what a page told the model to write, such as `4711.evil.xyz`, is one tap from its owner.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from bot.telegram.formatting.links import is_web_url
from bot.telegram.formatting.splitter import MAX_ENTITIES, Piece

_ADDRESS = re.compile(
    r"[a-zA-Z][a-zA-Z0-9]{0,20}://[^\s<>]+"
    r"|(?<![\w/~.\u200c\u200d-])[\w~\u200c\u200d-]+(?:\.[\w~\u200c\u200d-]+)+(?![\w@~-]|://)"
    r"(?::[0-9]+[\w.~-]*)?(?:[/?#][^\s<>]*)?"
)
_ADDRESS_SIGN = re.compile(r"://|\.[\w~\u200c\u200d-]")  # which each address has
_WEB = re.compile(r"https?://|www\.", re.IGNORECASE)
_MAIL_HOST = re.compile(r"(?:[a-zA-Z0-9][a-zA-Z0-9-]*\.)+[a-zA-Z]{2,}")  # others are links of the web
_IP_ADDRESS = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}")
_SUBNET = re.compile(r"/[0-9]{1,2}")
_FURTHER_ENDINGS = ("onion", "ton")  # which Telegram takes for endings of the web, too
_CLOSERS = ".,;:!?)]}'\"*_~|\\’”…"  # what may follow an address in a text
_OPENERS = {")": "(", "]": "[", "}": "{"}
MAX_USER_CHARS = 200  # that stand before an address
_OPAQUE_TYPES = ("code", "pre", "text_link")
_UTF16 = "utf-16-le"

Span = tuple[int, int]


def may_have_addresses(text: str) -> bool:
    """Whether `find_addresses` may find any: false only where there is none."""
    return _ADDRESS_SIGN.search(text) is not None


def find_addresses(text: str) -> Iterator[Span]:
    """Find the addresses in a text: with a scheme or `www.`, or with an ending of the web.

    Without a port, a path or a password, what follows an `@` is the host of an e-mail address.
    """
    for match in _ADDRESS.finditer(text):
        shown = _cut_closers(match[0])
        before = text[max(0, match.start() - MAX_USER_CHARS) : match.start()]
        if "://" in shown or _is_address(shown, before):
            yield match.start(), match.start() + len(shown)


def _cut_closers(run: str) -> str:
    """The run without what follows the address; a bracket that is opened in the address belongs to it."""
    surplus = {closer: run.count(closer) - run.count(opener) for closer, opener in _OPENERS.items()}
    end = len(run)
    while end and run[end - 1] in _CLOSERS:
        closer = run[end - 1]
        if closer in surplus:
            if surplus[closer] <= 0:
                break
            surplus[closer] -= 1
        end -= 1
    return run[:end]


def _is_address(name: str, before: str) -> bool:
    """Whether a name without a scheme is an address; `before` stands before it."""
    host, port_or_path = re.fullmatch(r"([^:/?#]*)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    is_mail_host = before.endswith("@") and ":" not in before.split()[-1] and _MAIL_HOST.fullmatch(host)
    if is_mail_host and not port_or_path:
        return False
    if _IP_ADDRESS.fullmatch(host) and _SUBNET.fullmatch(port_or_path):
        return False
    return host.lower().startswith("www.") or _is_real_host(host)


def _is_real_host(host: str) -> bool:
    """Whether a host has a top-level domain that exists, or is an IP address."""
    from tld import is_tld  # late: few answers need the list, and it takes a start 10 ms

    ending = host.rpartition(".")[2].lower()
    return _IP_ADDRESS.fullmatch(host) is not None or ending in _FURTHER_ENDINGS or is_tld(ending)


def complete_address(address: str) -> str:
    """The address with its scheme."""
    return address if "://" in address else f"https://{address}"


def is_link(address: str) -> bool:
    """Whether an address is written as one of the web, with a scheme or `www.`, and Telegram takes it."""
    return _WEB.match(address) is not None and is_web_url(complete_address(address))


def keep_known_links(piece: Piece, known: Collection[str]) -> Piece:
    """The piece with links to known addresses only, as they are written there; others become code."""
    if not any("url" in entity for entity in piece.entities) and not may_have_addresses(piece.text):
        return piece
    urls = {complete_address(address) for address in known}
    kept = [entity for entity in piece.entities if "url" not in entity or entity["url"] in urls]
    units = _split_units(piece.text)
    found = list(find_addresses(_hide_opaque(piece.text, kept)))
    left = {units[start:end] for start, end in found if not is_link(units[start:end])}.intersection(known)
    spans = [(start, end) for start, end in found if units[start:end] not in left]
    marks = [_build_mark(start, units[start:end], known) for start, end in spans]
    parts = [part for entity in kept for part in _cut_entity(entity, spans)]
    entities = sorted([*marks, *parts], key=lambda entity: entity["type"] not in _OPAQUE_TYPES)[:MAX_ENTITIES]
    opaque_count = sum(entity["type"] in _OPAQUE_TYPES for entity in (*marks, *parts))
    if opaque_count > MAX_ENTITIES:
        return Piece(piece.text, (_build_mark(0, units, ()),))
    return Piece(piece.text, tuple(sorted(entities, key=_get_reading_order)))


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
    place = {"offset": start, "length": len(address)}
    if address in known:
        return {"type": "text_link", **place, "url": complete_address(address)}
    return {"type": "code", **place}


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
