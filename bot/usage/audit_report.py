"""What admins changed, as a table for people and records for machines: who, when, which way, before and
after. Pure.
"""

import json
from collections.abc import Sequence
from typing import Any

from bot.db.tools.audit import AuditEntry
from bot.usage.json_records import JsonRecord
from bot.usage.report import format_utc
from bot.usage.tables import EMPTY_CELL, ReportSection

MACHINE_LABEL = "the machine"
_COLUMNS = ("when (UTC)", "who", "via", "what", "subject", "before", "after")


def build_section(changes: Sequence[AuditEntry]) -> ReportSection:
    """The changes, one a line."""
    return ReportSection("Changes by admins", _COLUMNS, tuple(_build_row(one) for one in changes))


def build_records(changes: Sequence[AuditEntry]) -> list[JsonRecord]:
    """The same for machines; what was before and after is one text."""
    return [
        {
            "id": one.id,
            "at": format_utc(one.at),
            "who": MACHINE_LABEL if one.who is None else one.who,
            "via": one.via,
            "what": one.what,
            "subject": one.subject,
            "before": _format_value(one.before),
            "after": _format_value(one.after),
        }
        for one in changes
    ]


def _build_row(change: AuditEntry) -> tuple[str, ...]:
    who = MACHINE_LABEL if change.who is None else f"{change.who}"
    return (
        format_utc(change.at),
        who,
        change.via,
        change.what,
        change.subject,
        _format_value(change.before),
        _format_value(change.after),
    )


def _format_value(value: Any) -> str:
    """A value in one short line; nothing is a dash."""
    if value is None:
        return EMPTY_CELL
    if isinstance(value, dict) and all(_is_short(one) for one in value.values()):
        return ", ".join(f"{name}: {_format_short(one)}" for name, one in value.items())
    return json.dumps(value, ensure_ascii=False)


def _is_short(value: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return not any(isinstance(one, dict | list) for one in several)


def _format_short(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(str(one) for one in value)
    return str(value)
