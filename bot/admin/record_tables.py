"""Tables of readings, unknown usage, changes by admins, backups and the settings in force. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from pydantic import SecretStr

from bot.admin.components import build_url, cut, format_duration
from bot.admin.data_table import CanvasColumn, Cell, DataTable, NumberColumn, TableColumn, list_attributes
from bot.admin.names import name_person
from bot.db.tools.audit import AuditEntry
from bot.db.usage.counter_readings import CounterReading
from bot.db.usage.usage_sums import UnknownUsage
from bot.settings import Settings
from bot.usage.audit_report import MACHINE_LABEL, format_value
from bot.usage.figures import EMPTY_CELL, format_steps
from bot.usage.local_times import format_local, format_utc

MAX_VALUE_CHARACTERS = 300
HIDDEN = "hidden"
UNSET = "unset"
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A backup: its file, when it was begun (epoch seconds), and its size in bytes."""

    name: str
    made_at: float
    size: int


_READING_COUNTS = (
    NumberColumn("prompt_seen", "Input"),
    NumberColumn("prompt_own", "ours"),
    NumberColumn("cached_seen", "Cached"),
    NumberColumn("cached_own", "ours"),
    NumberColumn("generated_seen", "Output"),
    NumberColumn("generated_own", "ours"),
    NumberColumn("requests_seen", "Requests"),
    NumberColumn("requests_own", "ours"),
    NumberColumn("gap", "Gap"),
)
_UNKNOWN_COUNTS = (
    NumberColumn("calls", "Calls"),
    NumberColumn("input", "Input unknown"),
    NumberColumn("cached", "Cached unknown"),
    NumberColumn("output", "Output unknown"),
    NumberColumn("reasoning", "Thought unknown"),
    NumberColumn("partial", "Counted in part"),
)


def build_readings(readings: Iterable[CounterReading], zone: ZoneInfo) -> DataTable:
    """The server's counters beside ours, a row each time they were read."""
    columns = (
        TableColumn("read_at", "Read"),
        *_READING_COUNTS,
        CanvasColumn("steps_per_canvas", "Steps a canvas"),
        TableColumn("why", "Cause"),
    )
    return DataTable(
        "readings",
        "The server's counters beside ours",
        columns,
        tuple(_build_reading(reading, zone) for reading in readings),
        "Not read in this time. They are read every ten minutes, where the server shows them.",
    )


def _build_reading(reading: CounterReading, zone: ZoneInfo) -> tuple[Cell, ...]:
    counts = list_attributes(_READING_COUNTS, reading)
    if reading.since is None:
        counts = [Cell(None, EMPTY_CELL) for _ in counts]
    steps = reading.steps_per_canvas
    return (
        _time_cell(reading.read_at, zone),
        *counts,
        Cell(steps, EMPTY_CELL if steps is None else format_steps(steps)),
        Cell(reading.why, cut(reading.why, MAX_VALUE_CHARACTERS)),
    )


def build_unknown_usage(usages: Iterable[UnknownUsage], build_href: Callable[[str, str], str]) -> DataTable:
    """The calls whose usage is not wholly known, by the reason.

    `build_href` returns the address of the turns with such calls, by what is unknown and why.
    """
    rows = tuple(
        (
            Cell(usage.reason, cut(usage.reason)),
            *(
                replace(cell, href=build_href("any" if column.key == "calls" else column.key, usage.reason))
                for column, cell in zip(_UNKNOWN_COUNTS, list_attributes(_UNKNOWN_COUNTS, usage), strict=True)
            ),
        )
        for usage in usages
    )
    columns = (TableColumn("reason", "Why"), *_UNKNOWN_COUNTS)
    return DataTable("unknown-usage", "Calls that lack a count", columns, rows, "All usage is known.")


def build_changes(
    changes: Iterable[AuditEntry], names: Mapping[int, str], path: str, zone: ZoneInfo
) -> DataTable:
    """What admins changed; who, what and subject lead to the changes at `path` that share it."""
    columns = (
        TableColumn("at", "When"),
        TableColumn("who", "Who"),
        TableColumn("via", "Via"),
        TableColumn("what", "What"),
        TableColumn("subject", "Subject"),
        TableColumn("before", "Before"),
        TableColumn("after", "After"),
    )
    rows = tuple(_build_change(change, names, path, zone) for change in changes)
    return DataTable("changes", "Changes by admins", columns, rows, "No admin has changed anything.")


def _build_change(
    change: AuditEntry, names: Mapping[int, str], path: str, zone: ZoneInfo
) -> tuple[Cell, ...]:
    who = Cell(MACHINE_LABEL)
    if change.who is not None:
        who = Cell(change.who, name_person(change.who, names), build_url(path, {"user": change.who}))
    return (
        _time_cell(change.at, zone),
        who,
        Cell(change.via),
        Cell(change.what, cut(change.what), build_url(path, {"what": change.what})),
        Cell(change.subject, cut(change.subject), build_url(path, {"subject": change.subject})),
        *(_value_cell(format_value(value)) for value in (change.before, change.after)),
    )


def _value_cell(text: str) -> Cell:
    return Cell(text, cut(text, MAX_VALUE_CHARACTERS))


def build_backups(backups: Iterable[StoredBackup], zone: ZoneInfo, now: float) -> DataTable:
    """The backups that are kept."""
    columns = (
        TableColumn("file", "File"),
        TableColumn("made_at", "Made"),
        NumberColumn("age_seconds", "Age"),
        NumberColumn("bytes", "Size"),
    )
    rows = tuple(
        (
            Cell(backup.name),
            _time_cell(backup.made_at, zone),
            Cell(round(now - backup.made_at), format_duration(now - backup.made_at)),
            Cell(backup.size, format_size(backup.size)),
        )
        for backup in backups
    )
    return DataTable("backups", "Backups", columns, rows, "There is no backup.")


def format_size(size: int) -> str:
    """Bytes as people read them."""
    return f"{size / _MEBIBYTE:,.1f} MiB"


def build_settings_table(settings: Settings) -> DataTable:
    """Each setting with its value, with every secret hidden, and whether it was set or has its default."""
    columns = (
        TableColumn("name", "Setting"),
        TableColumn("value", "Value", style="address"),
        TableColumn("from", "From", is_shown=False),
    )
    rows = []
    for name, value in settings:
        text = _hide_secrets(_format_setting(value), settings)
        source = "set" if name in settings.model_fields_set else "default"
        shown = f"{value:g} s" if isinstance(value, float) else cut(text)
        rows.append((Cell(name.upper()), Cell(text, shown), Cell(source)))
    return DataTable("settings", "Settings in force", columns, tuple(rows))


def _format_setting(value: object) -> str:
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, tuple | frozenset):
        return ", ".join(sorted(map(_format_setting, value))) or UNSET
    return UNSET if value is None else str(value)


def _hide_secrets(text: str, settings: Settings) -> str:
    """The text without a secret that somebody has written into another setting."""
    for secret in settings.list_secrets():
        text = text.replace(secret, HIDDEN)
    return text


def _time_cell(moment: float, zone: ZoneInfo) -> Cell:
    """A time by the admin's clock; in UTC where it is exported, as in reports."""
    return Cell(format_utc(moment), format_local(moment, zone.key))
