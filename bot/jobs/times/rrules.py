"""Rules of recurrence as they are stored, and the instants they come to. Pure.

A rule is two lines of iCalendar: DTSTART, a local time without a zone, and RRULE. Of a local time that does
not exist the instant is as far behind the gap as it lies in it; of one that exists twice it is the first.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

STAMP_FORMAT = "%Y%m%dT%H%M%S"
MARGIN = timedelta(hours=26)  # no zone ever moved its clocks by more
HORIZON = timedelta(days=366 * 100)  # of what never comes again nobody looks further
_SECONDS_PER_STEP = {"MINUTELY": 60, "HOURLY": 3600}


@dataclass(frozen=True, slots=True)
class RecurrenceRule:
    """A recurrence: the local time its reckoning begins at, and the parts of its RRULE by name."""

    start: datetime
    parts: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> "RecurrenceRule":
        """The rule of a text made by `text`, or of one by hand that leaves out what its DTSTART says."""
        start, _, rule = text.partition("\n")
        parts = dict(part.split("=", 1) for part in rule.removeprefix("RRULE:").strip().split(";"))
        return cls(
            datetime.strptime(start.strip().removeprefix("DTSTART:"), STAMP_FORMAT),
            tuple(parts.items()),  # noqa: DTZ007
        )

    @property
    def text(self) -> str:
        """The rule as it is stored."""
        rule = ";".join(f"{name}={value}" for name, value in self.parts)
        return f"DTSTART:{self.start.strftime(STAMP_FORMAT)}\nRRULE:{rule}"

    def get(self, name: str, default: str = "") -> str:
        """A part of the RRULE, such as `FREQ`."""
        return dict(self.parts).get(name, default)

    @property
    def interval(self) -> int:
        """Every how many of its periods it comes."""
        return int(self.get("INTERVAL", "1"))

    @property
    def step_seconds(self) -> int | None:
        """The seconds between two times of a rule that goes by elapsed time; None of one that goes by the
        calendar.
        """
        seconds = _SECONDS_PER_STEP.get(self.get("FREQ"))
        if seconds:
            return seconds * self.interval
        return None


@cache
def load_zone(name: str) -> tzinfo:
    """The time zone of an IANA name. Raises ZoneInfoNotFoundError."""
    if name == "UTC":
        return UTC
    return ZoneInfo(name)


def to_timestamp(local_time: datetime, tz: tzinfo) -> float:
    """The epoch second of a local time without a zone."""
    return local_time.replace(tzinfo=tz, fold=0).timestamp()


def to_local_time(timestamp: float, tz: tzinfo) -> datetime:
    """The local time, without a zone, of an epoch second."""
    return datetime.fromtimestamp(timestamp, tz).replace(tzinfo=None)


def iterate_times(rule: RecurrenceRule, tz: tzinfo, after: float) -> Iterator[float]:
    """The epoch seconds the rule comes to after this one, in order and each once."""
    if rule.step_seconds is not None:
        begin = to_timestamp(rule.start, tz)
        yield from takewhile(_find_end(rule, tz).__ge__, _iterate_elapsed(begin, rule.step_seconds, after))
        return
    last = after
    for at in _iterate_calendar(rule, to_local_time(after, tz) - MARGIN):
        due = to_timestamp(at, tz)
        if due > last:
            yield due
            last = due


def find_next(rule: RecurrenceRule, tz: tzinfo, after: float) -> float | None:
    """The first epoch second after this one, None if there is none within a century."""
    return next(iterate_times(rule, tz, after), None)


def find_next_few(rule: RecurrenceRule, tz: tzinfo, after: float, count: int) -> tuple[float, ...]:
    """The next few epoch seconds."""
    return tuple(islice(iterate_times(rule, tz, after), count))


def find_latest(rule: RecurrenceRule, tz: tzinfo, first: float, now: float) -> float:
    """The last epoch second up to now of a rule that was due at `first`, which is not later than now."""
    if rule.step_seconds is not None:
        return first + (min(now, _find_end(rule, tz)) - first) // rule.step_seconds * rule.step_seconds
    found = first
    for days in (2, 40, 800, 366 * 10):  # a rule that comes often is not reckoned from far back
        since = max(first, now - days * 86_400)
        for due in iterate_times(rule, tz, since):
            if due > now:
                break
            found = due
        if found > first or since == first:
            break
    return found


def _find_end(rule: RecurrenceRule, tz: tzinfo) -> float:
    """The epoch second after which a rule that goes by elapsed time comes no more."""
    assert rule.step_seconds is not None
    until = rule.get("UNTIL")
    count = rule.get("COUNT")
    last = to_timestamp(datetime.strptime(until, STAMP_FORMAT), tz) if until else math.inf  # noqa: DTZ007
    if count:
        return min(last, to_timestamp(rule.start, tz) + (int(count) - 1) * rule.step_seconds)
    return last


def _iterate_elapsed(start: float, step_seconds: int, after: float) -> Iterator[float]:
    number = max(0, int((after - start) // step_seconds) + 1)
    while True:
        yield start + number * step_seconds
        number += 1


def _iterate_calendar(rule: RecurrenceRule, since: datetime) -> Iterator[datetime]:
    """The local times of a rule since `since`, or DTSTART. The library counts from DTSTART, so that is moved
    near.
    """
    from dateutil.rrule import rrulestr  # not needed by a house without jobs

    begin = rule.start if rule.get("COUNT") else _find_nearby_start(rule, since)
    parts = dict(_complete_parts(rule))
    if not {"UNTIL", "COUNT"} & parts.keys():
        parts["UNTIL"] = (max(begin, since) + HORIZON).strftime(STAMP_FORMAT)
    found = rrulestr(";".join(f"{name}={value}" for name, value in parts.items()), dtstart=begin)
    yield from found.xafter(max(since, rule.start), inc=True)


def _find_nearby_start(rule: RecurrenceRule, since: datetime) -> datetime:
    """A beginning near `since`, not before DTSTART, from which the periods fall as they do from there."""
    begin = rule.start
    every = rule.interval
    freq = rule.get("FREQ")
    if since <= begin:
        return begin
    if freq in {"DAILY", "WEEKLY"}:
        days = every * (7 if freq == "WEEKLY" else 1)
        return begin + timedelta(days=(since - begin).days // days * days)
    months = every * (12 if freq == "YEARLY" else 1)
    passed = ((since.year - begin.year) * 12 + since.month - begin.month) // months * months
    if passed <= 0:
        return begin
    years, month = divmod(begin.month - 1 + passed, 12)
    return begin.replace(year=begin.year + years, month=month + 1, day=1)


def _complete_parts(rule: RecurrenceRule) -> Iterator[tuple[str, str]]:
    """The parts with what DTSTART says where they are silent, so that it may be moved."""
    begin = rule.start
    freq = rule.get("FREQ")
    said = {name for name, _ in rule.parts}
    yield from rule.parts
    told = {"BYHOUR": begin.hour, "BYMINUTE": begin.minute, "BYSECOND": begin.second}
    if freq == "YEARLY" and not said & {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"}:
        told |= {"BYMONTH": begin.month, "BYMONTHDAY": begin.day}
    if freq == "MONTHLY" and not said & {"BYDAY", "BYMONTHDAY"}:
        told |= {"BYMONTHDAY": begin.day}
    if freq == "WEEKLY" and "BYDAY" not in said:
        yield "BYDAY", ("MO", "TU", "WE", "TH", "FR", "SA", "SU")[begin.weekday()]
    yield from ((name, str(value)) for name, value in told.items() if name not in said)
