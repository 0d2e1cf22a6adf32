"""What admins changed, as a table for people and records for machines: who, when, which way, before and
after. Pure.
"""

import json
from collections.abc import Sequence
from typing import Any

from bot.db.tools.audit import Change
from bot.usage.json_records import Record
from bot.usage.report import moment
from bot.usage.tables import NOT_TOLD, Section

MACHINE = "the machine"
_HEAD = ("when (UTC)", "who", "via", "what", "subject", "before", "after")


def section(found: Sequence[Change]) -> Section:
    """The changes, one a line."""
    return Section("Changes by admins", _HEAD, tuple(_line(one) for one in found))


def records(found: Sequence[Change]) -> list[Record]:
    """The same for machines; what was before and after is one text."""
    return [
        {
            "id": one.id,
            "at": moment(one.at),
            "who": MACHINE if one.who is None else one.who,
            "via": one.via,
            "what": one.what,
            "subject": one.subject,
            "before": _told(one.before),
            "after": _told(one.after),
        }
        for one in found
    ]


def _line(one: Change) -> tuple[str, ...]:
    who = MACHINE if one.who is None else f"{one.who}"
    return (moment(one.at), who, one.via, one.what, one.subject, _told(one.before), _told(one.after))


def _told(value: Any) -> str:
    """A value in one short line; nothing is a dash."""
    if value is None:
        return NOT_TOLD
    if isinstance(value, dict) and all(_is_short(one) for one in value.values()):
        return ", ".join(f"{name}: {_short(one)}" for name, one in value.items())
    return json.dumps(value, ensure_ascii=False)


def _is_short(value: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return not any(isinstance(one, dict | list) for one in several)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(str(one) for one in value)
    return str(value)
