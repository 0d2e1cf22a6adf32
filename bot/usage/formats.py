"""Tables and records written out: for terminals (rich), spreadsheets (CSV), machines (JSON), pages
(Markdown). Pure.

Every text is made harmless for where it goes; numbers go as they are.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence

from bot.usage.json_records import Record, Value
from bot.usage.plain_text import cell, markdown, plain
from bot.usage.tables import UNKNOWN, Section


def as_table(sections: Iterable[Section], notes: Iterable[str], *, width: int | None = None) -> str:
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
        for number, name in enumerate(section.head):
            table.add_column(Text(plain(name)), justify="right" if number else "left", overflow="fold")
        for line in section.lines:
            table.add_row(*(Text(plain(text)) for text in line))
        console.print(table)
        console.print()
    told = out.getvalue() + "\n".join(plain(note) for note in notes)
    return "\n".join(line.rstrip() for line in told.splitlines())


def as_markdown(sections: Iterable[Section], notes: Iterable[str]) -> str:
    """The same as Markdown."""
    return "\n".join([*_markdown(sections), *(f"- {markdown(note)}" for note in notes)])


def _markdown(sections: Iterable[Section]) -> Iterator[str]:
    for section in sections:
        yield f"### {markdown(section.title)}"
        yield ""
        yield _row(section.head)
        yield _row(["---", *["---:"] * (len(section.head) - 1)], raw=True)
        for line in section.lines:
            yield _row(line)
        yield ""


def _row(texts: Iterable[str], *, raw: bool = False) -> str:
    return f"| {' | '.join(text if raw else markdown(text) for text in texts)} |"


def as_csv(records: Sequence[Record]) -> str:
    """A line a record under the names of all their fields; unknown says so, what does not apply is left
    empty.
    """
    names = list(dict.fromkeys(name for record in records for name in record))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([cell(name) for name in names])
    for record in records:
        writer.writerow([_cell(record[name]) if name in record else "" for name in names])
    return out.getvalue().removesuffix("\n")


def _cell(value: Value) -> Value:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return cell(value)
    return value


def as_json(value: object) -> str:
    """JSON in plain ASCII, so that a terminal finds nothing to obey in it; what is unknown is null."""
    return json.dumps(value, indent=1)
