"""Decides which links of an answer are shown, and lists the sources below it. Pure.

An address that no tool returned and no person wrote is to be read, not to be tapped; `[n]` leads to the
source that the model read under this number.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from bot.agent.notices import close_code_block
from bot.domain import AnswerLinks
from bot.telegram.formatting.autolinks import complete_address, find_addresses
from bot.telegram.formatting.links import escape_markdown, is_useful_url, is_web_url
from bot.telegram.formatting.markdown_events import (
    Edit,
    MarkdownEvent,
    MarkdownTooDense,
    apply_edits,
    find_gaps,
    find_verbatim_ranges,
    parse_markdown,
)

MAX_SOURCES = 5
MAX_CHECKED_ADDRESSES = 40  # of one answer; more are shown as text

_CITATION = re.compile(r"\[(\d{1,2})\](?!:)")


@dataclass(frozen=True, slots=True)
class MarkedAnswer:
    """An answer as Markdown, and the addresses that it may link to."""

    markdown: str
    addresses: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Mention:
    """An address in the answer, at these bytes: a link with its label, a bare one, or a number."""

    start: int
    end: int
    address: str
    label: str = ""
    number: int | None = None


def mark_sources(markdown: str, links: AnswerLinks, heading: str) -> MarkedAnswer:
    """The answer with its numbers as links, and below it the sources, if there are any."""
    try:
        events = parse_markdown(markdown)
    except MarkdownTooDense:
        return MarkedAnswer(markdown)
    mentions = _drop_inner([*_list_links(events), *_list_bare(markdown, events, links)])
    checked = list(dict.fromkeys(mention.address for mention in mentions))[:MAX_CHECKED_ADDRESSES]
    known = [address for address in checked if links.is_known(address)]
    sources = _choose_sources(known, links)
    edits = [edit for mention in mentions if (edit := _build_edit(mention, known, sources)) is not None]
    marked = apply_edits(markdown, edits)
    addresses = frozenset(map(complete_address, (*known, *sources)))
    if not sources:
        return MarkedAnswer(marked, addresses)
    numbers = " · ".join(f"[{number}](<{address}>)" for number, address in enumerate(sources, 1))
    return MarkedAnswer(f"{close_code_block(marked)}\n\n{heading} {numbers}", addresses)


def _drop_inner(mentions: Sequence[_Mention]) -> list[_Mention]:
    """The mentions in their order, without those that begin inside another."""
    kept: list[_Mention] = []
    for mention in sorted(mentions, key=lambda mention: mention.start):
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


def _choose_sources(named: Sequence[str], links: AnswerLinks) -> list[str]:
    """What the answer names of what tools of this turn returned, then what they opened."""
    returned = [address for address in named if links.is_returned(address)]
    sources = dict.fromkeys(map(complete_address, (*returned, *links.opened)))
    return [address for address in sources if is_web_url(address)][:MAX_SOURCES]


def _list_links(events: Sequence[MarkdownEvent]) -> Iterator[_Mention]:
    """The outermost links and images, with their labels."""
    opened: list[MarkdownEvent] = []
    label = ""
    for event in events:
        if event.is_start_of("Link", "Image"):
            label = label if opened else ""
            opened.append(event)
        elif event.is_end_of("Link", "Image"):
            link = opened.pop()
            address = link.value["dest_url"]
            if not opened and is_web_url(address):
                yield _Mention(link.start, link.end, address, label.strip() or address)
        elif opened and event.name in ("Text", "Code"):
            label += event.value


def _list_bare(markdown: str, events: Sequence[MarkdownEvent], links: AnswerLinks) -> Iterator[_Mention]:
    """Bare addresses, and the numbers of hits, outside links and what is shown as it is written."""
    raw = markdown.encode()
    linked = [(event.start, event.end) for event in events if event.is_start_of("Link", "Image")]
    for start, end in find_gaps(len(raw), sorted((*linked, *find_verbatim_ranges(events)))):
        text = raw[start:end].decode()
        for first, last in find_addresses(text):
            place = start + len(text[:first].encode())
            shown = text[first:last]
            yield _Mention(place, place + len(shown.encode()), shown.replace("\\", ""))
        for match in _CITATION.finditer(text):
            number = int(match[1])
            place = start + len(text[: match.start()].encode())
            if number in links.cited:
                yield _Mention(place, place + len(match[0]), links.cited[number], number=number)


def _build_edit(mention: _Mention, known: Collection[str], sources: Sequence[str]) -> Edit | None:
    """What the mention becomes; None: it stays as it is."""
    if mention.number is not None:
        if mention.address not in sources:
            return None
        shown = sources.index(mention.address) + 1
        return Edit(mention.start, mention.end, f"[\\[{shown}\\]](<{mention.address}>)")
    is_shown = mention.label in ("", mention.address) or not is_useful_url(mention.address)
    if mention.address in known or is_shown:
        return None
    return Edit(mention.end, mention.end, escape_markdown(f" ({mention.address})"))
