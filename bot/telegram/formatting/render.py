"""The model's Markdown to pieces that Telegram takes: text with entities, split at block borders, nothing cut
off.

Pure; calls the guards, telegramify-markdown and the splitter, and shows plain text where formatting would
lose a word.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from telegramify_markdown import RenderConfig, convert

from bot.telegram.formatting.entities import adapted
from bot.telegram.formatting.loss_check import lost
from bot.telegram.formatting.markdown_events import Event, blocks, parse
from bot.telegram.formatting.markdown_guards import Unguarded, guarded, with_dollars
from bot.telegram.formatting.partial import snapshot
from bot.telegram.formatting.splitter import Block, Piece, joined, pack, utf16_len
from bot.telegram.formatting.tables import is_table, laid_out

log = logging.getLogger(__name__)

__all__ = ["Piece", "plain", "render", "snapshot", "utf16_len"]

LIMIT = 3800
"""UTF-16 units a piece: room below Telegram's 4096 for a line of our own."""

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


class Lossy(Exception):
    """Formatting this block would hide a word of it."""


def render(markdown: str, *, limit: int = LIMIT, first_limit: int | None = None) -> tuple[Piece, ...]:
    """Formatted pieces of at most `limit` UTF-16 units, the first of at most `first_limit`, and 100 entities
    each.

    No piece is empty: text in which nothing is visible gives no pieces at all.
    """
    return pack(_glued(_rendered(with_dollars(_clean(markdown)))), limit, first_limit)


def plain(markdown: str, *, limit: int = LIMIT, first_limit: int | None = None) -> tuple[Piece, ...]:
    """The text as it is written, split only: what to send when Telegram refuses the formatted pieces."""
    return pack([Block(Piece(_clean(markdown)))], limit, first_limit)


def _clean(markdown: str) -> str:
    """Without what Telegram refuses or swallows: halves of surrogate pairs, foreign line ends, control
    characters.
    """
    whole = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub(" ", _LINE_END.sub("\n", whole))


def _rendered(source: str) -> Iterator[tuple[Block, bool]]:
    """Each block, and whether it leads to the next one."""
    config = _config()
    gap = ""
    for text, events in _parsed(source):
        content = _content(text, events, config)
        if content.text:
            yield Block(content, gap, _is_solid(events)), _is_lead(events, content)
            gap = "\n\n" if text.endswith("\n\n") else "\n"


def _parsed(source: str) -> Iterator[tuple[str, tuple[Event, ...]]]:
    """The blocks; HTML becomes the blocks it is once its tags are text."""
    for text in blocks(source):
        events = parse(text)
        if not events or not events[0].opens("HtmlBlock"):
            yield text, events
            continue
        with suppress(Unguarded):
            text = guarded(text, events)[0]
        yield from ((block, parse(block)) for block in blocks(text))


def _is_solid(events: tuple[Event, ...]) -> bool:
    return any(event.opens("CodeBlock", "Table") for event in events[:1])


def _is_lead(events: tuple[Event, ...], content: Piece) -> bool:
    """A heading, or a line that ends in a colon: alone at the end of a message it would look cut off."""
    return any(event.opens("Heading") for event in events[:1]) or (
        content.text.endswith(":") and len(content.text) < 300
    )


def _glued(rendered: Iterable[tuple[Block, bool]]) -> Iterator[Block]:
    lead: Block | None = None
    for block, leads in rendered:
        if lead is None:
            whole = block
        else:
            whole = Block(joined(lead.content, block), lead.gap, block.solid)
        lead = whole if leads else None
        if not leads:
            yield whole
    if lead is not None:
        yield lead


def _content(source: str, events: tuple[Event, ...], config: RenderConfig) -> Piece:
    try:
        if is_table(events):
            return _table(source, events)
        return _formatted(source, events, config)
    except Exception as error:  # noqa: BLE001 the library may stumble over anything; the text itself can always be shown
        log.info("a block is shown as written: %s", type(error).__name__, extra={"action": "markup.plain"})
        return Piece(source.strip("\n"))


def _table(source: str, events: tuple[Event, ...]) -> Piece:
    cells, piece = laid_out(source)
    if lost(source, events, cells):
        raise Lossy
    return piece


def _formatted(source: str, events: tuple[Event, ...], config: RenderConfig) -> Piece:
    safe, read = guarded(source, events)
    text, found = convert(safe, latex_escape=False, config=config)
    piece = adapted(text, [entity.to_dict() for entity in found])
    if lost(safe, read, piece.text):
        raise Lossy
    return piece


def _config() -> RenderConfig:
    config = RenderConfig.isolated()
    config.cite_expandable = False
    for name, symbol in _SYMBOLS.items():
        setattr(config.markdown_symbol, name, symbol)
    return config
