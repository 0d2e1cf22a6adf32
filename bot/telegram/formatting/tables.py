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

from bot.telegram.formatting.links import is_fake_link, is_useful_url
from bot.telegram.formatting.markdown_events import MarkdownEvent, is_line_break, parse_markdown
from bot.telegram.formatting.splitter import Piece, is_visible, utf16_len

_MAX_COLUMNS = 44  # columns; a phone shows about 40 before it wraps
_PIPE = re.compile(r"(?<!\\)\|")


def is_table(events: tuple[MarkdownEvent, ...]) -> bool:
    """Whether the document is one table and nothing else."""
    return bool(events) and events[0].is_start_of("Table") and events[-1].is_end_of("Table")


def lay_out_table(source: str) -> tuple[str, Piece]:
    """Every cell in order, and how the table is shown: in columns where a phone has room for them, else as a
    list.
    """
    rows = list(_parse_rows(source.encode(), parse_markdown(source)))
    columns = max(map(len, rows))
    full = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(map(_measure_width, column)) for column in zip(*full, strict=True)]
    wide = sum(widths) + 3 * columns - 3 > _MAX_COLUMNS and len(full) > 1
    return "\n".join(" ".join(row) for row in rows), _render_list(full) if wide else _render_columns(
        full, widths
    )


def _render_columns(rows: list[list[str]], widths: list[int]) -> Piece:
    lines = [" | ".join(map(_pad, row, widths)).rstrip() for row in rows]
    text = "\n".join((lines[0], "-+-".join("-" * width for width in widths), *lines[1:]))
    return Piece(text, ({"type": "pre", "offset": 0, "length": utf16_len(text)},))


def _render_list(rows: list[list[str]]) -> Piece:
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


def _parse_rows(raw: bytes, events: tuple[MarkdownEvent, ...]) -> Iterator[list[str]]:
    row: list[str] = []
    begun = end = 0
    for at, event in enumerate(events):
        if event.is_start_of("TableHead", "TableRow"):
            row = []
            end = event.start
        elif event.is_start_of("TableCell"):
            begun = at + 1
        elif event.is_end_of("TableCell"):
            row.append(_render_cell(raw, events[begun:at]))
            end = event.end
        elif event.is_end_of("TableHead", "TableRow"):
            yield row + _parse_surplus_cells(raw[end : event.end].decode())


def _parse_surplus_cells(text: str) -> list[str]:
    """Cells beyond the columns of the head, which are no cells to the parser: shown as they are written."""
    cells = _PIPE.split(text.strip().removeprefix("|").removesuffix("|"))
    if is_visible("".join(cells)):
        return [cell.strip() for cell in cells]
    return []


def _render_cell(raw: bytes, events: tuple[MarkdownEvent, ...]) -> str:
    parts: list[str] = []
    links: list[tuple[dict[str, str], int]] = []
    for event in events:
        if event.is_start_of("Link", "Image"):
            links.append((event.value, len(parts)))
        elif event.is_end_of("Link", "Image"):
            link, begun = links.pop()
            if is_fake_link(link):
                parts[begun:] = [raw[event.start : event.end].decode()]
            else:
                parts.append(_format_url(link["dest_url"], "".join(parts[begun:])))
        else:
            parts.append(_render_event(raw, event))
    return " ".join("".join(parts).split())


def _render_event(raw: bytes, event: MarkdownEvent) -> str:
    if is_line_break(event):
        return " "
    if event.name in ("InlineMath", "DisplayMath"):
        return convert(raw[event.start : event.end].decode())[0]
    if event.name in ("Text", "Code", "InlineHtml"):
        return str(event.value)
    return ""


def _format_url(url: str, label: str) -> str:
    url = url.removeprefix("mailto:")
    if url == label or not is_useful_url(url):
        return ""
    if label.strip():
        return f" ({url})"
    return url


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _measure_width(text))


def _measure_width(text: str) -> int:
    return sum(_measure_char(char) for char in text)


def _measure_char(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 1
