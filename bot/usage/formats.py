"""Tables and records written out: for terminals (rich), spreadsheets (CSV), machines (JSON), pages
(Markdown). Pure.

Every text is made harmless for where it goes; numbers go as they are.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence

from bot.usage.json_records import JsonRecord, RecordValue
from bot.usage.plain_text import escape_for_markdown, escape_for_spreadsheet, escape_for_terminal
from bot.usage.tables import UNKNOWN, ReportSection


def render_table(sections: Iterable[ReportSection], notes: Iterable[str], *, width: int | None = None) -> str:
    """Tables for a terminal; `width` None: as wide as they are."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, width=width or 400, color_system=None, highlight=False, markup=False, emoji=False
    )
    for section in sections:
        table = Table(title=section.title, title_justify="left", box=None, pad_edge=False, title_style="")
        for number, name in enumerate(section.columns):
            table.add_column(
                Text(escape_for_terminal(name)), justify="right" if number else "left", overflow="fold"
            )
        for line in section.rows:
            table.add_row(*(Text(escape_for_terminal(text)) for text in line))
        console.print(table)
        console.print()
    told = out.getvalue() + "\n".join(escape_for_terminal(note) for note in notes)
    return "\n".join(line.rstrip() for line in told.splitlines())


def render_markdown(sections: Iterable[ReportSection], notes: Iterable[str]) -> str:
    """The same as Markdown."""
    return "\n".join(
        [*_render_markdown_lines(sections), *(f"- {escape_for_markdown(note)}" for note in notes)]
    )


def _render_markdown_lines(sections: Iterable[ReportSection]) -> Iterator[str]:
    for section in sections:
        yield f"### {escape_for_markdown(section.title)}"
        yield ""
        yield _render_markdown_row(section.columns)
        yield _render_markdown_row(["---", *["---:"] * (len(section.columns) - 1)], raw=True)
        for line in section.rows:
            yield _render_markdown_row(line)
        yield ""


def _render_markdown_row(texts: Iterable[str], *, raw: bool = False) -> str:
    return f"| {' | '.join(text if raw else escape_for_markdown(text) for text in texts)} |"


def render_csv(records: Sequence[JsonRecord]) -> str:
    """A line a record under the names of all their fields; unknown says so, what does not apply is left
    empty.
    """
    names = list(dict.fromkeys(name for record in records for name in record))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([escape_for_spreadsheet(name) for name in names])
    for record in records:
        writer.writerow([_format_csv_value(record[name]) if name in record else "" for name in names])
    return out.getvalue().removesuffix("\n")


def _format_csv_value(value: RecordValue) -> RecordValue:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return escape_for_spreadsheet(value)
    return value


def render_json(value: object) -> str:
    """JSON in plain ASCII, so that a terminal finds nothing to obey in it; what is unknown is null."""
    return json.dumps(value, indent=1)
