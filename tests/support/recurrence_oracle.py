"""An independent reckoning of rules: no rule library, no alignment; it walks the days and asks the clocks of
a zone.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DayPredicate = Callable[[date], bool]


def iterate_clock(zone: ZoneInfo, day: date) -> Iterator[tuple[float, datetime]]:
    """What the clocks of a zone show around a day, every five minutes of real time."""
    begin = datetime.combine(day, time(), UTC) - timedelta(hours=15)
    for step in range(12 * 54):
        at = begin + timedelta(minutes=5 * step)
        yield at.timestamp(), at.astimezone(zone).replace(tzinfo=None)


def find_instant(zone: ZoneInfo, day: date, clock_time: time) -> float:
    """When the clocks show this first; if they jump over it, as long after the jump as it lies behind its
    begin.
    """
    wanted, before = datetime.combine(day, clock_time), None
    for moment, clock in iterate_clock(zone, day):
        if clock == wanted:
            return moment
        if before is not None and before < wanted < clock:
            return moment + (wanted - before).total_seconds() - 300
        before = clock
    raise AssertionError(f"no clock of {zone.key} ever shows {wanted}")


def list_instants(
    zone: ZoneInfo, begin: date, end: date, clock_time: time, is_wanted: DayPredicate
) -> list[float]:
    """The moments of a daily time on the wanted days of this span."""
    found, day = list[float](), begin
    while day < end:
        if is_wanted(day):
            found.append(_find_instant_fast(zone, day, clock_time))
        day += timedelta(days=1)
    return found


def _find_instant_fast(zone: ZoneInfo, day: date, clock_time: time) -> float:
    """Days on which nobody touches a clock need no walk."""
    noons = [datetime.combine(day + timedelta(days=n), time(12), zone).utcoffset() for n in (-1, 0, 1)]
    if len(set(noons)) > 1:
        return find_instant(zone, day, clock_time)
    offset = noons[1]
    assert offset is not None
    return (datetime.combine(day, clock_time, UTC) - offset).timestamp()
