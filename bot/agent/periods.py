"""Finds the words of a time in the past that a search may name, such as `in May` or `last week`. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files

_YEAR = re.compile(r"\s*(?:de |of |'|’|,)?\s*(\d{4})(?:\s*(?:года|году|年))?(?!\d)")
_YEAR_BEFORE = re.compile(r"(\d{4})\s*年\s*$")


@dataclass(frozen=True, slots=True)
class DaySpan:
    """From a day to another, the latter left out; `rest`: the query without the words for it."""

    start: date
    end: date
    rest: str


def find_day_span(query: str, today: date) -> DaySpan | None:
    """Return the days that a query names: the first words of a time in it; None if there are none."""
    matches = [(line, match) for line in _load() if (match := line.words.search(query))]
    if not matches:
        return None
    line, match = min(matches, key=lambda found: (found[1].start(), -found[1].end()))
    start, end = match.span()
    year = None
    if line.unit == "month":
        year_before = _YEAR_BEFORE.search(query[:start])
        year_behind = _YEAR.match(query, end)
        if year_before:
            year, start = int(year_before[1]), year_before.start()
        elif year_behind:
            year, end = int(year_behind[1]), year_behind.end()
    first, last = _SPANS[line.unit](today, line.number, year)
    return DaySpan(first, last, " ".join(f"{query[:start]} {query[end:]}".split()))


@dataclass(frozen=True, slots=True)
class _Line:
    unit: str
    number: int
    words: re.Pattern[str]


@cache
def _load() -> tuple[_Line, ...]:
    lines = []
    for line in files(__package__).joinpath("periods.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        meaning, _, words = line.partition(" = ")
        unit, number = meaning.split()
        spaced = words.replace(" | ", "|").strip().replace(" ", r"\s+")
        whole_words = r"(?<![^\W\d_\u3400-\u9fff])(?<!\d)(?:{})(?![^\W\d_\u3400-\u9fff])"
        lines.append(_Line(unit, int(number), re.compile(whole_words.format(spaced), re.IGNORECASE)))
    return tuple(lines)


def _find_month(today: date, number: int, year: int | None) -> tuple[date, date]:
    """A month of that year; without one the latest that has begun."""
    if year is None:
        year = today.year if number <= today.month else today.year - 1
    start = date(min(max(year, 1), 9998), number, 1)
    return start, (start + timedelta(days=31)).replace(day=1)


def _find_month_back(today: date, count: int, year: int | None) -> tuple[date, date]:
    day = today
    for _ in range(count):
        day = day.replace(day=1) - timedelta(days=1)
    return _find_month(today, day.month, day.year)


def _find_day(today: date, count: int, year: int | None) -> tuple[date, date]:
    day = today - timedelta(days=count)
    return day, day + timedelta(days=1)


def _find_week(today: date, count: int, year: int | None) -> tuple[date, date]:
    start = today - timedelta(days=today.weekday() + 7 * count)
    return start, start + timedelta(days=7)


def _find_year(today: date, count: int, year: int | None) -> tuple[date, date]:
    return date(today.year - count, 1, 1), date(today.year - count + 1, 1, 1)


_SPANS: dict[str, Callable[[date, int, int | None], tuple[date, date]]] = {
    "month": _find_month,
    "month-back": _find_month_back,
    "day": _find_day,
    "week": _find_week,
    "year": _find_year,
}
