"""Due times and rules told to people in plain words. Pure."""

from collections.abc import Sequence
from datetime import datetime

from bot.jobs.times import rrules as rules
from bot.jobs.times.rrules import RecurrenceRule

_DAYS = dict(
    zip(
        ("MO", "TU", "WE", "TH", "FR", "SA", "SU"),
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        strict=True,
    )
)
_UNITS = {
    "MINUTELY": "minute",
    "HOURLY": "hour",
    "DAILY": "day",
    "WEEKLY": "week",
    "MONTHLY": "month",
    "YEARLY": "year",
}
_ORDINAL_NAMES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
MAX_TIMES = 3  # times that are told ahead


def format_time(timestamp: float, zone: str) -> str:
    """An epoch second as a local time: `Mon 23 Nov 2026, 08:00`."""
    return f"{datetime.fromtimestamp(timestamp, rules.load_zone(zone)):%a %-d %b %Y, %H:%M}"


def format_times(timestamps: Sequence[float], zone: str) -> str:
    """The next times of a job, and their zone."""
    told = " · ".join(format_time(at, zone) for at in timestamps[:MAX_TIMES])
    return f"{told} ({zone})"


def format_recurrence(rule: RecurrenceRule) -> str:
    """A rule in words: `every 2 weeks on Monday at 09:30`."""
    until = rule.get("UNTIL")
    last = f", until {datetime.strptime(until[:8], '%Y%m%d'):%-d %b %Y}" if until else ""  # noqa: DTZ007
    if rule.step_seconds is not None:
        return f"{_format_interval(rule)}{last}"
    return f"{_format_interval(rule)}{_format_days(rule)} at {_format_times_of_day(rule)}{last}"


def format_duration(seconds: float) -> str:
    """A length of time in one unit: `20 minutes`."""
    minutes = seconds / 60
    if minutes < 1.5:
        return "a minute"
    if minutes < 120:
        return f"{minutes:.0f} minutes"
    if minutes < 2880:
        return f"{minutes / 60:.0f} hours"
    return f"{minutes / 1440:.0f} days"


def _format_interval(rule: RecurrenceRule) -> str:
    if rule.get("BYDAY") == "MO,TU,WE,TH,FR" and rule.interval == 1:
        return "every weekday"
    unit = _UNITS[rule.get("FREQ")]
    if rule.interval == 1:
        return f"every {unit}"
    return f"every {rule.interval} {unit}s"


def _format_days(rule: RecurrenceRule) -> str:
    named = rule.get("BYDAY")
    number = rule.get("BYMONTHDAY")
    if named == "MO,TU,WE,TH,FR" and rule.interval == 1:
        return ""
    if rule.get("BYMONTH"):
        day = datetime(2024, int(rule.get("BYMONTH")), int(number))  # noqa: DTZ001  # of a leap year
        return f" on {day:%-d %B}"
    if number:
        if number == "-1":
            return " on the last day"
        return f" on day {number}"
    if named and named[0] in "+-":
        return f" on the {_ORDINAL_NAMES[int(named[:2])]} {_DAYS[named[2:]]}"
    if named:
        return " on " + _join_words([_DAYS[code] for code in named.split(",")])
    return ""


def _format_times_of_day(rule: RecurrenceRule) -> str:
    hours = [int(hour) for hour in rule.get("BYHOUR", str(rule.start.hour)).split(",")]
    minutes = [int(minute) for minute in rule.get("BYMINUTE", str(rule.start.minute)).split(",")]
    return _join_words([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])


def _join_words(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"
