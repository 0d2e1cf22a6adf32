"""Times as reports write them, and when days begin in a zone.

Apart from the reports, which answers need nothing of.
"""

from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo


def format_utc(seconds: float) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_local(seconds: float, zone: str) -> str:
    """A time in a zone, to the second."""
    return datetime.fromtimestamp(seconds, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S")


def start_of_day(now: float, zone: tzinfo = UTC, *, days_later: int = 0) -> float:
    """When the day of `now` began in a zone, or one so many days later."""
    day = datetime.fromtimestamp(now, zone).date() + timedelta(days=days_later)
    return datetime.combine(day, time(), zone).timestamp()
