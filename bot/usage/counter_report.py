"""`report --list readings`: the endpoint's counters beside ours, for people and for machines. Pure."""

from collections.abc import Sequence
from dataclasses import asdict

from bot.db.usage.counter_readings import CounterReading
from bot.tables import TextTable
from bot.usage.figures import EMPTY_CELL, format_count
from bot.usage.json_records import JsonRecord
from bot.usage.local_times import format_local, format_utc

TITLE = "Readings of the endpoint's counters, server / ours"
_COLUMNS = ("input", "cached", "output", "requests", "gap", "cause")


def build_section(readings: Sequence[CounterReading], zone: str) -> TextTable:
    """The readings, one per row; what was counted is since the reading before."""
    rows = tuple((format_local(reading.read_at, zone), *_build_cells(reading)) for reading in readings)
    return TextTable(TITLE, (f"when ({zone})", *_COLUMNS), rows)


def build_records(readings: Sequence[CounterReading]) -> list[JsonRecord]:
    """The same for machines: times in UTC, None where a counter is missing or nothing is compared."""
    return [_build_record(reading) for reading in readings]


def _build_record(reading: CounterReading) -> JsonRecord:
    record: JsonRecord = asdict(reading)
    del record["totals"]
    record["read_at"] = format_utc(reading.read_at)
    record["since"] = None if reading.since is None else format_utc(reading.since)
    return record


def _build_cells(reading: CounterReading) -> tuple[str, ...]:
    return (
        _format_pair(reading.prompt_seen, reading.prompt_own),
        _format_pair(reading.cached_seen, reading.cached_own),
        _format_pair(reading.generated_seen, reading.generated_own),
        _format_pair(reading.requests_seen, reading.requests_own),
        EMPTY_CELL if reading.gap is None else f"{reading.gap:,}",
        reading.why,
    )


def _format_pair(server_count: int | None, own_count: int | None) -> str:
    if server_count is None and own_count is None:
        return EMPTY_CELL
    return f"{format_count(server_count)} / {format_count(own_count)}"
