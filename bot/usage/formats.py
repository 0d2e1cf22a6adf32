"""Writes records for spreadsheets (CSV) and machines (JSON). Pure.

Every text is escaped for its destination; numbers are written as they are.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence

from bot.usage.figures import UNKNOWN
from bot.usage.json_records import JsonRecord, RecordValue
from bot.usage.plain_text import escape_for_spreadsheet


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
