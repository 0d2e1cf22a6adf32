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
from bot.jobs.times.errors import Unclear
from bot.jobs.times.rrules import Rule

CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MOST = 1000  # of an interval
HOW = (
    "I do not know how often that is. Say it as: every day at 8, every weekday at 8, every 2 weeks on Monday at 9:30, "
    "on the first of each month at 9, every 2 hours."
)
OFTEN = "That is too often: I do it every {minutes} minutes at most. Say it as: every {minutes} minutes."

_EVERY = r"(?:every|each|jede[nrsm]?|alle)"
_ALONE = re.compile(_EVERY)
_NAMES_A_DAY = re.compile(rf"\b(?:{days.DAY})\b")
_OTHER = {"other": 2, "second": 2, "2nd": 2, "third": 3, "zweiten": 2, "zweite": 2, "dritten": 3, "dritte": 3}
_NTH = r"(?:(?P<every>\d{1,6}|" + "|".join(_OTHER) + r")\.?\s+)?"
_WORKING = r"(?:mo|mon|monday|montag)\s*(?:-|–|to|through|until|bis)\s*(?:fr|fri|friday|freitag)"
_WORKING_WEEK = re.compile(rf"\b{_WORKING}\b")
_DAYLIST = rf"(?:{days.DAY})(?:\s*(?:,|and|und|&|/)\s*(?:{days.DAY}))*"
_ON = r"(?:\s*,?\s*(?:on|am|every|jeden)?\s*(?:the\s+)?)"
_ORD = "|".join(sorted(days.ORDINALS, key=len, reverse=True))
_DAYNUM = rf"(?:(?P<nth>\d{{1,2}})(?:st|nd|rd|th|\.)?|(?P<word>{_ORD})(?:\s+(?:day|tag))?)"
_OF = rf"(?:of|in|des|im|jedes|jeden|in jedem)\s*(?:{_EVERY}|the|a|dem)?"
_MONTHLY = rf"(?:\s+(?:day\s+)?{_OF}\s*(?:{_NTH}(?:months?|monate?n?s?))?)"

_Made = tuple[str, dict[str, str]]  # FREQ and the other parts


def is_meant(phrase: str) -> bool:
    """Whether these words speak of something that comes again."""
    return bool(_RECURS.search(phrase))


def find(phrase: str, where: tzinfo, now: float, shortest: int) -> Rule:
    """The rule a plain phrase means; `shortest` is the least number of seconds between two times. Raises
    Unclear.
    """
    words, until = _until(phrase, where, now)
    found = hours.find(words)
    rest = _tidy(found.rest)
    if found.after_midnight and _NAMES_A_DAY.search(rest):
        raise Unclear("That is after midnight. Say the day it is by then, such as: every Saturday at 1:00.")
    if not found.times and _ALONE.fullmatch(rest):
        raise Unclear(HOW, told=False)
    freq, parts = _read(rest, rules.local(now, where))
    if int(parts.get("INTERVAL", "1")) > MOST or parts.get("INTERVAL") == "0":
        raise Unclear(f"Every {parts['INTERVAL']} is not a period I keep. Say a number from 1 to {MOST}.")
    rule = _elapsed(freq, parts, found.times, now, where) or _calendar(freq, parts, found.times, where, now)
    if until is not None:
        rule = Rule(rule.begin, (*rule.parts, ("UNTIL", until.strftime(rules.STAMP))))
    if any(_minutes(later) - _minutes(earlier) < shortest / 60 for earlier, later in pairwise(found.times)):
        raise _often(shortest)
    _not_too_often(rule, where, now, shortest)
    return rule


def _tidy(rest: str) -> str:
    return re.sub(r"\s+(?:at|um|on|am)$", "", rest).strip(" ,")


def _until(phrase: str, where: tzinfo, now: float) -> tuple[str, datetime | None]:
    found = re.fullmatch(r"(?P<words>.+?),?\s+(?:until|till|bis(?: zum)?)\s+(?P<day>.+)", phrase)
    if found is None or _WORKING_WEEK.search(phrase):
        return phrase, None
    start = rules.local(now, where)
    last = days.find(found["day"], start, time(23, 59))
    if last < start.date():
        raise Unclear("The last day of that is over. Say a day to come after “until”.")
    return found["words"], datetime.combine(last, time(23, 59, 59))


def _read(words: str, start: datetime) -> _Made:
    for pattern, make in _FORMS:
        if found := pattern.fullmatch(words):
            return make(found, start)
    raise Unclear(HOW, told=False)


def _elapsed(
    freq: str, parts: dict[str, str], times: tuple[time, ...], now: float, where: tzinfo
) -> Rule | None:
    if freq not in {"MINUTELY", "HOURLY", "SECONDLY"}:
        return None
    if times:
        raise Unclear("Say either every so many minutes or hours, or a time of day: every day at 8.")
    begin = rules.local(now, where).replace(microsecond=0)
    return Rule(begin, (("FREQ", freq), *parts.items()))


def _calendar(freq: str, parts: dict[str, str], times: tuple[time, ...], where: tzinfo, now: float) -> Rule:
    times = times or (hours.MORNING,)
    if len({at.minute for at in times}) > 1 and len({at.hour for at in times}) > 1:
        raise Unclear(
            "Of several times a day the minutes must be the same, such as: every day at 8:30 and 20:30."
        )
    clock = {"BYHOUR": _listed(at.hour for at in times), "BYMINUTE": _listed(at.minute for at in times)}
    begin = rules.local(now, where).replace(second=0, microsecond=0)
    whole = tuple({"FREQ": freq, **parts, **clock, "BYSECOND": "0"}.items())
    # Every second week is counted from the first time to come, not from the week this is said in.
    each = Rule(begin, tuple((name, value) for name, value in whole if name != "INTERVAL"))
    first = rules.next_after(each, where, now)
    if first is None:
        raise Unclear("That day never comes. Say one that the calendar has.")
    return Rule(rules.local(first, where) if "INTERVAL" in parts else begin, whole)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in sorted(set(numbers)))


def _minutes(at: time) -> int:
    return at.hour * 60 + at.minute


def _often(shortest: int) -> Unclear:
    return Unclear(OFTEN.format(minutes=max(1, shortest // 60)))


def _not_too_often(rule: Rule, where: tzinfo, now: float, shortest: int) -> None:
    if rule.get("FREQ") == "SECONDLY" or (rule.step is not None and rule.step < shortest):
        raise _often(shortest)
    few = rules.next_few(rule, where, now, 8)
    if not few:
        raise Unclear("That never comes. Say a later day after “until”.")
    # Where a clock is put on, two times of a day may come together; that is no more often.
    gaps = sorted(later - earlier for earlier, later in pairwise(few))
    if gaps and gaps[len(gaps) // 2] < shortest:
        raise _often(shortest)


def _number(found: re.Match[str]) -> dict[str, str]:
    every = found.groupdict().get("every")
    if not every:
        return {}
    number = _OTHER.get(every) or int(every)
    if number == 1:
        return {}
    return {"INTERVAL": str(number)}


def _by_clock(found: re.Match[str], _: datetime) -> _Made:
    if found.groupdict().get("half"):
        return "MINUTELY", {"INTERVAL": "30"}
    unit = moments.UNITS[found["unit"]]
    freq = {"second": "SECONDLY", "minute": "MINUTELY", "hour": "HOURLY"}[unit]
    return freq, _number(found)


def _daily(found: re.Match[str], _: datetime) -> _Made:
    return "DAILY", _number(found)


def _weekdays(_found: re.Match[str], _: datetime) -> _Made:
    return "WEEKLY", {"BYDAY": "MO,TU,WE,TH,FR"}


def _weekends(_found: re.Match[str], _: datetime) -> _Made:
    return "WEEKLY", {"BYDAY": "SA,SU"}


def _weekly(found: re.Match[str], start: datetime) -> _Made:
    named = found.groupdict().get("days")
    if named:
        numbers = {days.WEEKDAYS[one] for one in re.findall(days.DAY, named)}
    else:
        numbers = {start.weekday()}
    return "WEEKLY", {**_number(found), "BYDAY": ",".join(CODES[number] for number in sorted(numbers))}


def _monthly(found: re.Match[str], start: datetime) -> _Made:
    groups = found.groupdict()
    if groups.get("nth"):
        number = int(groups["nth"])
    else:
        number = days.ORDINALS.get(groups.get("word") or "", start.day)
    if not (1 <= number <= 31 or number == -1):
        raise Unclear(f"No month has a day {number}.")
    return "MONTHLY", {**_number(found), "BYMONTHDAY": str(number)}


def _monthly_weekday(found: re.Match[str], _: datetime) -> _Made:
    code = CODES[days.WEEKDAYS[found["day"]]]
    return "MONTHLY", {**_number(found), "BYDAY": f"{days.ORDINALS[found['word']]:+d}{code}"}


def _yearly(found: re.Match[str], start: datetime) -> _Made:
    named = found.groupdict().get("date")
    try:
        day: date = days.find(named, start - timedelta(days=1), time()) if named else start.date()
    except Unclear as error:
        raise error if error.told else Unclear(HOW, told=False) from None
    return "YEARLY", {"BYMONTH": str(day.month), "BYMONTHDAY": str(day.day)}


_BY_CLOCK = "|".join(
    word for word in sorted(moments.UNITS, key=len, reverse=True) if moments.UNITS[word] in moments.SECONDS
)
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], _Made]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (
            rf"{_EVERY}\s+(?:(?P<half>half(?: an)?|halbe)\s+(?:hour|stunde)|"
            rf"(?:(?P<every>\d{{1,6}})\s*)?(?P<unit>{_BY_CLOCK}))",
            _by_clock,
        ),
        (r"(?:hourly|stündlich)", lambda _, __: ("HOURLY", {})),
        (rf"(?:daily|everyday|täglich|{_EVERY}(?:\s+{_NTH}(?:days?|tage?n?|morgen|morning))?)", _daily),
        (
            rf"(?:{_EVERY}\s+|(?:on|an)\s+)?"
            r"(?:weekdays?|working days?|workdays?|werktags?|werktage?n?|wochentags|wochentage?)",
            _weekdays,
        ),
        (
            rf"(?:(?:every|on|from|jeden|von)\s+)*{_WORKING}",
            _weekdays,
        ),
        (rf"(?:{_EVERY}\s+|(?:on|at|am)\s+)?(?:the\s+)?(?:weekends?|wochenenden?)", _weekends),
        (rf"(?:{_EVERY}\s+|on\s+|am\s+)?{_NTH}(?P<days>{_DAYLIST})", _weekly),
        (
            rf"(?:weekly|wöchentlich|{_EVERY}\s+{_NTH}(?:weeks?|wochen?))(?:{_ON}(?P<days>{_DAYLIST}))?",
            _weekly,
        ),
        (rf"(?:{_EVERY}\s+)?(?P<days>{_DAYLIST})\s+(?:of\s+)?{_EVERY}\s+{_NTH}(?:weeks?|wochen?)", _weekly),
        (
            rf"(?:(?:on|am|every|jeden|the)\s+)*(?P<word>{_ORD})\s+(?P<day>{days.DAY}){_MONTHLY}",
            _monthly_weekday,
        ),
        (
            rf"(?:monthly|monatlich|{_EVERY}\s+{_NTH}(?:months?|monate?n?)){_ON}(?P<word>{_ORD})\s+(?P<day>{days.DAY})",
            _monthly_weekday,
        ),
        (rf"(?:(?:on|am|every|jeden|the)\s+)*{_DAYNUM}{_MONTHLY}", _monthly),
        (rf"(?:monthly|monatlich|{_EVERY}\s+{_NTH}(?:months?|monate?n?))(?:{_ON}{_DAYNUM})?", _monthly),
        (
            rf"(?:yearly|annually|jährlich|{_EVERY}\s+(?:years?|jahre?))(?:\s*,?\s*(?:on|am)?\s*(?P<date>.*\d.*))?",
            _yearly,
        ),
        (rf"{_EVERY}\s+(?:the\s+)?(?P<nth>\d{{1,2}})(?:st|nd|rd|th|\.)", _monthly),
        (rf"{_EVERY}\s+(?P<date>.*\d.*)", _yearly),
        (rf"(?:on|am)\s+(?P<date>.*\d.*)\s+(?:of\s+)?{_EVERY}\s+(?:year|jahr)(?:es)?", _yearly),
    )
)
_RECURS = re.compile(
    rf"\b(?:{_EVERY}|{_WORKING}|hourly|daily|everyday|weekly|monthly|yearly|annually|stündlich|täglich|wöchentlich|monatlich|"
    r"jährlich|weekdays|weekends|werktags|wochentags|(?:mon|tues|wednes|thurs|fri|satur|sun)days|"
    r"(?:mon|diens|donners|frei|sams|sonn)tags|mittwochs|am wochenende)\b"
)
