"""Tables as plain values: columns and cells, which `table_view` shows and exports."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import htpy as h

CellValue = str | int | float | None
Address = str | Callable[[], str]
"""Where a link leads; a function for one of many rows, of which few are shown."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column; `key` is its name in exports and in `?sort=`. `style`: the class of its cells on the page.

    `can_sort`: in a table that can be sorted at all.
    """

    key: str
    title: str
    can_sort: bool = True
    is_exported: bool = True
    is_shown: bool = True
    style: str = ""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class NumberColumn(TableColumn):
    """A column of numbers, which are aligned right."""

    is_number: bool = True


@dataclass(frozen=True, slots=True)
class CanvasColumn(NumberColumn):
    """A column that is not shown where the model server writes no canvases."""


@dataclass(frozen=True, slots=True)
class CellLink:
    """A link to what can be done about a row; `label` names the row, too, for who only hears it."""

    text: str
    href: str
    label: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, as exports have it (None: unknown); `text` is how the page shows it, if otherwise.

    `href` leads to the rows behind it. `links`: what can be done, in the place of a text. `title` says more
    where a mouse rests, `style` is a class, `picture` stands before the text.
    """

    value: CellValue
    text: str | None = None
    href: Address | None = None
    links: tuple[CellLink, ...] = ()
    title: str | None = None
    style: str = ""
    picture: h.Node = None


def list_attributes(columns: Iterable[TableColumn], record: object) -> list[Cell]:
    """A cell for each column, with the attribute of a record that has the column's key."""
    return [Cell(getattr(record, column.key)) for column in columns]


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table; `name` is that of its file. `nothing` is said when there are no rows.

    `can_sort`: whether the heads of its columns are links that sort it.
    """

    name: str
    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    nothing: str = "Nothing in this time."
    can_sort: bool = False
