"""Tables as columns of monospace text, or as a list where those would not fit on a phone: Telegram has no
tables.

Pure: the source of one table in, text with entities out. Measures wide characters, keeps cells the parser
would drop and shows the addresses of links.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from telegramify_markdown import convert

from bot.telegram.formatting.links import is_sham, is_useful
from bot.telegram.formatting.markdown_events import Event, is_line_break, parse
from bot.telegram.formatting.splitter import Piece, utf16_len, visible

_WIDEST = 44  # columns; a phone shows about 40 before it wraps
_PIPE = re.compile(r"(?<!\\)\|")


def is_table(events: tuple[Event, ...]) -> bool:
    """Whether the document is one table and nothing else."""
    return bool(events) and events[0].opens("Table") and events[-1].closes("Table")


def laid_out(source: str) -> tuple[str, Piece]:
    """Every cell in order, and how the table is shown: in columns where a phone has room for them, else as a
    list.
    """
    rows = list(_rows(source.encode(), parse(source)))
    columns = max(map(len, rows))
    full = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(map(_width, column)) for column in zip(*full, strict=True)]
    wide = sum(widths) + 3 * columns - 3 > _WIDEST and len(full) > 1
    return "\n".join(" ".join(row) for row in rows), _listed(full) if wide else _aligned(full, widths)


def _aligned(rows: list[list[str]], widths: list[int]) -> Piece:
    lines = [" | ".join(map(_padded, row, widths)).rstrip() for row in rows]
    text = "\n".join((lines[0], "-+-".join("-" * width for width in widths), *lines[1:]))
    return Piece(text, ({"type": "pre", "offset": 0, "length": utf16_len(text)},))


def _listed(rows: list[list[str]]) -> Piece:
    """An item a row: its first cell in bold, the others below it, each behind the head of its column."""
    text = ""
    entities: list[dict[str, Any]] = []
    for number, row in enumerate(rows[1:]):
        # the first item names every column, so that none goes unmentioned
        cells = [
            cell or ("–" if head and number == 0 else "") for head, cell in zip(rows[0], row, strict=True)
        ]
        lines = [
            f"{head}: {cell}" if head else cell for head, cell in zip(rows[0], cells, strict=True) if cell
        ]
        if lines:
            text += "\n• " if text else "• "
            entities.append({"type": "bold", "offset": utf16_len(text), "length": utf16_len(lines[0])})
            text += "\n   ".join(lines)
    return Piece(text, tuple(entities))


def _rows(raw: bytes, events: tuple[Event, ...]) -> Iterator[list[str]]:
    row: list[str] = []
    begun = end = 0
    for at, event in enumerate(events):
        if event.opens("TableHead", "TableRow"):
            row = []
            end = event.start
        elif event.opens("TableCell"):
            begun = at + 1
        elif event.closes("TableCell"):
            row.append(_cell(raw, events[begun:at]))
            end = event.end
        elif event.closes("TableHead", "TableRow"):
            yield row + _surplus(raw[end : event.end].decode())


def _surplus(text: str) -> list[str]:
    """Cells beyond the columns of the head, which are no cells to the parser: shown as they are written."""
    cells = _PIPE.split(text.strip().removeprefix("|").removesuffix("|"))
    if visible("".join(cells)):
        return [cell.strip() for cell in cells]
    return []


def _cell(raw: bytes, events: tuple[Event, ...]) -> str:
    parts: list[str] = []
    links: list[tuple[dict[str, str], int]] = []
    for event in events:
        if event.opens("Link", "Image"):
            links.append((event.value, len(parts)))
        elif event.closes("Link", "Image"):
            link, begun = links.pop()
            if is_sham(link):
                parts[begun:] = [raw[event.start : event.end].decode()]
            else:
                parts.append(_address(link["dest_url"], "".join(parts[begun:])))
        else:
            parts.append(_shown(raw, event))
    return " ".join("".join(parts).split())


def _shown(raw: bytes, event: Event) -> str:
    if is_line_break(event):
        return " "
    if event.name in ("InlineMath", "DisplayMath"):
        return convert(raw[event.start : event.end].decode())[0]
    if event.name in ("Text", "Code", "InlineHtml"):
        return str(event.value)
    return ""


def _address(url: str, label: str) -> str:
    url = url.removeprefix("mailto:")
    if url == label or not is_useful(url):
        return ""
    if label.strip():
        return f" ({url})"
    return url


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 1
