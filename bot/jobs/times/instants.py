"""Single moments in words, in English and German.

Such as `in 2 hours`, `tomorrow at nine`, `am 24.12. um 18 Uhr`. Pure.
"""

import re
from datetime import date, datetime, timedelta, tzinfo
from functools import partial

from bot.jobs.times import clock_times, dates, rrules
from bot.jobs.times.zones import UnclearTime
from bot.translations.formats import format_ago
from bot.translations.translator import translatable

MAX_YEARS_AHEAD = 50
JUST_PASSED_SECONDS = 60.0  # a moment that has just passed gets another answer than one long ago

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
WHEN_HELP = dates.WHEN_HELP
TOO_FAR_AHEAD = translatable("That's more than {count} years away. Pick an earlier time.")
SECONDS_PER_UNIT = {"second": 1, "minute": 60, "hour": 3600}
COUNT_PATTERN = (
    r"\d{1,6}(?:[.,]\d{1,2})?|(?:anderthalb|eineinhalb|an?|eine[rnm]?|half an|half a|eine[rn]? halben?|"
    r"a couple of|ein paar)\b"
)
_FROM_NOW = re.compile(
    rf"(?:in|nach|within)\s+((?:(?:{COUNT_PATTERN})\s*(?:{UNIT_PATTERN})\b(?:\s*(?:,|and|und)\s*|\s*))+)"
)
_LATER = re.compile(rf"((?:(?:{COUNT_PATTERN})\s*(?:{UNIT_PATTERN})\b\s*)+)(?:from now|later|später)")
_AND_A_HALF = re.compile(r"\b(an?|\d{1,4}) (?:hours? and a half|and a half hours?)\b")
_SHORT_HOURS = re.compile(r"\b(\d{1,3})\s?h\s?(\d{1,2})(?:\s?m(?:in)?)?\b")
_SINGLE_SPAN = re.compile(rf"(?P<count>{COUNT_PATTERN})\s*(?P<unit>{UNIT_PATTERN})\b")


def find_instant(phrase: str, tz: tzinfo, now: float) -> float:
    """Return the epoch second a plain phrase means, later than `now`. Raises UnclearTime."""
    instant = _parse_relative(phrase, tz, now)
    if instant is None:
        instant = rrules.to_timestamp(_parse_calendar_time(phrase, rrules.to_local_time(now, tz)), tz)
    if instant <= now:
        raise build_past_error(now - instant)
    if instant > now + MAX_YEARS_AHEAD * 366 * 86_400:
        raise UnclearTime(TOO_FAR_AHEAD, count=MAX_YEARS_AHEAD)
    return instant


def is_relative(phrase: str) -> bool:
    """Tell whether a plain phrase counts from now, and so needs no time of day."""
    return bool(_FROM_NOW.match(phrase) or _LATER.match(phrase))


def _parse_relative(phrase: str, tz: tzinfo, now: float) -> float | None:
    """`in 2 hours` by elapsed time, `in 2 weeks at 9` by the calendar; None for any other phrase."""
    phrase = _AND_A_HALF.sub(_format_and_a_half, phrase)
    phrase = _SHORT_HOURS.sub(r"\1 hours \2 minutes", phrase)
    match = _FROM_NOW.match(phrase) or _LATER.match(phrase)
    if match is None:
        return None
    spans = [(_parse_count(span["count"]), UNITS[span["unit"]]) for span in _SINGLE_SPAN.finditer(match[1])]
    _check_spans(spans)
    times_of_day = clock_times.find_times(phrase[match.end() :].strip(" ,"))
    start = rrules.to_local_time(now, tz)
    by_calendar = [(count, unit) for count, unit in spans if unit not in SECONDS_PER_UNIT]
    day = start.date()
    for count, unit in by_calendar:
        day = _add_to_day(day, count, unit)
    if dates.strip_leading_words(times_of_day.rest):
        raise UnclearTime(WHEN_HELP, has_reason=False)
    if times_of_day.times:
        if len(by_calendar) < len(spans) or len(times_of_day.times) > 1:
            raise UnclearTime(
                translatable(
                    "Say either how long from now or the time of day, such as `in 2 hours` or "
                    "`in 3 days at 9:00`."
                )
            )
        return rrules.to_timestamp(datetime.combine(day, times_of_day.times[0]), tz)
    elapsed = sum(count * SECONDS_PER_UNIT[unit] for count, unit in spans if unit in SECONDS_PER_UNIT)
    if by_calendar:
        return rrules.to_timestamp(datetime.combine(day, start.time()), tz) + elapsed
    return now + elapsed


def _format_and_a_half(match: re.Match[str]) -> str:
    """`an hour and a half` as `1.5 hours`."""
    count = match[1] if match[1].isdigit() else 1
    return f"{count}.5 hours"


def _check_spans(spans: list[tuple[float, str]]) -> None:
    if any(unit == "second" for _, unit in spans):
        raise UnclearTime(translatable("I can only count in minutes. Try `in 1 minute`."))
    if any(count != int(count) and unit not in SECONDS_PER_UNIT for count, unit in spans):
        raise UnclearTime(
            translatable("I can't tell what half a day or week means. Say it in hours or days.")
        )
    years = {
        "hour": 1 / 8760,
        "minute": 1 / 525_600,
        "day": 1 / 365,
        "week": 1 / 52,
        "month": 1 / 12,
        "year": 1.0,
    }
    if sum(count * years[unit] for count, unit in spans) > MAX_YEARS_AHEAD:
        raise UnclearTime(TOO_FAR_AHEAD, count=MAX_YEARS_AHEAD)


def _parse_calendar_time(phrase: str, now: datetime) -> datetime:
    day = clock_times.find_times(phrase)
    if len(day.times) > 1:
        raise UnclearTime(clock_times.SEVERAL_TIMES, has_reason=False)
    if not day.times and dates.strip_leading_words(day.rest) in {"", "today", "heute"}:
        raise UnclearTime(
            translatable("At what time? Say it like `today at 17:00`."), has_reason=bool(day.rest)
        )
    time_of_day = day.times[0] if day.times else clock_times.MORNING
    date_named = dates.find_date(day.rest, now, time_of_day)
    if day.is_after_midnight and day.rest:
        raise UnclearTime(
            translatable("That's after midnight, so name the next day, such as `tomorrow at 1:00`.")
        )
    return datetime.combine(date_named, time_of_day)


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
    match unit:
        case "day":
            return day + timedelta(days=int(count))
        case "week":
            return day + timedelta(weeks=int(count))
        case "month":
            return dates.add_months(day, int(count))
        case _:
            return dates.add_months(day, 12 * int(count))


def build_past_error(seconds_ago: float) -> UnclearTime:
    """Return the error for a moment that was so many seconds ago."""
    if seconds_ago < JUST_PASSED_SECONDS:
        return UnclearTime(translatable("That's right now. Pick a later time, such as `in 10 minutes`."))
    return UnclearTime(
        translatable("That was {ago}. Pick a later time, such as `tomorrow at 9`."),
        ago=partial(format_ago, seconds=seconds_ago),
    )
