"""Tables on the page: shown with sortable heads and links, and exported exactly as they are shown. Pure."""

from collections.abc import Iterable
from dataclasses import replace

import htpy as h

from bot.admin.components import change_query, format_duration, show_nothing, show_section
from bot.admin.data_table import Address, CanvasColumn, Cell, CellValue, DataTable, TableColumn
from bot.admin.page_request import Content, Download, ExportForm, PageRequest
from bot.errors import QuestionRefused
from bot.usage.figures import format_count
from bot.usage.formats import render_csv, render_json
from bot.usage.local_times import format_local

MAX_SHOWN_ROWS = 100  # by itself; the others are asked for
ALL_ROWS = "all"


def build_seconds_cell(seconds: float | None, href: Address | None = None) -> Cell:
    """A time span, exported in milliseconds' precision and shown in its largest unit; None: unknown."""
    if seconds is None:
        return Cell(None, href=href)
    return Cell(round(seconds, 3), format_duration(seconds), href)


def build_moment_cell(moment: float, request: PageRequest, href: Address | None = None) -> Cell:
    """A time by the admin's clock: exported to the second, shown to the minute, without the year of today."""
    full = format_local(moment, request.zone.key)
    year = format_local(request.now, request.zone.key)[:5]
    return Cell(full, full[:16].removeprefix(year), href, title=full)


def build_count_cell(count: int | None, *, is_complete: bool) -> Cell:
    """A count; one that is not complete is exported as it is shown: `≥ 300`."""
    if count is None or is_complete:
        return Cell(count)
    return Cell(format_count(count, is_complete=False))


def add_exports(request: PageRequest, page: Content) -> Content | Download:
    """A page with links to the exports of its tables below it; or the one that `?export=` asks for.

    `?table=` names its table, else it is the first. Raises QuestionRefused for none.
    """
    if not page.tables:
        return page
    if request.export is None:
        return replace(page, body=[page.body, show_exports(request, page.tables)])
    name = request.query.get("table") or page.tables[0].name
    for table in page.tables:
        if table.name == name:
            return _export_table(_sort_table(table, request), request.export)
    raise QuestionRefused(f"This page has the tables {', '.join(table.name for table in page.tables)}.")


def show_exports(request: PageRequest, tables: Iterable[DataTable]) -> h.Element:
    """Links to the exports of tables, of those that have rows."""
    exported = [table for table in tables if table.rows]
    links = (
        h.span(".nowrap")[
            len(exported) > 1 and f"{table.title}: ",
            h.a(href=change_query(request, export="csv", table=table.name))["CSV"],
            " ",
            h.a(href=change_query(request, export="json", table=table.name))["JSON"],
        ]
        for table in exported
    )
    return h.p(".exports")[bool(exported) and "Export ", [(link, " ") for link in links]]


def show_tables(request: PageRequest, tables: Iterable[DataTable]) -> h.Node:
    """The tables one below the other."""
    return [show_table(table, request) for table in tables]


def show_table(table: DataTable, request: PageRequest, *, note: h.Node = None) -> h.Element:
    """The table with its heading, sorted as `?sort=` says; `note` says how to read it."""
    if not table.rows:
        return show_section(table.title, show_nothing(table.nothing))
    if not request.output_unit.has_canvases:
        shown_columns = (
            replace(column, is_shown=column.is_shown and not isinstance(column, CanvasColumn))
            for column in table.columns
        )
        table = replace(table, columns=tuple(shown_columns))
    rows = _sort_table(table, request).rows
    shown = rows if request.query.get("rows") == ALL_ROWS else rows[:MAX_SHOWN_ROWS]
    heads = [_show_head(column, table, request) for column in table.columns if column.is_shown]
    # Who uses the keyboard comes to each row of links, which scrolls there.
    has_links = any(cell.href for cell in rows[0])
    return h.section[
        h.div(".heading")[h.h2(id=table.name)[table.title], note],
        # By its id htmx keeps the focus when the table is put in again.
        h.div(
            ".wide",
            id=f"{table.name}-rows",
            tabindex=None if has_links else "0",
            role="region",
            aria_labelledby=table.name,
        )[h.table[h.thead[h.tr[heads]], h.tbody[(_show_row(table.columns, row) for row in shown)]]],
        len(shown) < len(rows) and _show_rest(table, request),
    ]


def _sort_table(table: DataTable, request: PageRequest) -> DataTable:
    """The table sorted as `?sort=` says: by a column's key, descending after a `-`; unknown values last."""
    sort = request.query.get("sort", "")
    for number, column in enumerate(table.columns):
        if column.key == sort.removeprefix("-") and column.can_sort and table.can_sort:
            known = [row for row in table.rows if row[number].value is not None]
            unknown = [row for row in table.rows if row[number].value is None]
            known.sort(key=lambda row: _sort_key(row[number].value), reverse=sort.startswith("-"))
            return replace(table, rows=(*known, *unknown))
    return table


def _sort_key(value: CellValue) -> tuple[float, str]:
    return (0.0, value.casefold()) if isinstance(value, str) else (float(value or 0), "")


def _show_rest(table: DataTable, request: PageRequest) -> h.Element:
    """How many rows there are, and a link to them."""
    everything = change_query(request, rows=ALL_ROWS, export=None) + f"#{table.name}"
    return h.p(".exports")[
        f"The first {MAX_SHOWN_ROWS} of {len(table.rows):,} rows. ", h.a(href=everything)["Show all"]
    ]


def _show_head(column: TableColumn, table: DataTable, request: PageRequest) -> h.Element:
    classes = {"number": column.is_number, column.style: bool(column.style)}
    if not (column.can_sort and table.can_sort):
        return h.th(class_=classes, scope="col")[column.title]
    sort = request.query.get("sort", "")
    first_order = f"-{column.key}" if column.is_number else column.key
    orders = {column.key: "ascending", f"-{column.key}": "descending"}
    other_order = column.key if sort.startswith("-") else f"-{column.key}"
    next_order = other_order if sort in orders else first_order
    link = h.a(href=change_query(request, sort=next_order, before=None))[column.title]
    return h.th(class_=classes, scope="col", aria_sort=orders.get(sort))[link]


def _show_row(columns: Iterable[TableColumn], row: Iterable[Cell]) -> h.Element:
    cells = zip(columns, row, strict=True)
    return h.tr[(_show_table_cell(column, cell) for column, cell in cells if column.is_shown)]


def _show_table_cell(column: TableColumn, cell: Cell) -> h.Element:
    names = (column.is_number and "number", cell.value is None and "unknown", column.style, cell.style)
    classes = [name for name in names if name]
    return h.td(class_=classes, title=cell.title)[cell.picture, _show_cell(cell)]


def _show_cell(cell: Cell) -> h.Node:
    if cell.links:
        links = (h.a(href=link.href, aria_label=link.label)[link.text] for link in cell.links)
        return h.div(".row-acts")[links]
    if cell.href is None:
        return format_cell(cell)
    return h.a(href=cell.href if isinstance(cell.href, str) else cell.href())[format_cell(cell)]


def format_cell(cell: Cell) -> str:
    """The text of a cell."""
    if cell.text is not None:
        return cell.text
    return cell.value if isinstance(cell.value, str) else format_count(cell.value)


def _export_table(table: DataTable, form: ExportForm) -> Download:
    """The rows as they are shown, with their values; a text that a spreadsheet would run is defused."""
    records = [
        {
            column.key: cell.value
            for column, cell in zip(table.columns, row, strict=True)
            if column.is_exported
        }
        for row in table.rows
    ]
    if form == "json":
        return Download(f"{table.name}.json", "application/json", render_json(records))
    names = [column.key for column in table.columns if column.is_exported]
    return Download(f"{table.name}.csv", "text/csv; charset=utf-8", render_csv(records, names) + "\n")
