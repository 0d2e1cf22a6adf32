"""Rules of recurrence as they are stored, and the instants they come to. Pure.

A rule is two lines of iCalendar: DTSTART, a local time without a zone, and RRULE. A local time that does not
exist becomes an instant as far behind the gap as the time lies in it; of one that exists twice it is the
first.
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
HORIZON = timedelta(days=366 * 100)  # a rule that comes to nothing until then never comes again
_SECONDS_PER_STEP = {"MINUTELY": 60, "HOURLY": 3600}
_DAYS_PER_PERIOD = {"DAILY": 1, "WEEKLY": 7}


@dataclass(frozen=True, slots=True)
class RecurrenceRule:
    """A recurrence: the local time it is counted from, and the parts of its RRULE by name."""

    start: datetime
    parts: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> "RecurrenceRule":
        """Read a rule as `text` has it, or one written by hand that leaves out what its DTSTART says."""
        start, _, rule = text.partition("\n")
        parts = dict(part.split("=", 1) for part in rule.removeprefix("RRULE:").strip().split(";"))
        stamp = start.strip().removeprefix("DTSTART:")
        return cls(datetime.strptime(stamp, STAMP_FORMAT), tuple(parts.items()))  # noqa: DTZ007

    @property
    def text(self) -> str:
        """The rule as it is stored."""
        rule = ";".join(f"{name}={value}" for name, value in self.parts)
        return f"DTSTART:{self.start.strftime(STAMP_FORMAT)}\nRRULE:{rule}"

    def get(self, name: str, default: str = "") -> str:
        """Return a part of the RRULE, such as `FREQ`."""
        return dict(self.parts).get(name, default)

    @property
    def interval(self) -> int:
        """The number of periods from one time to the next: 2 for every second week."""
        return int(self.get("INTERVAL", "1"))

    @property
    def step_seconds(self) -> int | None:
        """The seconds between two times of a rule by elapsed time; None for one that goes by the calendar."""
        seconds = _SECONDS_PER_STEP.get(self.get("FREQ"))
        if seconds:
            return seconds * self.interval
        return None


@cache
def load_zone(name: str) -> tzinfo:
    """Return the time zone of an IANA name. Raises ZoneInfoNotFoundError."""
    if name == "UTC":
        return UTC
    return ZoneInfo(name)


def to_timestamp(local_time: datetime, tz: tzinfo) -> float:
    """Return the epoch second of a local time without a zone."""
    return local_time.replace(tzinfo=tz, fold=0).timestamp()


def to_local_time(timestamp: float, tz: tzinfo) -> datetime:
    """Return the local time, without a zone, of an epoch second."""
    return datetime.fromtimestamp(timestamp, tz).replace(tzinfo=None)


def iterate_times(rule: RecurrenceRule, tz: tzinfo, after: float) -> Iterator[float]:
    """Yield the epoch seconds the rule comes to after this one, in order and each once."""
    if rule.step_seconds is not None:
        start = to_timestamp(rule.start, tz)
        yield from takewhile(_find_end(rule, tz).__ge__, _iterate_elapsed(start, rule.step_seconds, after))
        return
    last = after
    for local_time in _iterate_calendar(rule, to_local_time(after, tz) - MARGIN):
        due = to_timestamp(local_time, tz)
        if due > last:
            yield due
            last = due


def find_next(rule: RecurrenceRule, tz: tzinfo, after: float) -> float | None:
    """Return the first epoch second after this one, None if there is none within a century."""
    return next(iterate_times(rule, tz, after), None)


def find_next_few(rule: RecurrenceRule, tz: tzinfo, after: float, count: int) -> tuple[float, ...]:
    """Return the next few epoch seconds."""
    return tuple(islice(iterate_times(rule, tz, after), count))


def find_latest(rule: RecurrenceRule, tz: tzinfo, first: float, now: float) -> float:
    """Return the last epoch second up to `now` of a rule.

    The rule was due at `first`, which is not later than `now`.
    """
    if rule.step_seconds is not None:
        elapsed = min(now, _find_end(rule, tz)) - first
        return first + elapsed // rule.step_seconds * rule.step_seconds
    latest = first
    for days in (2, 40, 800, 366 * 10):  # a rule that comes often is not computed from far back
        since = max(first, now - days * 86_400)
        for due in iterate_times(rule, tz, since):
            if due > now:
                break
            latest = due
        if latest > first or since == first:
            break
    return latest


def _find_end(rule: RecurrenceRule, tz: tzinfo) -> float:
    """The epoch second after which a rule that goes by elapsed time comes no more."""
    assert rule.step_seconds is not None
    end = math.inf
    if until := rule.get("UNTIL"):
        end = to_timestamp(datetime.strptime(until, STAMP_FORMAT), tz)  # noqa: DTZ007
    if count := rule.get("COUNT"):
        end = min(end, to_timestamp(rule.start, tz) + (int(count) - 1) * rule.step_seconds)
    return end


def _iterate_elapsed(start: float, step_seconds: int, after: float) -> Iterator[float]:
    number = max(0, int((after - start) // step_seconds) + 1)
    while True:
        yield start + number * step_seconds
        number += 1


def _iterate_calendar(rule: RecurrenceRule, since: datetime) -> Iterator[datetime]:
    """The local times of a rule since `since`, or DTSTART.

    The library counts from DTSTART, so DTSTART is moved near.
    """
    from dateutil.rrule import rrulestr  # a gateway without jobs does not need it

    start = rule.start if rule.get("COUNT") else _find_nearby_start(rule, since)
    parts = dict(_complete_parts(rule))
    if not {"UNTIL", "COUNT"} & parts.keys():
        parts["UNTIL"] = (max(start, since) + HORIZON).strftime(STAMP_FORMAT)
    times = rrulestr(";".join(f"{name}={value}" for name, value in parts.items()), dtstart=start)
    yield from times.xafter(max(since, rule.start), inc=True)


def _find_nearby_start(rule: RecurrenceRule, since: datetime) -> datetime:
    """A start near `since`, not before DTSTART, from which the periods fall as they do from DTSTART."""
    start = rule.start
    freq = rule.get("FREQ")
    if since <= start:
        return start
    if freq in _DAYS_PER_PERIOD:
        days = rule.interval * _DAYS_PER_PERIOD[freq]
        return start + timedelta(days=(since - start).days // days * days)
    months = rule.interval
    if freq == "YEARLY":
        months *= 12
    passed = ((since.year - start.year) * 12 + since.month - start.month) // months * months
    if passed <= 0:
        return start
    years, month = divmod(start.month - 1 + passed, 12)
    return start.replace(year=start.year + years, month=month + 1, day=1)


def _complete_parts(rule: RecurrenceRule) -> Iterator[tuple[str, str]]:
    """The parts, with what DTSTART implies where they leave it out, so that DTSTART may be moved."""
    start = rule.start
    freq = rule.get("FREQ")
    present = {name for name, _ in rule.parts}
    yield from rule.parts
    implied = {"BYHOUR": start.hour, "BYMINUTE": start.minute, "BYSECOND": start.second}
    if freq == "YEARLY" and not present & {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"}:
        implied |= {"BYMONTH": start.month, "BYMONTHDAY": start.day}
    if freq == "MONTHLY" and not present & {"BYDAY", "BYMONTHDAY"}:
        implied |= {"BYMONTHDAY": start.day}
    if freq == "WEEKLY" and "BYDAY" not in present:
        yield "BYDAY", ("MO", "TU", "WE", "TH", "FR", "SA", "SU")[start.weekday()]
    yield from ((name, str(value)) for name, value in implied.items() if name not in present)
