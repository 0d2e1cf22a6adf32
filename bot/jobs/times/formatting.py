"""Due times and rules in plain words for people. Pure."""

from collections.abc import Sequence
from datetime import datetime

from bot.jobs.times import rrules
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
MAX_TIMES = 3  # next times that a text lists


def format_time(timestamp: float, zone: str) -> str:
    """Format an epoch second as a local time: `Mon 23 Nov 2026, 08:00`."""
    return f"{datetime.fromtimestamp(timestamp, rrules.load_zone(zone)):%a %-d %b %Y, %H:%M}"


def format_times(timestamps: Sequence[float], zone: str) -> str:
    """Format the next times of a job (epoch seconds), and their zone."""
    times = " · ".join(format_time(timestamp, zone) for timestamp in timestamps[:MAX_TIMES])
    return f"{times} ({zone})"


def format_recurrence(rule: RecurrenceRule) -> str:
    """Format a rule in words: `every 2 weeks on Monday at 09:30`."""
    text = _format_interval(rule)
    if rule.step_seconds is None:
        text += f"{_format_days(rule)} at {_format_times_of_day(rule)}"
    if until := rule.get("UNTIL"):
        last_day = datetime.strptime(until[:8], "%Y%m%d")  # noqa: DTZ007
        text += f", until {last_day:%-d %b %Y}"
    return text


def format_duration(seconds: float) -> str:
    """Format a length of time in one unit: `20 minutes`."""
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
    weekdays = rule.get("BYDAY")
    number = rule.get("BYMONTHDAY")
    if weekdays == "MO,TU,WE,TH,FR" and rule.interval == 1:
        return ""
    if rule.get("BYMONTH"):
        day = datetime(2024, int(rule.get("BYMONTH")), int(number))  # noqa: DTZ001  # of a leap year
        return f" on {day:%-d %B}"
    if number:
        if number == "-1":
            return " on the last day"
        return f" on day {number}"
    if weekdays and weekdays[0] in "+-":
        return f" on the {_ORDINAL_NAMES[int(weekdays[:2])]} {_DAYS[weekdays[2:]]}"
    if weekdays:
        return " on " + _join_words([_DAYS[code] for code in weekdays.split(",")])
    return ""


def _format_times_of_day(rule: RecurrenceRule) -> str:
    hours = [int(hour) for hour in rule.get("BYHOUR", str(rule.start.hour)).split(",")]
    minutes = [int(minute) for minute in rule.get("BYMINUTE", str(rule.start.minute)).split(",")]
    return _join_words([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])


def _join_words(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"
