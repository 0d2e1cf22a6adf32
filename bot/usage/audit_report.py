"""`report audit`: what admins changed, as a table for people and records for machines. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.db.tools.audit import AuditEntry
from bot.tables import TextTable
from bot.usage.figures import EMPTY_CELL
from bot.usage.json_records import JsonRecord
from bot.usage.local_times import format_local, format_utc
from bot.usage.report import format_person

MACHINE_LABEL = "the machine"
_COLUMNS = ("who", "via", "what", "subject", "before", "after")


def build_section(changes: Sequence[AuditEntry], names: Mapping[int, str], zone: str) -> TextTable:
    """The changes, one per row."""
    rows = tuple(_build_row(change, names, zone) for change in changes)
    return TextTable("Changes by admins", (f"when ({zone})", *_COLUMNS), rows)


def build_records(changes: Sequence[AuditEntry]) -> list[JsonRecord]:
    """The same for machines; the values before and after are one text each."""
    return [
        {
            "id": change.id,
            "at": format_utc(change.at),
            "who": change.who or MACHINE_LABEL,
            "via": change.via,
            "what": change.what,
            "subject": change.subject,
            "before": format_value(change.before),
            "after": format_value(change.after),
        }
        for change in changes
    ]


def _build_row(change: AuditEntry, names: Mapping[int, str], zone: str) -> tuple[str, ...]:
    return (
        format_local(change.at, zone),
        format_person(str(change.who or MACHINE_LABEL), names),
        change.via,
        change.what,
        change.subject,
        format_value(change.before),
        format_value(change.after),
    )


def format_value(value: Any) -> str:
    """A value in one short line; nothing is a dash."""
    if value is None:
        return EMPTY_CELL
    if isinstance(value, dict) and all(map(_is_short, value.values())):
        return ", ".join(f"{name}: {_format_short(entry)}" for name, entry in value.items())
    return json.dumps(value, ensure_ascii=False)


def _is_short(value: Any) -> bool:
    if isinstance(value, list):
        return not any(isinstance(item, dict | list) for item in value)
    return not isinstance(value, dict)


def _format_short(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(map(str, value))
    return str(value)
