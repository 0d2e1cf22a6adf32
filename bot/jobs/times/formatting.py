"""Due times and rules in plain words for people. Pure."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

from bot.jobs.times import rrules
from bot.jobs.times.rrules import RecurrenceRule
from bot.translations.dates import format_day, format_moment
from bot.translations.translator import Translator, translatable

_WEEKDAYS: Final = {
    "MO": translatable("Monday"),
    "TU": translatable("Tuesday"),
    "WE": translatable("Wednesday"),
    "TH": translatable("Thursday"),
    "FR": translatable("Friday"),
    "SA": translatable("Saturday"),
    "SU": translatable("Sunday"),
}
_EACH_WEEKDAY: Final = {  # follows “on”: a language may need other forms than of the day alone
    "MO": translatable("Mondays"),
    "TU": translatable("Tuesdays"),
    "WE": translatable("Wednesdays"),
    "TH": translatable("Thursdays"),
    "FR": translatable("Fridays"),
    "SA": translatable("Saturdays"),
    "SU": translatable("Sundays"),
}
_NTH_WEEKDAYS: Final = {  # of a month
    "MO": translatable("{ordinal} Monday"),
    "TU": translatable("{ordinal} Tuesday"),
    "WE": translatable("{ordinal} Wednesday"),
    "TH": translatable("{ordinal} Thursday"),
    "FR": translatable("{ordinal} Friday"),
    "SA": translatable("{ordinal} Saturday"),
    "SU": translatable("{ordinal} Sunday"),
}
_LAST_WEEKDAYS: Final = {  # of a month
    "MO": translatable("last Monday"),
    "TU": translatable("last Tuesday"),
    "WE": translatable("last Wednesday"),
    "TH": translatable("last Thursday"),
    "FR": translatable("last Friday"),
    "SA": translatable("last Saturday"),
    "SU": translatable("last Sunday"),
}
_MONTHS: Final = (
    translatable("January"),
    translatable("February"),
    translatable("March"),
    translatable("April"),
    translatable("May"),
    translatable("June"),
    translatable("July"),
    translatable("August"),
    translatable("September"),
    translatable("October"),
    translatable("November"),
    translatable("December"),
)
_ORDINALS: Final = {
    1: translatable("first"),
    2: translatable("second"),
    3: translatable("third"),
    4: translatable("fourth"),
    5: translatable("fifth"),
}
_WORKING_WEEK = "MO,TU,WE,TH,FR"
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


def format_full_day(translate: Translator, day: date) -> str:
    """Format a day with its month's whole name: `24 December 2026`."""
    return translate(
        "{day} {month} {year}", day=day.day, month=translate(_MONTHS[day.month - 1]), year=day.year
    )


def format_weekday(translate: Translator, day: date) -> str:
    """Format the weekday of a day: `Thursday`."""
    return translate(tuple(_WEEKDAYS.values())[day.weekday()])


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
        tz = rrules.load_zone("UTC")
        last_day = rrules.to_timestamp(datetime.strptime(until[:8], "%Y%m%d"), tz)  # noqa: DTZ007
        return translate(
            "{recurrence}, until {day}", recurrence=text, day=format_day(translate, last_day, tz)
        )
    return text


def format_duration(translate: Translator, seconds: float) -> str:
    """Format a length of time in one unit: `20 minutes`."""
    minutes = seconds / 60
    if minutes < 120:
        return translate.plural("a minute", "{count} minutes", max(1, round(minutes)))
    if minutes < 2880:
        return translate.plural("an hour", "{count} hours", round(minutes / 60))
    return translate.plural("a day", "{count} days", round(minutes / 1440))


def _format_period(translate: Translator, rule: RecurrenceRule) -> str:
    if rule.interval == 1 or rule.get("FREQ") == "YEARLY":
        return _format_every_period(translate, rule)
    return _format_every_few_periods(translate, rule)


def _format_every_period(translate: Translator, rule: RecurrenceRule) -> str:
    """Format a rule without a number: `every day at 08:00`."""
    match rule.get("FREQ"):
        case "MINUTELY":
            return translate("every minute")
        case "HOURLY":
            return translate("every hour")
        case "DAILY":
            return translate("every day at {time}", time=_format_times_of_day(translate, rule))
        case "WEEKLY":
            return _format_every_week(translate, rule)
        case "MONTHLY":
            return _format_every_month(translate, rule)
    return translate(
        "every year on {day} {month} at {time}",
        day=rule.get("BYMONTHDAY"),
        month=translate(_MONTHS[int(rule.get("BYMONTH")) - 1]),
        time=_format_times_of_day(translate, rule),
    )


def _format_every_week(translate: Translator, rule: RecurrenceRule) -> str:
    time = _format_times_of_day(translate, rule)
    codes = rule.get("BYDAY")
    if codes == _WORKING_WEEK:
        return translate("every weekday at {time}", time=time)
    days = _join_words(translate, [translate(_EACH_WEEKDAY[code]) for code in codes.split(",")])
    return translate("on {days} at {time}", days=days, time=time)


def _format_every_month(translate: Translator, rule: RecurrenceRule) -> str:
    time = _format_times_of_day(translate, rule)
    if weekday := rule.get("BYDAY"):
        day = _format_weekday_of_month(translate, weekday)
        return translate("every month on the {day} at {time}", day=day, time=time)
    if rule.get("BYMONTHDAY") == "-1":
        return translate("every month on the last day at {time}", time=time)
    return translate("every month on day {day} at {time}", day=rule.get("BYMONTHDAY"), time=time)


def _format_every_few_periods(translate: Translator, rule: RecurrenceRule) -> str:
    """Format a rule with a number, 2 or more: `every 2 days at 08:00`; so there is no singular."""
    count = rule.interval
    match rule.get("FREQ"):
        case "MINUTELY":
            return translate.plural("every {count} minutes", "every {count} minutes", count)
        case "HOURLY":
            return translate.plural("every {count} hours", "every {count} hours", count)
        case "DAILY":
            time = _format_times_of_day(translate, rule)
            return translate.plural(
                "every {count} days at {time}", "every {count} days at {time}", count, time=time
            )
        case "WEEKLY":
            return _format_every_few_weeks(translate, rule)
    return _format_every_few_months(translate, rule)


def _format_every_few_weeks(translate: Translator, rule: RecurrenceRule) -> str:
    time = _format_times_of_day(translate, rule)
    days = _join_words(translate, [translate(_WEEKDAYS[code]) for code in rule.get("BYDAY").split(",")])
    return translate.plural(
        "every {count} weeks on {days} at {time}",
        "every {count} weeks on {days} at {time}",
        rule.interval,
        days=days,
        time=time,
    )


def _format_every_few_months(translate: Translator, rule: RecurrenceRule) -> str:
    time = _format_times_of_day(translate, rule)
    if weekday := rule.get("BYDAY"):
        day = _format_weekday_of_month(translate, weekday)
        return translate.plural(
            "every {count} months on the {day} at {time}",
            "every {count} months on the {day} at {time}",
            rule.interval,
            day=day,
            time=time,
        )
    if rule.get("BYMONTHDAY") == "-1":
        return translate.plural(
            "every {count} months on the last day at {time}",
            "every {count} months on the last day at {time}",
            rule.interval,
            time=time,
        )
    return translate.plural(
        "every {count} months on day {day} at {time}",
        "every {count} months on day {day} at {time}",
        rule.interval,
        day=rule.get("BYMONTHDAY"),
        time=time,
    )


def _format_weekday_of_month(translate: Translator, weekday: str) -> str:
    """Format a weekday of a month, such as `1MO` or `-1FR`: `first Monday`, `last Friday`."""
    position, code = int(weekday[:-2]), weekday[-2:]
    if position == -1:
        return translate(_LAST_WEEKDAYS[code])
    return translate(_NTH_WEEKDAYS[code], ordinal=translate(_ORDINALS[position]))


def _format_times_of_day(translate: Translator, rule: RecurrenceRule) -> str:
    hours = [int(hour) for hour in rule.get("BYHOUR", str(rule.start.hour)).split(",")]
    minutes = [int(minute) for minute in rule.get("BYMINUTE", str(rule.start.minute)).split(",")]
    return _join_words(translate, [f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])


def _join_words(translate: Translator, words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return translate("{words} and {last_word}", words=", ".join(words[:-1]), last_word=words[-1])
