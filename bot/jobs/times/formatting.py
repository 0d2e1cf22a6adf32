"""Due times and rules told to people in plain words. Pure."""

from collections.abc import Sequence
from datetime import datetime

from bot.jobs.times import rrules as rules
from bot.jobs.times.rrules import Rule

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
_PLACES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
SHOWN = 3  # times that are told ahead


def moment(at: float, zone: str) -> str:
    """An epoch second as a local time: `Mon 23 Nov 2026, 08:00`."""
    return f"{datetime.fromtimestamp(at, rules.zone(zone)):%a %-d %b %Y, %H:%M}"


def times(few: Sequence[float], zone: str) -> str:
    """The next times of a job, and their zone."""
    told = " · ".join(moment(at, zone) for at in few[:SHOWN])
    return f"{told} ({zone})"


def rule(made: Rule) -> str:
    """A rule in words: `every 2 weeks on Monday at 09:30`."""
    until = made.get("UNTIL")
    last = f", until {datetime.strptime(until[:8], '%Y%m%d'):%-d %b %Y}" if until else ""  # noqa: DTZ007
    if made.step is not None:
        return f"{_each(made)}{last}"
    return f"{_each(made)}{_on(made)} at {_clock(made)}{last}"


def ago(seconds: float) -> str:
    """A length of time in one unit: `20 minutes`."""
    minutes = seconds / 60
    if minutes < 1.5:
        return "a minute"
    if minutes < 120:
        return f"{minutes:.0f} minutes"
    if minutes < 2880:
        return f"{minutes / 60:.0f} hours"
    return f"{minutes / 1440:.0f} days"


def _each(made: Rule) -> str:
    if made.get("BYDAY") == "MO,TU,WE,TH,FR" and made.interval == 1:
        return "every weekday"
    unit = _UNITS[made.get("FREQ")]
    if made.interval == 1:
        return f"every {unit}"
    return f"every {made.interval} {unit}s"


def _on(made: Rule) -> str:
    named = made.get("BYDAY")
    number = made.get("BYMONTHDAY")
    if named == "MO,TU,WE,TH,FR" and made.interval == 1:
        return ""
    if made.get("BYMONTH"):
        day = datetime(2024, int(made.get("BYMONTH")), int(number))  # noqa: DTZ001  # of a leap year
        return f" on {day:%-d %B}"
    if number:
        if number == "-1":
            return " on the last day"
        return f" on day {number}"
    if named and named[0] in "+-":
        return f" on the {_PLACES[int(named[:2])]} {_DAYS[named[2:]]}"
    if named:
        return " on " + _listed([_DAYS[code] for code in named.split(",")])
    return ""


def _clock(made: Rule) -> str:
    hours = [int(hour) for hour in made.get("BYHOUR", str(made.begin.hour)).split(",")]
    minutes = [int(minute) for minute in made.get("BYMINUTE", str(made.begin.minute)).split(",")]
    return _listed([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])


def _listed(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"
