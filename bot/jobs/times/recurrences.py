"""Recurrences in words, in English and German: `every weekday at 8`, `alle 2 Wochen montags`, `on the last
Friday`.

A grammar of our own that must account for every word: the library there is (recurrent) knows English alone,
and passes over what it does not understand. Pure.
"""

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import pairwise

from bot.jobs.times import clock_times as hours
from bot.jobs.times import dates as days
from bot.jobs.times import instants as moments
from bot.jobs.times import rrules as rules
from bot.jobs.times.errors import UnclearTime
from bot.jobs.times.rrules import RecurrenceRule

WEEKDAY_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_INTERVAL = 1000  # of an interval
RECURRENCE_HELP = (
    "I do not know how often that is. Say it as: every day at 8, every weekday at 8, every 2 weeks on Monday at 9:30, "
    "on the first of each month at 9, every 2 hours."
)
TOO_OFTEN = "That is too often: I do it every {minutes} minutes at most. Say it as: every {minutes} minutes."

_EVERY = r"(?:every|each|jede[nrsm]?|alle)"
_EVERY_ALONE = re.compile(_EVERY)
_NAMES_A_DAY = re.compile(rf"\b(?:{days.WEEKDAY_PATTERN})\b")
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
_DAYLIST = rf"(?:{days.WEEKDAY_PATTERN})(?:\s*(?:,|and|und|&|/)\s*(?:{days.WEEKDAY_PATTERN}))*"
_ON = r"(?:\s*,?\s*(?:on|am|every|jeden)?\s*(?:the\s+)?)"
_ORD = "|".join(sorted(days.ORDINALS, key=len, reverse=True))
_DAYNUM = rf"(?:(?P<nth>\d{{1,2}})(?:st|nd|rd|th|\.)?|(?P<word>{_ORD})(?:\s+(?:day|tag))?)"
_OF = rf"(?:of|in|des|im|jedes|jeden|in jedem)\s*(?:{_EVERY}|the|a|dem)?"
_MONTHLY = rf"(?:\s+(?:day\s+)?{_OF}\s*(?:{_NTH}(?:months?|monate?n?s?))?)"

_FreqAndParts = tuple[str, dict[str, str]]  # FREQ and the other parts


def is_recurrence(phrase: str) -> bool:
    """Whether these words speak of something that comes again."""
    return bool(_RECURRENCE_WORDS.search(phrase))


def find_recurrence(phrase: str, tz: tzinfo, now: float, min_interval_seconds: int) -> RecurrenceRule:
    """The rule a plain phrase means; `shortest` is the least number of seconds between two times. Raises
    Unclear.
    """
    words, until = _split_until(phrase, tz, now)
    found = hours.find_times(words)
    rest = _strip_prepositions(found.rest)
    if found.is_after_midnight and _NAMES_A_DAY.search(rest):
        raise UnclearTime(
            "That is after midnight. Say the day it is by then, such as: every Saturday at 1:00."
        )
    if not found.times and _EVERY_ALONE.fullmatch(rest):
        raise UnclearTime(RECURRENCE_HELP, has_reason=False)
    freq, parts = _match_form(rest, rules.to_local_time(now, tz))
    if int(parts.get("INTERVAL", "1")) > MAX_INTERVAL or parts.get("INTERVAL") == "0":
        raise UnclearTime(
            f"Every {parts['INTERVAL']} is not a period I keep. Say a number from 1 to {MAX_INTERVAL}."
        )
    rule = _build_elapsed_rule(freq, parts, found.times, now, tz) or _build_calendar_rule(
        freq, parts, found.times, tz, now
    )
    if until is not None:
        rule = RecurrenceRule(rule.start, (*rule.parts, ("UNTIL", until.strftime(rules.STAMP_FORMAT))))
    if any(
        _to_minutes(later) - _to_minutes(earlier) < min_interval_seconds / 60
        for earlier, later in pairwise(found.times)
    ):
        raise _build_too_often(min_interval_seconds)
    _check_not_too_often(rule, tz, now, min_interval_seconds)
    return rule


def _strip_prepositions(rest: str) -> str:
    return re.sub(r"\s+(?:at|um|on|am)$", "", rest).strip(" ,")


def _split_until(phrase: str, tz: tzinfo, now: float) -> tuple[str, datetime | None]:
    found = re.fullmatch(r"(?P<words>.+?),?\s+(?:until|till|bis(?: zum)?)\s+(?P<day>.+)", phrase)
    if found is None or _WORKING_WEEK.search(phrase):
        return phrase, None
    start = rules.to_local_time(now, tz)
    last = days.find_date(found["day"], start, time(23, 59))
    if last < start.date():
        raise UnclearTime("The last day of that is over. Say a day to come after “until”.")
    return found["words"], datetime.combine(last, time(23, 59, 59))


def _match_form(phrase: str, start: datetime) -> _FreqAndParts:
    for pattern, make in _FORMS:
        if found := pattern.fullmatch(phrase):
            return make(found, start)
    raise UnclearTime(RECURRENCE_HELP, has_reason=False)


def _build_elapsed_rule(
    freq: str, parts: dict[str, str], times: tuple[time, ...], now: float, tz: tzinfo
) -> RecurrenceRule | None:
    if freq not in {"MINUTELY", "HOURLY", "SECONDLY"}:
        return None
    if times:
        raise UnclearTime("Say either every so many minutes or hours, or a time of day: every day at 8.")
    begin = rules.to_local_time(now, tz).replace(microsecond=0)
    return RecurrenceRule(begin, (("FREQ", freq), *parts.items()))


def _build_calendar_rule(
    freq: str, parts: dict[str, str], times: tuple[time, ...], tz: tzinfo, now: float
) -> RecurrenceRule:
    times = times or (hours.MORNING,)
    if len({at.minute for at in times}) > 1 and len({at.hour for at in times}) > 1:
        raise UnclearTime(
            "Of several times a day the minutes must be the same, such as: every day at 8:30 and 20:30."
        )
    clock = {
        "BYHOUR": _join_numbers(at.hour for at in times),
        "BYMINUTE": _join_numbers(at.minute for at in times),
    }
    begin = rules.to_local_time(now, tz).replace(second=0, microsecond=0)
    whole = tuple({"FREQ": freq, **parts, **clock, "BYSECOND": "0"}.items())
    # Every second week is counted from the first time to come, not from the week this is said in.
    each = RecurrenceRule(begin, tuple((name, value) for name, value in whole if name != "INTERVAL"))
    first = rules.find_next(each, tz, now)
    if first is None:
        raise UnclearTime("That day never comes. Say one that the calendar has.")
    return RecurrenceRule(rules.to_local_time(first, tz) if "INTERVAL" in parts else begin, whole)


def _join_numbers(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in sorted(set(numbers)))


def _to_minutes(clock_time: time) -> int:
    return clock_time.hour * 60 + clock_time.minute


def _build_too_often(min_interval_seconds: int) -> UnclearTime:
    return UnclearTime(TOO_OFTEN.format(minutes=max(1, min_interval_seconds // 60)))


def _check_not_too_often(rule: RecurrenceRule, tz: tzinfo, now: float, min_interval_seconds: int) -> None:
    if rule.get("FREQ") == "SECONDLY" or (
        rule.step_seconds is not None and rule.step_seconds < min_interval_seconds
    ):
        raise _build_too_often(min_interval_seconds)
    few = rules.find_next_few(rule, tz, now, 8)
    if not few:
        raise UnclearTime("That never comes. Say a later day after “until”.")
    # Where a clock is put on, two times of a day may come together; that is no more often.
    gaps = sorted(later - earlier for earlier, later in pairwise(few))
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
    unit = moments.UNITS[match["unit"]]
    freq = {"second": "SECONDLY", "minute": "MINUTELY", "hour": "HOURLY"}[unit]
    return freq, _parse_interval(match)


def _parse_daily(match: re.Match[str], _: datetime) -> _FreqAndParts:
    return "DAILY", _parse_interval(match)


def _parse_weekdays(_match: re.Match[str], _: datetime) -> _FreqAndParts:
    return "WEEKLY", {"BYDAY": "MO,TU,WE,TH,FR"}


def _parse_weekends(_match: re.Match[str], _: datetime) -> _FreqAndParts:
    return "WEEKLY", {"BYDAY": "SA,SU"}


def _parse_weekly(match: re.Match[str], start: datetime) -> _FreqAndParts:
    named = match.groupdict().get("days")
    if named:
        numbers = {days.WEEKDAYS[one] for one in re.findall(days.WEEKDAY_PATTERN, named)}
    else:
        numbers = {start.weekday()}
    return "WEEKLY", {
        **_parse_interval(match),
        "BYDAY": ",".join(WEEKDAY_CODES[number] for number in sorted(numbers)),
    }


def _parse_monthly(match: re.Match[str], start: datetime) -> _FreqAndParts:
    groups = match.groupdict()
    if groups.get("nth"):
        number = int(groups["nth"])
    else:
        number = days.ORDINALS.get(groups.get("word") or "", start.day)
    if not (1 <= number <= 31 or number == -1):
        raise UnclearTime(f"No month has a day {number}.")
    return "MONTHLY", {**_parse_interval(match), "BYMONTHDAY": str(number)}


def _parse_monthly_weekday(match: re.Match[str], _: datetime) -> _FreqAndParts:
    code = WEEKDAY_CODES[days.WEEKDAYS[match["day"]]]
    return "MONTHLY", {**_parse_interval(match), "BYDAY": f"{days.ORDINALS[match['word']]:+d}{code}"}


def _parse_yearly(match: re.Match[str], start: datetime) -> _FreqAndParts:
    named = match.groupdict().get("date")
    try:
        day: date = days.find_date(named, start - timedelta(days=1), time()) if named else start.date()
    except UnclearTime as error:
        raise error if error.has_reason else UnclearTime(RECURRENCE_HELP, has_reason=False) from None
    return "YEARLY", {"BYMONTH": str(day.month), "BYMONTHDAY": str(day.day)}


_BY_CLOCK = "|".join(
    word
    for word in sorted(moments.UNITS, key=len, reverse=True)
    if moments.UNITS[word] in moments.SECONDS_PER_UNIT
)
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], _FreqAndParts]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (
            rf"{_EVERY}\s+(?:(?P<half>half(?: an)?|halbe)\s+(?:hour|stunde)|"
            rf"(?:(?P<every>\d{{1,6}})\s*)?(?P<unit>{_BY_CLOCK}))",
            _parse_by_clock,
        ),
        (r"(?:hourly|stündlich)", lambda _, __: ("HOURLY", {})),
        (rf"(?:daily|everyday|täglich|{_EVERY}(?:\s+{_NTH}(?:days?|tage?n?|morgen|morning))?)", _parse_daily),
        (
            rf"(?:{_EVERY}\s+|(?:on|an)\s+)?"
            r"(?:weekdays?|working days?|workdays?|werktags?|werktage?n?|wochentags|wochentage?)",
            _parse_weekdays,
        ),
        (
            rf"(?:(?:every|on|from|jeden|von)\s+)*{_WORKING}",
            _parse_weekdays,
        ),
        (rf"(?:{_EVERY}\s+|(?:on|at|am)\s+)?(?:the\s+)?(?:weekends?|wochenenden?)", _parse_weekends),
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
            rf"(?:(?:on|am|every|jeden|the)\s+)*(?P<word>{_ORD})\s+(?P<day>{days.WEEKDAY_PATTERN}){_MONTHLY}",
            _parse_monthly_weekday,
        ),
        (
            rf"(?:monthly|monatlich|{_EVERY}\s+{_NTH}(?:months?|monate?n?)){_ON}(?P<word>{_ORD})\s+(?P<day>{days.WEEKDAY_PATTERN})",
            _parse_monthly_weekday,
        ),
        (rf"(?:(?:on|am|every|jeden|the)\s+)*{_DAYNUM}{_MONTHLY}", _parse_monthly),
        (rf"(?:monthly|monatlich|{_EVERY}\s+{_NTH}(?:months?|monate?n?))(?:{_ON}{_DAYNUM})?", _parse_monthly),
        (
            rf"(?:yearly|annually|jährlich|{_EVERY}\s+(?:years?|jahre?))(?:\s*,?\s*(?:on|am)?\s*(?P<date>.*\d.*))?",
            _parse_yearly,
        ),
        (rf"{_EVERY}\s+(?:the\s+)?(?P<nth>\d{{1,2}})(?:st|nd|rd|th|\.)", _parse_monthly),
        (rf"{_EVERY}\s+(?P<date>.*\d.*)", _parse_yearly),
        (rf"(?:on|am)\s+(?P<date>.*\d.*)\s+(?:of\s+)?{_EVERY}\s+(?:year|jahr)(?:es)?", _parse_yearly),
    )
)
_RECURRENCE_WORDS = re.compile(
    rf"\b(?:{_EVERY}|{_WORKING}|hourly|daily|everyday|weekly|monthly|yearly|annually|stündlich|täglich|wöchentlich|monatlich|"
    r"jährlich|weekdays|weekends|werktags|wochentags|(?:mon|tues|wednes|thurs|fri|satur|sun)days|"
    r"(?:mon|diens|donners|frei|sams|sonn)tags|mittwochs|am wochenende)\b"
)
