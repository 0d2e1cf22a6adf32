"""Writes tables and records for spreadsheets (CSV), machines (JSON) and pages (Markdown). Pure.

Every text is escaped for its destination; numbers are written as they are.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence

from bot.tables import TextTable
from bot.usage.figures import UNKNOWN
from bot.usage.json_records import JsonRecord, RecordValue
from bot.usage.plain_text import escape_for_markdown, escape_for_spreadsheet


def render_markdown(sections: Iterable[TextTable], notes: Iterable[str]) -> str:
    """The sections as tables, and the notes as a list below them."""
    note_lines = [f"- {escape_for_markdown(note)}" for note in notes]
    return "\n".join([*_render_markdown_lines(sections), *note_lines])


def _render_markdown_lines(sections: Iterable[TextTable]) -> Iterator[str]:
    for section in sections:
        yield f"### {escape_for_markdown(section.title)}"
        yield ""
        yield _render_markdown_row(map(escape_for_markdown, section.columns))
        yield _render_markdown_row(["---", *["---:"] * (len(section.columns) - 1)])
        for row in section.rows:
            yield _render_markdown_row(map(escape_for_markdown, row))
        yield ""


def _render_markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def render_csv(records: Sequence[JsonRecord], names: Iterable[str] = ()) -> str:
    """One line per record below the names of all fields: `names`, and others that records have.

    What is unknown says so; a field that a record does not have is empty.
    """
    names = list(dict.fromkeys([*names, *(name for record in records for name in record)]))
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([escape_for_spreadsheet(name) for name in names])
    for record in records:
        writer.writerow([_format_csv_value(record[name]) if name in record else "" for name in names])
    return output.getvalue().removesuffix("\n")


def _format_csv_value(value: RecordValue) -> RecordValue:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return escape_for_spreadsheet(value)
    return value


def render_json(value: object) -> str:
    """JSON in plain ASCII, so that a terminal finds nothing to obey; what is unknown is null."""
    return json.dumps(value, indent=1)
