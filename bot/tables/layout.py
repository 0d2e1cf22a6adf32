"""Lays lines and tables out for a terminal or a file. Imported only by what prints: rich takes long to load.

Texts are printed as they are: a caller that got one from outside escapes it first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from bot.tables import Line, TextTable

FILE_WIDTH = 100  # characters of a line in files and pipes
MIN_WIDTH = 40  # that a narrower terminal is taken for
MAX_NAME_CHARACTERS = 32  # of a name in the first column, where a longer one makes a table too wide
MIN_TEXT_WIDTH = 30  # of a last column whose texts are wrapped
_GAP = 2  # spaces between columns
_STYLES = {"fail": "bold red", "warn": "yellow", "unknown": "dim"}  # of cells


def build_console(*, is_terminal: bool) -> Console:
    """A console as wide as the terminal, with colours unless NO_COLOR is set; otherwise FILE_WIDTH."""
    if not is_terminal:
        return Console(width=FILE_WIDTH, force_terminal=False)
    console = Console()
    width = max(MIN_WIDTH, console.width)
    if console.no_color:
        return Console(width=width, color_system=None)
    return Console(width=width)


def format_lines(lines: Iterable[Line], console: Console) -> list[str]:
    """The lines as text in the width and the colours of the console, without spaces at their ends.

    Lines are wrapped at words, and so are texts of a last column. Any other table that is too wide becomes
    pairs of label and value; on a terminal only if it still is without the middle of long names in its first
    column.
    """
    with console.capture() as capture:
        for line in lines:
            if isinstance(line, TextTable):
                _print_table(line, console)
            else:
                console.print(Text(line))
    return [line.rstrip() for line in capture.get().splitlines()]


def _print_table(table: TextTable, console: Console) -> None:
    if table.title:
        console.print(Text(table.title, "bold"))
    shown = table
    # The first of two columns may hold sentences, which say nothing without their middle.
    if console.is_terminal and len(table.columns) > 2 and not _fits(table, console.width):
        shown = replace(table, rows=[(_shorten(name), *cells) for name, *cells in table.rows])
    if _fits(shown, console.width) or not table.columns:
        _print_grid(shown, console)
    else:
        _print_pairs(table, console)


def _fits(table: TextTable, width: int) -> bool:
    """Whether nothing has to be wrapped but a text in the last column."""
    widths = [max(map(cell_len, column)) for column in _list_columns(table)]
    if len(widths) == table.text_columns:
        widths[-1] = min(widths[-1], MIN_TEXT_WIDTH)
    return sum(widths) + _GAP * (len(widths) - 1) <= width


def _list_columns(table: TextTable) -> Iterable[Sequence[str]]:
    """The name of each column and its cells."""
    return zip_longest(table.columns, *table.rows, fillvalue="")


def _shorten(name: str) -> str:
    """Without its middle: an id may stand at the end."""
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"{name[:19]}…{name[-12:]}"


def _print_grid(table: TextTable, console: Console) -> None:
    grid = Table(box=None, pad_edge=False, show_header=bool(table.columns))
    for index, (name, *_) in enumerate(_list_columns(table)):
        justify: JustifyMethod = "left" if index < table.text_columns else "right"
        grid.add_column(Text(name), justify=justify, no_wrap=True, overflow="fold")
    for last_column in grid.columns[-1:]:
        last_column.no_wrap = False
    for row in table.rows:
        grid.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in row))
    console.print(grid)


def _print_pairs(table: TextTable, console: Console) -> None:
    """Each row as its name, and below it pairs of label and value in columns of one width."""
    rows = [
        [f"  {label}: {cell}" for label, cell in zip(table.columns, row, strict=True) if cell]
        for row in table.rows
    ]
    widest = max((cell_len(pair) for _, *pairs in rows for pair in pairs), default=1)
    for name, *pairs in rows:
        console.print(Text(name.lstrip(" :"), "bold"))
        console.print(Columns(map(Text, pairs), 0, width=min(widest, console.width)))
