"""Renders tables, which Telegram lacks, as columns of monospace text, or as a list if too wide for a phone.

Pure: the source of one table in, text with entities out. Measures wide characters, keeps cells that the
parser would drop, and shows the URLs of links.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from telegramify_markdown import convert

from bot.telegram.formatting.links import is_fake_link, is_useful_url
from bot.telegram.formatting.markdown_events import MarkdownEvent, is_line_break, parse_markdown
from bot.telegram.formatting.splitter import Piece, is_visible, utf16_len

_MAX_COLUMNS = 44  # a phone shows about 40 before it wraps
_COLUMN_SEPARATOR = " | "
_PIPE = re.compile(r"(?<!\\)\|")


def is_table(events: tuple[MarkdownEvent, ...]) -> bool:
    """Whether the document is one table and nothing else."""
    return bool(events) and events[0].is_start_of("Table") and events[-1].is_end_of("Table")


def lay_out_table(source: str) -> tuple[str, Piece]:
    """Return every cell in order, and the table in columns if a phone can show them, else as a list."""
    rows = parse_table(source, parse_markdown(source))
    cells = "\n".join(" ".join(row) for row in rows)
    # Rows have their own lengths: as wide as the longest, n cells would become n².
    column_count = max(map(len, rows))
    widths = [0] * column_count
    for row in rows:
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], _measure_width(cell))
    total_width = sum(widths) + len(_COLUMN_SEPARATOR) * (column_count - 1)
    if total_width > _MAX_COLUMNS and len(rows) > 1:
        return cells, _render_list(rows)
    padded = [row + [""] * (column_count - len(row)) for row in rows]
    return cells, _render_columns(padded, widths)


def parse_table(source: str, events: tuple[MarkdownEvent, ...]) -> list[list[str]]:
    """Return the rows of a table as plain cells, that of its head first; each has its own length."""
    return list(_parse_rows(source.encode(), events))


def _render_columns(rows: list[list[str]], widths: list[int]) -> Piece:
    lines = [_COLUMN_SEPARATOR.join(map(_pad, row, widths)).rstrip() for row in rows]
    text = "\n".join((lines[0], "-+-".join("-" * width for width in widths), *lines[1:]))
    return Piece(text, ({"type": "pre", "offset": 0, "length": utf16_len(text)},))


def _render_list(rows: list[list[str]]) -> Piece:
    """Render an item for each row: the first cell in bold, below it the others with their columns' heads."""
    heads, *body = rows
    text = ""
    entities: list[dict[str, Any]] = []
    for number, row in enumerate(body):
        # The first item names every column, so that none goes unmentioned.
        lines = list(_format_cells(heads, row, names_empty=number == 0))
        if lines:
            text += "\n• " if text else "• "
            entities.append({"type": "bold", "offset": utf16_len(text), "length": utf16_len(lines[0])})
            text += "\n   ".join(lines)
    return Piece(text, tuple(entities))


def _format_cells(heads: list[str], row: list[str], *, names_empty: bool) -> Iterator[str]:
    if names_empty:
        row = row + [""] * (len(heads) - len(row))
    for head, cell in zip(chain(heads, repeat("")), row, strict=False):
        if head and (cell or names_empty):
            yield f"{head}: {cell or '–'}"
        elif cell:
            yield cell


def _parse_rows(raw: bytes, events: tuple[MarkdownEvent, ...]) -> Iterator[list[str]]:
    row: list[str] = []
    first_inside = 0
    cell_end = 0
    for index, event in enumerate(events):
        if event.is_start_of("TableHead", "TableRow"):
            row = []
            cell_end = event.start
        elif event.is_start_of("TableCell"):
            first_inside = index + 1
        elif event.is_end_of("TableCell"):
            row.append(_render_cell(raw, events[first_inside:index]))
            cell_end = event.end
        elif event.is_end_of("TableHead", "TableRow"):
            yield row + _parse_surplus_cells(raw[cell_end : event.end].decode())


def _parse_surplus_cells(text: str) -> list[str]:
    """Return the cells beyond the columns of the head, which the parser ignores, as they are written."""
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
            link, label_start = links.pop()
            if is_fake_link(link):
                parts[label_start:] = [raw[event.start : event.end].decode()]
            else:
                parts.append(_format_url(link["dest_url"], "".join(parts[label_start:])))
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
