"""Decides which links of an answer are shown, and lists the sources below it. Pure.

An address that no tool returned and no person wrote is to be read, not to be tapped; `[n]` leads to the
source that the model read under this number, and is left out where there is none. Sources keep the numbers
under which the model read them: what a person says of one means the same to both.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from operator import itemgetter
from urllib.parse import urlsplit

from bot.domain import AnswerLinks
from bot.telegram.formatting.autolinks import (
    complete_address,
    find_addresses,
    is_link,
    keep_known_links,
    may_have_addresses,
)
from bot.telegram.formatting.links import escape_markdown, is_useful_url, is_web_url, list_labels
from bot.telegram.formatting.markdown_events import (
    Edit,
    MarkdownEvent,
    MarkdownTooDense,
    apply_edits,
    find_gaps,
    find_verbatim_ranges,
    parse_markdown,
)
from bot.telegram.formatting.splitter import MAX_ENTITIES, MarkdownBlock, Piece, append_block, utf16_len

MAX_SOURCES = 5
MAX_CHECKED_ADDRESSES = 40  # of one answer; more are text
MAX_MESSAGE_UNITS = 4096
MAX_HOST_CHARS = 40  # five of them fit below any piece

_NUMBERS = rb"\[[1-9]\d?(?:, ?[1-9]\d?){0,9}\]"
_CITATION = re.compile(rb"( ?)((?:%b){1,20})(?![\w([])" % _NUMBERS)
_SPELLING = re.compile(r"^https?://|(?<!\w)www\.|:(?:443|80)(?=/|$)", re.IGNORECASE)
_NUMBER = re.compile(r"\[?\d{1,2}\]?")
_REFERENCES = ("Reference", "Collapsed", "Shortcut")
_DEFINITION = re.compile(rb"^ {0,3}\[(\d{1,9})\]:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """A page that an answer rests on, and its number in the answer."""

    number: int
    address: str


@dataclass(frozen=True, slots=True)
class MarkedAnswer:
    """An answer as Markdown, the addresses that it may link to, as they are written, and its sources."""

    markdown: str
    addresses: frozenset[str] = frozenset()
    sources: tuple[AnswerSource, ...] = ()


@dataclass(frozen=True, slots=True)
class _Mention:
    """An address in the answer, at these bytes: a link with its label, or a bare one."""

    start: int
    end: int
    address: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class _Citation:
    """Numbers at these bytes, and the addresses of the hits that have them; `gap` stands before them."""

    start: int
    end: int
    addresses: tuple[str, ...]
    gap: str


def mark_sources(markdown: str, links: AnswerLinks) -> MarkedAnswer:
    """The answer with its numbers as links, and its sources in the order in which it names them."""
    if not (links.opened or may_have_links(markdown)):
        return MarkedAnswer(markdown)
    try:
        events = _drop_numbered_links(parse_markdown(markdown), links.cited or {})
    except MarkdownTooDense:
        return MarkedAnswer(markdown)
    tables = [(event.start, event.end) for event in events if event.is_start_of("Table")]
    found = _drop_inner([*_list_links(events), *_list_bare(markdown, events, links.cited)])
    mentioned = [mention.address for mention in found if isinstance(mention, _Mention)]
    known = links.find_known(list(dict.fromkeys(mentioned))[:MAX_CHECKED_ADDRESSES])
    sources = _choose_sources(found, known, links)
    sources_by_page = {_get_page(source.address): source for source in sources}
    edits = [
        _build_edit(mention, known, sources_by_page, has_links=not _is_inside(mention.start, tables))
        for mention in found
    ]
    marked = apply_edits(markdown, [edit for edit in edits if edit is not None])
    return MarkedAnswer(marked, frozenset((*known, *(source.address for source in sources))), tuple(sources))


def may_have_links(markdown: str) -> bool:
    """Whether a text may have links, addresses or numbers of hits: false only where it has none.

    Most answers have none, and need not be parsed to find them.
    """
    return "[" in markdown or "<" in markdown or may_have_addresses(markdown)


def append_sources(
    pieces: Sequence[Piece], sources: Sequence[AnswerSource], heading: str
) -> tuple[Piece, ...]:
    """The pieces of an answer with its sources below the last, or after it where it can have no more links.

    Every piece is short enough for a line more.
    """
    if not pieces or not sources:
        return tuple(pieces)
    return _append_line(pieces, _build_source_line(sources, heading))


def append_files(pieces: Sequence[Piece], names: Sequence[str], heading: str) -> tuple[Piece, ...]:
    """The pieces of an answer with the pages of files that were looked up for it, as plain text."""
    if not pieces or not names:
        return tuple(pieces)
    line = f"{heading} {' · '.join(names[:MAX_SOURCES])}"
    return _append_line(pieces, keep_known_links(Piece(line), ()))


def _append_line(pieces: Sequence[Piece], line: Piece) -> tuple[Piece, ...]:
    joined = append_block(pieces[-1], MarkdownBlock(line))
    if len(joined.entities) > MAX_ENTITIES or utf16_len(joined.text) > MAX_MESSAGE_UNITS:
        return (*pieces, line)
    return (*pieces[:-1], joined)


def _build_source_line(sources: Sequence[AnswerSource], heading: str) -> Piece:
    text = heading
    entities = []
    for position, source in enumerate(sources):
        text += " · " if position else " "
        host = (urlsplit(source.address).hostname or "").removeprefix("www.")
        label = f"{source.number} {host[:MAX_HOST_CHARS]}"
        place = {"offset": utf16_len(text), "length": utf16_len(label)}
        entities.append({"type": "text_link", **place, "url": source.address})
        text += label
    return Piece(text, tuple(entities))


def _drop_inner(mentions: Sequence[_Mention | _Citation]) -> list[_Mention | _Citation]:
    """The mentions in their order, without those that begin inside another."""
    kept: list[_Mention | _Citation] = []
    for mention in sorted(mentions, key=lambda mention: mention.start):
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


def _choose_sources(
    found: Sequence[_Mention | _Citation], known: Collection[str], links: AnswerLinks
) -> list[AnswerSource]:
    """What the answer names of what tools of this turn returned, then what they opened."""
    returned = links.find_returned([address for address in known if is_link(address)])
    sources: dict[str, str] = {}
    for mention in found:
        if isinstance(mention, _Citation):
            named = mention.addresses
        else:
            named = (mention.address,) if mention.address in returned else ()
        for address in named:
            sources.setdefault(_get_page(address), complete_address(address))
    for address in links.opened:
        sources.setdefault(_get_page(address), address)
    shown = {page: address for page, address in sources.items() if is_web_url(address)}
    return _number_sources(dict(islice(shown.items(), MAX_SOURCES)), links.cited or {})


def _number_sources(addresses: Mapping[str, str], cited: Mapping[int, str]) -> list[AnswerSource]:
    """The sources, by their pages: a hit has its own number, and those after all hits are for the others."""
    hit_numbers: dict[str, int] = {}
    for number in sorted(cited):
        hit_numbers.setdefault(_get_page(cited[number]), number)
    free_numbers = count(max(cited, default=0) + 1)
    return [
        AnswerSource(hit_numbers[page], cited[hit_numbers[page]])
        if page in hit_numbers
        else AnswerSource(next(free_numbers), address)
        for page, address in addresses.items()
    ]


def _get_page(address: str) -> str:
    """What two addresses of one page have in common."""
    return _SPELLING.sub("", address.partition("#")[0]).rstrip("/")


def _drop_numbered_links(
    events: Sequence[MarkdownEvent], cited: Collection[int]
) -> tuple[MarkdownEvent, ...]:
    """The events without links to `[7]: https://…` at the end of the answer, if 7 is the number of a hit."""
    kept: list[MarkdownEvent] = []
    opened: list[bool] = []
    for event in events:
        is_dropped = False
        if event.is_start_of("Link", "Image"):
            number = event.value["id"]
            is_dropped = (
                event.value["link_type"] in _REFERENCES and number.isdecimal() and int(number) in cited
            )
            opened.append(is_dropped)
        elif event.is_end_of("Link", "Image"):
            is_dropped = opened.pop()
        if not is_dropped:
            kept.append(event)
    return tuple(kept)


def _is_inside(place: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether a place lies in one of the ranges, which are in order."""
    index = bisect_right(ranges, place, key=itemgetter(0)) - 1
    return index >= 0 and place < ranges[index][1]


def _list_links(events: Sequence[MarkdownEvent]) -> Iterator[_Mention]:
    """The outermost links and images, with their labels."""
    for link, label, is_inner in list_labels(events):
        address = link.value["dest_url"]
        if not is_inner and is_web_url(address):
            yield _Mention(link.start, link.end, address, label or address)


def _list_bare(
    markdown: str, events: Sequence[MarkdownEvent], cited: Mapping[int, str] | None
) -> Iterator[_Mention | _Citation]:
    """Bare addresses, and numbers of hits, outside links and what is shown as it is written."""
    raw = markdown.encode()
    linked = [(event.start, event.end) for event in events if event.is_start_of("Link", "Image")]
    for start, end in find_gaps(len(raw), sorted((*linked, *find_verbatim_ranges(events)))):
        yield from _list_addresses(raw[start:end].decode(), start)
        if cited is not None:
            yield from _list_citations(raw, start, end, cited)


def _list_addresses(text: str, start: int) -> Iterator[_Mention]:
    """The addresses in a text that begins at this byte."""
    previous = 0
    for first, last in find_addresses(text):
        start += len(text[previous:first].encode())
        shown = text[first:last]
        end = start + len(shown.encode())
        yield _Mention(start, end, shown.replace("\\", ""))
        start, previous = end, last


def _list_citations(raw: bytes, start: int, end: int, cited: Mapping[int, str]) -> Iterator[_Citation]:
    """The citations between two bytes; of `[1, 10]` and `array[1]` it cannot be known that they are some."""
    definitions = {
        match.end() - 1 for match in _DEFINITION.finditer(raw, start, end) if int(match[1]) not in cited
    }
    for match in _CITATION.finditer(raw, start, end):
        if match.end() in definitions or (not match[1] and _is_glued(raw, match.start())):
            continue
        groups = [[int(number) for number in group.split(b",")] for group in match[2][1:-1].split(b"][")]
        if all(len(group) == 1 or all(number in cited for number in group) for group in groups):
            addresses = tuple(cited[number] for group in groups for number in group if number in cited)
            yield _Citation(match.start(), match.end(), addresses, match[1].decode())


def _is_glued(raw: bytes, place: int) -> bool:
    """Whether a name stands directly before, as in `array[1]`; Chinese has no spaces between words."""
    char = raw[max(0, place - 4) : place].decode(errors="ignore")[-1:]
    is_letter = char.isalnum() and (char.isascii() or char.lower() != char.upper())
    return is_letter or char in ("_", ")", "]", "`", "\\")


def _build_edit(
    mention: _Mention | _Citation,
    known: Collection[str],
    sources_by_page: Mapping[str, AnswerSource],
    *,
    has_links: bool,
) -> Edit | None:
    """What the mention becomes; None: it stays as it is. Without links only numbers are shown."""
    if isinstance(mention, _Citation):
        marks = _build_marks(mention.addresses, sources_by_page, has_links=has_links)
        gap = mention.gap if marks else ""
        return Edit(mention.start, mention.end, gap + marks)
    if _NUMBER.fullmatch(mention.label) and _get_page(mention.address) in sources_by_page:
        marks = _build_marks((mention.address,), sources_by_page, has_links=has_links)
        return Edit(mention.start, mention.end, marks)
    is_shown = mention.label in ("", mention.address) or not is_useful_url(mention.address)
    if mention.address in known or is_shown:
        return None
    return Edit(mention.end, mention.end, escape_markdown(f" ({mention.address})"))


def _build_marks(
    addresses: Sequence[str], sources_by_page: Mapping[str, AnswerSource], *, has_links: bool
) -> str:
    """The numbers of these addresses among the sources, each once."""
    pages = dict.fromkeys(map(_get_page, addresses))
    named = [sources_by_page[page] for page in pages if page in sources_by_page]
    if not has_links:
        return "".join(f"\\[{source.number}\\]" for source in named)
    return "".join(f"[\\[{source.number}\\]](<{source.address}>)" for source in named)
