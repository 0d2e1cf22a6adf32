"""An independent computation of rules, without a rule library.

It walks the days and reads the clocks of a zone.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DayPredicate = Callable[[date], bool]


def iterate_clock(zone: ZoneInfo, day: date) -> Iterator[tuple[float, datetime]]:
    """What the clocks of a zone show around a day, every five minutes of real time, with the epoch second."""
    start = datetime.combine(day, time(), UTC) - timedelta(hours=15)
    for step in range(12 * 54):
        instant = start + timedelta(minutes=5 * step)
        yield instant.timestamp(), instant.astimezone(zone).replace(tzinfo=None)


def find_instant(zone: ZoneInfo, day: date, clock_time: time) -> float:
    """Return when the clocks show this time first.

    If they jump over it: as long after the jump as it lies behind the jump's start.
    """
    target = datetime.combine(day, clock_time)
    previous = None
    for moment, clock in iterate_clock(zone, day):
        if clock == target:
            return moment
        if previous is not None and previous < target < clock:
            return moment + (target - previous).total_seconds() - 300
        previous = clock
    raise AssertionError(f"no clock of {zone.key} ever shows {target}")


def list_instants(
    zone: ZoneInfo, begin: date, end: date, clock_time: time, is_wanted: DayPredicate
) -> list[float]:
    """The moments of a daily time on the wanted days of this span."""
    instants: list[float] = []
    day = begin
    while day < end:
        if is_wanted(day):
            instants.append(_find_instant_fast(zone, day, clock_time))
        day += timedelta(days=1)
    return instants


def _find_instant_fast(zone: ZoneInfo, day: date, clock_time: time) -> float:
    """The same without a walk on days whose clocks do not change."""
    offsets = [datetime.combine(day + timedelta(days=n), time(12), zone).utcoffset() for n in (-1, 0, 1)]
    if len(set(offsets)) > 1:
        return find_instant(zone, day, clock_time)
    offset = offsets[1]
    assert offset is not None
    return (datetime.combine(day, clock_time, UTC) - offset).timestamp()
