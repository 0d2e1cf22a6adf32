"""Recurrences in words, in English and German: `every weekday at 8`, `alle 2 Wochen montags`.

A grammar of our own that must account for every word: the library that exists (recurrent) knows English
alone, and passes over what it does not understand. Pure.
"""

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import pairwise

from bot.jobs.times import clock_times, dates, instants, rrules
from bot.jobs.times.rrules import RecurrenceRule
from bot.jobs.times.zones import UnclearTime
from bot.translations.translator import translatable

WEEKDAY_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_INTERVAL = 1000  # periods
RECURRENCE_HELP = translatable(
    "I don't know how often that is. Say it like this: `every day at 8`, `every weekday at 8`, "
    "`every 2 weeks on Monday at 9:30`, `on the first of each month at 9`, `every 2 hours`."
)
TOO_OFTEN = translatable("That's too often. Say at most `every {minutes} minutes`.")

_EVERY = r"(?:every|each|jede[nrsm]?|alle)"
_EVERY_ALONE = re.compile(_EVERY)
_NAMES_A_DAY = re.compile(rf"\b(?:{dates.WEEKDAY_PATTERN})\b")
_ORDINAL_COUNTS = {
    "other": 2,
    "second": 2,
    "2nd": 2,
    "third": 3,
    "zweiten": 2,
    "zweite": 2,
    "dritten": 3,
    "dritte": 3,
}
_NTH = r"(?:(?P<every>\d{1,6}|" + "|".join(_ORDINAL_COUNTS) + r")\.?\s+)?"
_WORKING = r"(?:mo|mon|monday|montag)\s*(?:-|–|to|through|until|bis)\s*(?:fr|fri|friday|freitag)"
_WORKING_WEEK = re.compile(rf"\b{_WORKING}\b")
_DAYLIST = rf"(?:{dates.WEEKDAY_PATTERN})(?:\s*(?:,|and|und|&|/)\s*(?:{dates.WEEKDAY_PATTERN}))*"
_ON = r"(?:\s*,?\s*(?:on|am|every|jeden)?\s*(?:the\s+)?)"
_ORD = "|".join(sorted(dates.ORDINALS, key=len, reverse=True))
_DAYNUM = rf"(?:(?P<nth>\d{{1,2}})(?:st|nd|rd|th|\.)?|(?P<word>{_ORD})(?:\s+(?:day|tag))?)"
_OF = rf"(?:of|in|des|im|jedes|jeden|in jedem)\s*(?:{_EVERY}|the|a|dem)?"
_MONTHLY = rf"(?:\s+(?:day\s+)?{_OF}\s*(?:{_NTH}(?:months?|monate?n?s?))?)"

_FreqAndParts = tuple[str, dict[str, str]]  # FREQ and the other parts


def is_recurrence(phrase: str) -> bool:
    """Tell whether a phrase speaks of something that comes again."""
    return bool(_RECURRENCE_WORDS.search(phrase))


def find_recurrence(phrase: str, tz: tzinfo, now: float, min_interval_seconds: int) -> RecurrenceRule:
    """Return the rule a plain phrase means. Raises UnclearTime.

    `min_interval_seconds` is the least time between two due times.
    """
    phrase, until = _split_until(phrase, tz, now)
    times_of_day = clock_times.find_times(phrase)
    rest = re.sub(r"\s+(?:at|um|on|am)$", "", times_of_day.rest).strip(" ,")
    if times_of_day.is_after_midnight and _NAMES_A_DAY.search(rest):
        raise UnclearTime(
            translatable("That's after midnight, so name the next day, such as `every Saturday at 1:00`.")
        )
    if (rest == "alle" or not times_of_day.times) and _EVERY_ALONE.fullmatch(rest):
        raise UnclearTime(RECURRENCE_HELP, has_reason=False)
    freq, parts = _match_form(rest, rrules.to_local_time(now, tz))
    if int(parts.get("INTERVAL", "1")) > MAX_INTERVAL or parts.get("INTERVAL") == "0":
        raise UnclearTime(
            translatable("I can't count in steps of {number}. Pick a number from 1 to {largest}."),
            number=parts["INTERVAL"],
            largest=MAX_INTERVAL,
        )
    rule = _build_elapsed_rule(freq, parts, times_of_day.times, now, tz)
    if rule is None:
        rule = _build_calendar_rule(freq, parts, times_of_day.times, tz, now)
    if until is not None:
        rule = RecurrenceRule(rule.start, (*rule.parts, ("UNTIL", until.strftime(rrules.STAMP_FORMAT))))
    if any(
        _to_minutes(later) - _to_minutes(earlier) < min_interval_seconds / 60
        for earlier, later in pairwise(times_of_day.times)
    ):
        raise _build_too_often(min_interval_seconds)
    _check_not_too_often(rule, tz, now, min_interval_seconds)
    return rule


def _split_until(phrase: str, tz: tzinfo, now: float) -> tuple[str, datetime | None]:
    """The phrase without its `until …`, and the last second of that day."""
    match = re.fullmatch(r"(?P<words>.+?),?\s+(?:until|till|bis(?: zum)?)\s+(?P<day>.+)", phrase)
    if match is None or _WORKING_WEEK.search(phrase):
        return phrase, None
    start = rrules.to_local_time(now, tz)
    last_day = dates.find_date(match["day"], start, time(23, 59))
    if last_day < start.date():
        raise UnclearTime(translatable("The date after “until” is already past. Pick a later one."))
    return match["words"], datetime.combine(last_day, time(23, 59, 59))


def _match_form(phrase: str, start: datetime) -> _FreqAndParts:
    for pattern, parse in _FORMS:
        if match := pattern.fullmatch(phrase):
            return parse(match, start)
    raise UnclearTime(RECURRENCE_HELP, has_reason=False)


def _build_elapsed_rule(
    freq: str, parts: dict[str, str], times: tuple[time, ...], now: float, tz: tzinfo
) -> RecurrenceRule | None:
    if freq not in {"MINUTELY", "HOURLY", "SECONDLY"}:
        return None
    if times:
        raise UnclearTime(
            translatable("Give either an interval (`every 2 hours`) or a time (`every day at 8`), not both.")
        )
    start = rrules.to_local_time(now, tz).replace(microsecond=0)
    return RecurrenceRule(start, (("FREQ", freq), *parts.items()))


def _build_calendar_rule(
    freq: str, parts: dict[str, str], times: tuple[time, ...], tz: tzinfo, now: float
) -> RecurrenceRule:
    times = times or (clock_times.MORNING,)
    hours = {clock_time.hour for clock_time in times}
    minutes = {clock_time.minute for clock_time in times}
    if len(minutes) > 1 and len(hours) > 1:
        raise UnclearTime(
            translatable("Several times a day need the same minutes, such as `every day at 8:30 and 20:30`.")
        )
    clock = {"BYHOUR": _join_numbers(hours), "BYMINUTE": _join_numbers(minutes)}
    start = rrules.to_local_time(now, tz).replace(second=0, microsecond=0)
    rule_parts = tuple({"FREQ": freq, **parts, **clock, "BYSECOND": "0"}.items())
    # Every second week is counted from the first time to come, not from the week this is said in.
    every_time = RecurrenceRule(start, tuple(part for part in rule_parts if part[0] != "INTERVAL"))
    first = rrules.find_next(every_time, tz, now)
    if first is None:
        raise UnclearTime(translatable("That day doesn't exist. Pick another one."))
    if "INTERVAL" in parts:
        start = rrules.to_local_time(first, tz)
    return RecurrenceRule(start, rule_parts)


def _join_numbers(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in sorted(numbers))


def _to_minutes(clock_time: time) -> int:
    return clock_time.hour * 60 + clock_time.minute


def _build_too_often(min_interval_seconds: int) -> UnclearTime:
    return UnclearTime(TOO_OFTEN, minutes=max(1, min_interval_seconds // 60))


def _check_not_too_often(rule: RecurrenceRule, tz: tzinfo, now: float, min_interval_seconds: int) -> None:
    if rule.get("FREQ") == "SECONDLY" or (
        rule.step_seconds is not None and rule.step_seconds < min_interval_seconds
    ):
        raise _build_too_often(min_interval_seconds)
    next_times = rrules.find_next_few(rule, tz, now, 8)
    if not next_times:
        raise UnclearTime(
            translatable("That never happens before the date after “until”. Pick a later date.")
        )
    # Where a clock is put forward, two times of a day may come close together: the median gap counts.
    gaps = sorted(later - earlier for earlier, later in pairwise(next_times))
    if gaps and gaps[len(gaps) // 2] < min_interval_seconds:
        raise _build_too_often(min_interval_seconds)


def _parse_interval(match: re.Match[str]) -> dict[str, str]:
    every = match.groupdict().get("every")
    if not every:
        return {}
    number = _ORDINAL_COUNTS.get(every) or int(every)
    if number == 1:
        return {}
    return {"INTERVAL": str(number)}


def _parse_by_clock(match: re.Match[str], _: datetime) -> _FreqAndParts:
    if match.groupdict().get("half"):
        return "MINUTELY", {"INTERVAL": "30"}
    unit = instants.UNITS[match["unit"]]
    freq = {"second": "SECONDLY", "minute": "MINUTELY", "hour": "HOURLY"}[unit]
    return freq, _parse_interval(match)


def _parse_weekdays(_match: re.Match[str], _: datetime) -> _FreqAndParts:
    return "WEEKLY", {"BYDAY": "MO,TU,WE,TH,FR"}


def _parse_weekly(match: re.Match[str], start: datetime) -> _FreqAndParts:
    numbers = {start.weekday()}
    if weekdays := match.groupdict().get("days"):
        numbers = {dates.WEEKDAYS[name] for name in re.findall(dates.WEEKDAY_PATTERN, weekdays)}
    codes = ",".join(WEEKDAY_CODES[number] for number in sorted(numbers))
    return "WEEKLY", {**_parse_interval(match), "BYDAY": codes}


def _parse_monthly(match: re.Match[str], start: datetime) -> _FreqAndParts:
    groups = match.groupdict()
    if groups.get("nth"):
        number = int(groups["nth"])
    else:
        number = dates.ORDINALS.get(groups.get("word") or "", start.day)
    if not (1 <= number <= 31 or number == -1):
        raise UnclearTime(dates.NO_SUCH_DAY, number=number)
    return "MONTHLY", {**_parse_interval(match), "BYMONTHDAY": str(number)}


def _parse_monthly_weekday(match: re.Match[str], _: datetime) -> _FreqAndParts:
    code = WEEKDAY_CODES[dates.WEEKDAYS[match["day"]]]
    return "MONTHLY", {**_parse_interval(match), "BYDAY": f"{dates.ORDINALS[match['word']]:+d}{code}"}


def _parse_yearly(match: re.Match[str], start: datetime) -> _FreqAndParts:
    day: date = start.date()
    try:
        if date_text := match.groupdict().get("date"):
            day = dates.find_date(date_text, start - timedelta(days=1), time())
    except UnclearTime as error:
        if error.has_reason:
            raise
        raise UnclearTime(RECURRENCE_HELP, has_reason=False) from None
    return "YEARLY", {"BYMONTH": str(day.month), "BYMONTHDAY": str(day.day)}


_BY_CLOCK = "|".join(
    word
    for word in sorted(instants.UNITS, key=len, reverse=True)
    if instants.UNITS[word] in instants.SECONDS_PER_UNIT
)
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], _FreqAndParts]], ...] = tuple(
    (re.compile(pattern), parse)
    for pattern, parse in (
        (
            rf"{_EVERY}\s+(?:(?P<half>half(?: an)?|halbe)\s+(?:hour|stunde)|"
            rf"(?:(?P<every>\d{{1,6}})\s*)?(?P<unit>{_BY_CLOCK}))",
            _parse_by_clock,
        ),
        (r"(?:hourly|stündlich)", lambda _, __: ("HOURLY", {})),
        (
            rf"(?:daily|everyday|täglich|{_EVERY}(?:\s+{_NTH}(?:days?|tage?n?|morgen|morning))?)",
            lambda match, _: ("DAILY", _parse_interval(match)),
        ),
        (
            rf"(?:{_EVERY}\s+|(?:on|an)\s+)?"
            r"(?:weekdays?|working days?|workdays?|werktags?|werktage?n?|wochentags|wochentage?)",
            _parse_weekdays,
        ),
        (
            rf"(?:(?:every|on|from|jeden|von)\s+)*{_WORKING}",
            _parse_weekdays,
        ),
        (
            rf"(?:{_EVERY}\s+weekends?|{_EVERY}\s+wochenenden?|(?:(?:on|an)\s+)?(?:weekends|wochenenden))",
            lambda _, __: ("WEEKLY", {"BYDAY": "SA,SU"}),
        ),
        (rf"(?:{_EVERY}\s+|on\s+|am\s+)?{_NTH}(?P<days>{_DAYLIST})", _parse_weekly),
        (
            rf"(?:weekly|wöchentlich|{_EVERY}\s+{_NTH}(?:weeks?|wochen?))(?:{_ON}(?P<days>{_DAYLIST}))?",
            _parse_weekly,
        ),
        (
            rf"(?:{_EVERY}\s+)?(?P<days>{_DAYLIST})\s+(?:of\s+)?{_EVERY}\s+{_NTH}(?:weeks?|wochen?)",
            _parse_weekly,
        ),
        (
            rf"(?:(?:on|am|every|jeden|the)\s+)*(?P<word>{_ORD})\s+"
            rf"(?P<day>{dates.WEEKDAY_PATTERN}){_MONTHLY}",
            _parse_monthly_weekday,
        ),
        (rf"{_EVERY}\s+(?P<word>{_ORD})\s+(?P<day>{dates.WEEKDAY_PATTERN})", _parse_monthly_weekday),
        (
            rf"(?:monthly|monatlich|{_EVERY}\s+{_NTH}(?:months?|monate?n?)){_ON}"
            rf"(?P<word>{_ORD})\s+(?P<day>{dates.WEEKDAY_PATTERN})",
            _parse_monthly_weekday,
        ),
        (rf"(?:(?:on|am|every|jeden|the)\s+)*{_DAYNUM}{_MONTHLY}", _parse_monthly),
        (rf"(?:monthly|monatlich|{_EVERY}\s+{_NTH}(?:months?|monate?n?))(?:{_ON}{_DAYNUM})?", _parse_monthly),
        (
            rf"(?:yearly|annually|jährlich|{_EVERY}\s+(?:years?|jahre?))"
            r"(?:\s*,?\s*(?:on|am)?\s*(?P<date>.*\d.*))?",
            _parse_yearly,
        ),
        (rf"{_EVERY}\s+(?:the\s+)?(?P<nth>\d{{1,2}})(?:st|nd|rd|th|\.)", _parse_monthly),
        (rf"{_EVERY}\s+(?P<date>.*\d.*)", _parse_yearly),
        (rf"(?:on|am)\s+(?P<date>.*\d.*)\s+(?:of\s+)?{_EVERY}\s+(?:year|jahr)(?:es)?", _parse_yearly),
    )
)
_RECURRENCE_WORDS = re.compile(
    rf"\b(?:{_EVERY}|{_WORKING}|hourly|daily|everyday|weekly|monthly|yearly|annually|"
    r"stündlich|täglich|wöchentlich|monatlich|jährlich|"
    r"weekdays|weekends|werktags|wochentags|(?:mon|tues|wednes|thurs|fri|satur|sun)days|"
    r"(?:mon|diens|donners|frei|sams|sonn)tags|mittwochs|wochenenden)\b"
)
