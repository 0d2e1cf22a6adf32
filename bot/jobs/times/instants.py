"""A single moment in words, in English and German: `in 2 hours`, `tomorrow at nine`, `am 24.12. um 18 Uhr`.
Pure.
"""

import re
from datetime import date, datetime, timedelta, tzinfo

from bot.jobs.times import clock_times as hours
from bot.jobs.times import dates as days
from bot.jobs.times import formatting as saying
from bot.jobs.times import rrules as rules
from bot.jobs.times.errors import UnclearTime

MAX_YEARS_AHEAD = 50  # years
JUST_PASSED_SECONDS = 60.0  # seconds; a moment that has just passed is told apart from one long ago

_UNITS = {
    "second": ("seconds", "second", "secs", "sec", "sekunden", "sekunde"),
    "minute": ("minutes", "minute", "mins", "min", "minuten", "m"),
    "hour": ("hours", "hour", "hrs", "hr", "h", "stunden", "stunde"),
    "day": ("days", "day", "tagen", "tage", "tag"),
    "week": ("weeks", "week", "wochen", "woche"),
    "month": ("months", "month", "monaten", "monate", "monat"),
    "year": ("years", "year", "jahren", "jahre", "jahr"),
}
UNITS = {word: unit for unit, words in _UNITS.items() for word in words}
UNIT_PATTERN = "|".join(sorted(UNITS, key=len, reverse=True))
WHEN_HELP = days.WHEN_HELP
SECONDS_PER_UNIT = {"second": 1, "minute": 60, "hour": 3600}
COUNT_PATTERN = (
    r"\d{1,6}(?:[.,]\d{1,2})?|anderthalb|eineinhalb|an?|eine[rnm]?|half an|half a|eine[rn]? halben?|a couple of|"
    "ein paar"
)
_FROM_NOW = re.compile(
    rf"(?:in|nach|within)\s+((?:(?:{COUNT_PATTERN})\s*(?:{UNIT_PATTERN})\b(?:\s*(?:,|and|und)\s*|\s*))+)"
)
_LATER = re.compile(rf"((?:(?:{COUNT_PATTERN})\s*(?:{UNIT_PATTERN})\b\s*)+)(?:from now|later|später)")
_AND_A_HALF = re.compile(r"\b(an?|\d{1,4}) (?:hours? and a half|and a half hours?)\b")
_SHORT_HOURS = re.compile(r"\b(\d{1,3})\s?h\s?(\d{1,2})(?:\s?m(?:in)?)?\b")
_SINGLE_SPAN = re.compile(rf"(?P<count>{COUNT_PATTERN})\s*(?P<unit>{UNIT_PATTERN})\b")


def find_instant(phrase: str, tz: tzinfo, now: float) -> float:
    """The epoch second a plain phrase means, later than `now`. Raises Unclear."""
    at = _parse_relative(phrase, tz, now)
    if at is None:
        at = rules.to_timestamp(_parse_calendar_time(phrase, rules.to_local_time(now, tz)), tz)
    if at <= now:
        raise build_past_error(now - at)
    if at > now + MAX_YEARS_AHEAD * 366 * 86_400:
        raise UnclearTime(f"That is more than {MAX_YEARS_AHEAD} years ahead. Say an earlier time.")
    return at


def is_relative(phrase: str) -> bool:
    """Whether a plain phrase counts from now, and so needs no time of day."""
    return bool(_FROM_NOW.match(phrase) or _LATER.match(phrase))


def _parse_relative(phrase: str, tz: tzinfo, now: float) -> float | None:
    """`in 2 hours` by elapsed time, `in 2 weeks at 9` by the calendar; None if it is said otherwise."""
    phrase = _AND_A_HALF.sub(lambda one: f"{one[1] if one[1].isdigit() else 1}.5 hours", phrase)
    phrase = _SHORT_HOURS.sub(r"\1 hours \2 minutes", phrase)
    found = _FROM_NOW.match(phrase) or _LATER.match(phrase)
    if found is None:
        return None
    spans = [(_parse_count(one["count"]), UNITS[one["unit"]]) for one in _SINGLE_SPAN.finditer(found[1])]
    _check_spans(spans)
    rest = hours.find_times(phrase[found.end() :].strip(" ,"))
    start = rules.to_local_time(now, tz)
    by_calendar = [(count, unit) for count, unit in spans if unit not in SECONDS_PER_UNIT]
    day = start.date()
    for count, unit in by_calendar:
        day = _add_to_day(day, count, unit)
    if days.strip_leading_words(rest.rest):
        raise UnclearTime(WHEN_HELP, has_reason=False)
    if rest.times:
        if len(by_calendar) < len(spans) or len(rest.times) > 1:
            raise UnclearTime(
                "Say either how long from now or the time of day, such as: in 2 hours, in 3 days at 9:00."
            )
        return rules.to_timestamp(datetime.combine(day, rest.times[0]), tz)
    if by_calendar:
        at = rules.to_timestamp(datetime.combine(day, start.time()), tz)
    else:
        at = now
    return at + sum(count * SECONDS_PER_UNIT[unit] for count, unit in spans if unit in SECONDS_PER_UNIT)


def _check_spans(spans: list[tuple[float, str]]) -> None:
    if any(unit == "second" for _, unit in spans):
        raise UnclearTime("I keep time by minutes. Say it as: in 1 minute.")
    if any(count != int(count) and unit not in SECONDS_PER_UNIT for count, unit in spans):
        raise UnclearTime("Half a day or half a week is not clear to me. Say it in hours or days.")
    years = {
        "hour": 1 / 8760,
        "minute": 1 / 525_600,
        "day": 1 / 365,
        "week": 1 / 52,
        "month": 1 / 12,
        "year": 1.0,
    }
    if sum(count * years[unit] for count, unit in spans) > MAX_YEARS_AHEAD:
        raise UnclearTime(f"That is more than {MAX_YEARS_AHEAD} years ahead. Say an earlier time.")


def _parse_calendar_time(phrase: str, now: datetime) -> datetime:
    found = hours.find_times(phrase)
    if len(found.times) > 1:
        raise UnclearTime(hours.SEVERAL_TIMES, has_reason=False)
    if not found.times and days.strip_leading_words(found.rest) in {"", "today", "heute"}:
        raise UnclearTime("At what time? Say it as: today at 17:00.", has_reason=bool(found.rest))
    at = found.times[0] if found.times else hours.MORNING
    if found.is_after_midnight and found.rest:
        raise UnclearTime("That is after midnight. Say the day it is by then, such as: tomorrow at 1:00.")
    return datetime.combine(days.find_date(found.rest, now, at), at)


def _parse_count(text: str) -> float:
    if text[0].isdigit():
        return float(text.replace(",", "."))
    if "hal" in text:
        if text in {"anderthalb", "eineinhalb"}:
            return 1.5
        return 0.5
    if text in {"a couple of", "ein paar"}:
        return 2
    return 1


def _add_to_day(day: date, count: float, unit: str) -> date:
    if unit in {"day", "week"}:
        return day + timedelta(days=int(count) * (7 if unit == "week" else 1))
    return days.add_months(day, int(count) * (12 if unit == "year" else 1))


def build_past_error(seconds_ago: float) -> UnclearTime:
    """What is said of a moment that was so many seconds ago."""
    if seconds_ago < JUST_PASSED_SECONDS:
        return UnclearTime("That is now. Say a time to come, such as: in 10 minutes.")
    return UnclearTime(
        f"That was {saying.format_duration(seconds_ago)} ago. Say a time to come, such as: tomorrow at 9."
    )
