"""Due times and rules in plain words for people. Pure."""

from collections.abc import Sequence
from datetime import date, timedelta

from bot.jobs.times import rrules
from bot.jobs.times.rrules import RecurrenceRule
from bot.translations.formats import format_date, format_list, format_moment, format_weekday
from bot.translations.translator import Translator, translatables

_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_EACH_WEEKDAY = translatables(  # follows “on”: a language may need other forms than of the day alone
    "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays"
)
_NTH_WEEKDAYS = translatables(  # of a month
    "{ordinal} Monday",
    "{ordinal} Tuesday",
    "{ordinal} Wednesday",
    "{ordinal} Thursday",
    "{ordinal} Friday",
    "{ordinal} Saturday",
    "{ordinal} Sunday",
)
_LAST_WEEKDAYS = translatables(  # of a month
    "last Monday",
    "last Tuesday",
    "last Wednesday",
    "last Thursday",
    "last Friday",
    "last Saturday",
    "last Sunday",
)
_ORDINALS = translatables("first", "second", "third", "fourth", "fifth")
_WORKING_WEEK = "MO,TU,WE,TH,FR"
_LEAP_YEAR = 2000
MAX_TIMES = 3  # next times that a text lists


def format_time(translate: Translator, timestamp: float, zone: str) -> str:
    """Format an epoch second as a local time: `Mon 23 Nov 2026, 08:00`."""
    return format_moment(translate, timestamp, rrules.load_zone(zone))


def format_near_time(translate: Translator, timestamp: float, zone: str, now: float) -> str:
    """Format an epoch second as briefly as it is clear: `18:10`, `tomorrow 08:00`, or with its day."""
    tz = rrules.load_zone(zone)
    local_time = rrules.to_local_time(timestamp, tz)
    today = rrules.to_local_time(now, tz).date()
    if local_time.date() == today:
        return f"{local_time:%H:%M}"
    if local_time.date() == today + timedelta(days=1):
        return translate("tomorrow {time}", time=f"{local_time:%H:%M}")
    return format_moment(translate, timestamp, tz)


def format_times(translate: Translator, timestamps: Sequence[float], zone: str) -> str:
    """Format the next times of a job (epoch seconds), and their zone."""
    times = " · ".join(format_time(translate, timestamp, zone) for timestamp in timestamps[:MAX_TIMES])
    return f"{times} ({format_zone(zone)})"


def format_zone(zone: str) -> str:
    """Format the name of a zone for people."""
    return zone.replace("Etc/UTC", "UTC")


def format_recurrence(translate: Translator, rule: RecurrenceRule) -> str:
    """Format a rule in words: `every 2 weeks on Monday at 09:30`."""
    text = _format_period(translate, rule)
    if until := rule.get("UNTIL"):
        last_day = date.fromisoformat(until[:8])
        return translate("{recurrence}, until {day}", recurrence=text, day=format_date(translate, last_day))
    return text


def _format_period(translate: Translator, rule: RecurrenceRule) -> str:
    """Format a rule without its end; with a number it is 2 or more, so there is no singular."""
    count = rule.interval
    time = _format_times_of_day(translate, rule)
    match rule.get("FREQ"):
        case "MINUTELY" if count == 1:
            return translate("every minute")
        case "MINUTELY":
            return translate.plural("every {count} minutes", "every {count} minutes", count)
        case "HOURLY" if count == 1:
            return translate("every hour")
        case "HOURLY":
            return translate.plural("every {count} hours", "every {count} hours", count)
        case "DAILY" if count == 1:
            return translate("every day at {time}", time=time)
        case "DAILY":
            return translate.plural(
                "every {count} days at {time}", "every {count} days at {time}", count, time=time
            )
        case "WEEKLY":
            return _format_weeks(translate, rule, time)
        case "MONTHLY":
            return _format_months(translate, rule, time)
    day = date(_LEAP_YEAR, int(rule.get("BYMONTH")), int(rule.get("BYMONTHDAY")))
    return translate("every year on {day} at {time}", day=format_date(translate, day, "MMMMd"), time=time)


def _format_weeks(translate: Translator, rule: RecurrenceRule, time: str) -> str:
    weekdays = [_CODES.index(code) for code in rule.get("BYDAY").split(",")]
    if rule.interval > 1:
        days = format_list(translate, [format_weekday(translate, day) for day in weekdays])
        return translate.plural(
            "every {count} weeks on {days} at {time}",
            "every {count} weeks on {days} at {time}",
            rule.interval,
            days=days,
            time=time,
        )
    if rule.get("BYDAY") == _WORKING_WEEK:
        return translate("every weekday at {time}", time=time)
    days = format_list(translate, [translate(_EACH_WEEKDAY[day]) for day in weekdays])
    return translate("on {days} at {time}", days=days, time=time)


def _format_months(translate: Translator, rule: RecurrenceRule, time: str) -> str:
    count = rule.interval
    if weekday := rule.get("BYDAY"):
        day = _format_weekday_of_month(translate, weekday)
        if count == 1:
            return translate("every month on the {day} at {time}", day=day, time=time)
        return translate.plural(
            "every {count} months on the {day} at {time}",
            "every {count} months on the {day} at {time}",
            count,
            day=day,
            time=time,
        )
    day = rule.get("BYMONTHDAY")
    if day == "-1" and count == 1:
        return translate("every month on the last day at {time}", time=time)
    if day == "-1":
        return translate.plural(
            "every {count} months on the last day at {time}",
            "every {count} months on the last day at {time}",
            count,
            time=time,
        )
    if count == 1:
        return translate("every month on day {day} at {time}", day=day, time=time)
    return translate.plural(
        "every {count} months on day {day} at {time}",
        "every {count} months on day {day} at {time}",
        count,
        day=day,
        time=time,
    )


def _format_weekday_of_month(translate: Translator, weekday: str) -> str:
    """Format a weekday of a month, such as `1MO` or `-1FR`: `first Monday`, `last Friday`."""
    position, day = int(weekday[:-2]), _CODES.index(weekday[-2:])
    if position == -1:
        return translate(_LAST_WEEKDAYS[day])
    return translate(_NTH_WEEKDAYS[day], ordinal=translate(_ORDINALS[position - 1]))


def _format_times_of_day(translate: Translator, rule: RecurrenceRule) -> str:
    hours = [int(hour) for hour in rule.get("BYHOUR", str(rule.start.hour)).split(",")]
    minutes = [int(minute) for minute in rule.get("BYMINUTE", str(rule.start.minute)).split(",")]
    return format_list(translate, [f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])
