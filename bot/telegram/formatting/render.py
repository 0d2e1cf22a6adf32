"""Renders the model's Markdown as pieces that Telegram takes: text with entities, split at block borders.

Pure; calls the guards, telegramify-markdown and the splitter, and falls back to plain text where formatting
would lose a word. Nothing is cut off.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from telegramify_markdown import RenderConfig, convert

from bot.domain import Part
from bot.telegram.formatting.library_output import adapt_entities, has_lost_words
from bot.telegram.formatting.markdown_events import (
    MAX_EVENTS,
    MarkdownEvent,
    MarkdownTooDense,
    parse_markdown,
    split_blocks,
)
from bot.telegram.formatting.markdown_guards import GuardPassesExceeded, convert_latex, guard_markdown
from bot.telegram.formatting.partial import cut_unfinished
from bot.telegram.formatting.splitter import MarkdownBlock, Piece, append_block, pack_blocks, utf16_len
from bot.telegram.formatting.tables import is_table, lay_out_table

log = logging.getLogger(__name__)

__all__ = [
    "Piece",
    "build_plain_parts",
    "clean_text",
    "cut_unfinished",
    "render_markdown",
    "split_plain",
    "utf16_len",
]

MAX_PIECE_UNITS = 3800
"""UTF-16 units a piece; below Telegram's 4096, so that a line of our own still fits."""

_MAX_LEAD_CHARS = 300
_LINE_END = re.compile("\r\n|[\r\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_SYMBOLS = {
    "heading_level_1": "",
    "heading_level_2": "",
    "heading_level_3": "",
    "heading_level_4": "",
    "image": "",
    "task_completed": "☑",
    "task_uncompleted": "☐",
    "horizontal_rule": "———",
    "unordered_list_item": "•",
}


class WordsLost(Exception):
    """Formatting this block would hide a word of it."""


@dataclass(frozen=True, slots=True)
class RenderedBlock:
    """A block as it is shown.

    `is_solid`: it is code or a table.
    `is_lead`: it belongs to the block after it.
    `gap_after`: what separates it from the block after it.
    `event_count`: what it takes of MAX_EVENTS.
    `flaw`: the error for which it is shown as written; None: it is formatted.
    """

    content: Piece
    is_solid: bool
    is_lead: bool
    gap_after: str
    event_count: int
    flaw: str | None


BlockCache = dict[str, tuple[RenderedBlock, ...]]
"""The blocks of a text by their Markdown; while the text grows, those it still has are not rendered again."""


def render_markdown(
    markdown: str,
    *,
    limit: int = MAX_PIECE_UNITS,
    cache: BlockCache | None = None,
) -> tuple[Piece, ...]:
    """Render pieces of at most `limit` UTF-16 units and 100 entities each.

    No piece is empty: text in which nothing is visible gives no pieces at all. `cache` is read and updated.
    """
    cache = {} if cache is None else cache
    rendered_blocks = _render_blocks(convert_latex(clean_text(markdown)), cache)
    return pack_blocks(_join_leads(_separate_blocks(rendered_blocks)), limit)


def split_plain(markdown: str, *, limit: int = MAX_PIECE_UNITS) -> tuple[Piece, ...]:
    """Split the text as it is written: what to send when Telegram refuses the formatted pieces."""
    return pack_blocks([MarkdownBlock(Piece(clean_text(markdown)))], limit)


def build_plain_parts(text: str) -> list[Part]:
    """Messages of a text as it is written, of which only the first makes a sound."""
    return [Part(piece.text, silent=number > 0) for number, piece in enumerate(split_plain(text))]


def clean_text(markdown: str) -> str:
    """Replace what Telegram refuses or drops: half surrogate pairs, other line ends, control characters."""
    valid = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub(" ", _LINE_END.sub("\n", valid))


def _render_blocks(source: str, cache: BlockCache) -> Iterator[RenderedBlock]:
    """Yield each block, what follows MAX_EVENTS as written; at the end the cache holds these blocks."""
    config = _build_config()
    rendered: BlockCache = {}
    flaws: Counter[str] = Counter()
    events_left = MAX_EVENTS
    for text in split_blocks(source):
        if events_left <= 0:
            blocks: tuple[RenderedBlock, ...] = (_render_block(text, None, config),)
        elif text in rendered:
            blocks = rendered[text]
        else:
            blocks = cache.get(text) or tuple(
                _render_block(block, events, config) for block, events in _parse_block(text)
            )
            rendered[text] = blocks
        yield from blocks
        if text not in cache:
            flaws.update(block.flaw for block in blocks if block.flaw)
        events_left -= sum(block.event_count for block in blocks)
    cache.clear()
    cache.update(rendered)
    _log_flaws(flaws)


def _log_flaws(flaws: Mapping[str, int]) -> None:
    """Log how many blocks are shown as written, in one line: a text can have thousands of them."""
    for flaw, count in flaws.items():
        log.info("blocks are shown as written: %s", flaw, extra={"action": "markup.plain", "blocks": count})


def _parse_block(text: str) -> list[tuple[str, tuple[MarkdownEvent, ...] | None]]:
    """Return the block with its events, None if too dense; HTML is split again once its tags are text."""
    try:
        events = parse_markdown(text)
        if not events or not events[0].is_start_of("HtmlBlock"):
            return [(text, events)]
        guarded = guard_markdown(text, events)[0]
        return [(block, parse_markdown(block)) for block in split_blocks(guarded)]
    except (MarkdownTooDense, GuardPassesExceeded):
        return [(text, None)]


def _render_block(
    source: str, events: tuple[MarkdownEvent, ...] | None, config: RenderConfig
) -> RenderedBlock:
    """Render a block, which depends on nothing around it."""
    flaw: str | None = None
    try:
        content = _render_content(source, events, config)
    except Exception as error:  # noqa: BLE001 the library may fail on anything; plain text always works
        content = Piece(source.strip("\n"))
        flaw = type(error).__name__
    events = events or ()
    gap_after = "\n\n" if source.endswith("\n\n") else "\n"
    return RenderedBlock(
        content, _is_solid(events), _is_lead(events, content), gap_after, len(events) + 1, flaw
    )


def _separate_blocks(blocks: Iterable[RenderedBlock]) -> Iterator[tuple[MarkdownBlock, bool]]:
    """Yield each block in which there is anything, and whether it is a lead that belongs to the next one."""
    gap = ""
    for block in blocks:
        if block.content.text:
            yield MarkdownBlock(block.content, gap, block.is_solid), block.is_lead
            gap = block.gap_after


def _is_solid(events: tuple[MarkdownEvent, ...]) -> bool:
    return any(event.is_start_of("CodeBlock", "Table") for event in events[:1])


def _is_lead(events: tuple[MarkdownEvent, ...], content: Piece) -> bool:
    """Whether it is a heading, or a line with a colon at its end: last in a message it would look cut off."""
    if any(event.is_start_of("Heading") for event in events[:1]):
        return True
    return content.text.endswith(":") and len(content.text) < _MAX_LEAD_CHARS


def _join_leads(rendered_blocks: Iterable[tuple[MarkdownBlock, bool]]) -> Iterator[MarkdownBlock]:
    """Join each lead with the block after it; many short ones in a row announce nothing."""
    lead: MarkdownBlock | None = None
    for block, is_lead in rendered_blocks:
        if lead is not None:
            block = MarkdownBlock(append_block(lead.content, block), lead.gap, block.is_solid)
            lead = None
        if is_lead and len(block.content.text) < _MAX_LEAD_CHARS:
            lead = block
        else:
            yield block
    if lead is not None:
        yield lead


def _render_content(source: str, events: tuple[MarkdownEvent, ...] | None, config: RenderConfig) -> Piece:
    """Render a block; raises MarkdownTooDense without events, and whatever the library fails on."""
    if events is None:
        raise MarkdownTooDense
    if is_table(events):
        return _render_table(source, events)
    return _render_formatted(source, events, config)


def _render_table(source: str, events: tuple[MarkdownEvent, ...]) -> Piece:
    cells, piece = lay_out_table(source)
    if has_lost_words(source, events, cells):
        raise WordsLost
    return piece


def _render_formatted(source: str, events: tuple[MarkdownEvent, ...], config: RenderConfig) -> Piece:
    guarded, guarded_events = guard_markdown(source, events)
    text, entities = convert(guarded, latex_escape=False, config=config)
    piece = adapt_entities(text, [entity.to_dict() for entity in entities])
    if has_lost_words(guarded, guarded_events, piece.text):
        raise WordsLost
    return piece


def _build_config() -> RenderConfig:
    config = RenderConfig.isolated()
    config.cite_expandable = False
    for name, symbol in _SYMBOLS.items():
        setattr(config.markdown_symbol, name, symbol)
    return config
