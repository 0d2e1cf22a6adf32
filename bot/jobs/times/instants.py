"""A single moment in words, in English and German: `in 2 hours`, `tomorrow at nine`, `am 24.12. um 18 Uhr`.
Pure.
"""

import re
from datetime import date, datetime, timedelta, tzinfo

from bot.jobs.times import clock_times as hours
from bot.jobs.times import dates as days
from bot.jobs.times import formatting as saying
from bot.jobs.times import rrules as rules
from bot.jobs.times.errors import Unclear

FARTHEST = 50  # years
ABOUT_NOW = 60.0  # seconds; a moment that has just passed is told apart from one long ago

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
UNIT = "|".join(sorted(UNITS, key=len, reverse=True))
HOW = days.HOW
SECONDS = {"second": 1, "minute": 60, "hour": 3600}
COUNT = (
    r"\d{1,6}(?:[.,]\d{1,2})?|anderthalb|eineinhalb|an?|eine[rnm]?|half an|half a|eine[rn]? halben?|a couple of|"
    "ein paar"
)
_AHEAD = re.compile(rf"(?:in|nach|within)\s+((?:(?:{COUNT})\s*(?:{UNIT})\b(?:\s*(?:,|and|und)\s*|\s*))+)")
_LATER = re.compile(rf"((?:(?:{COUNT})\s*(?:{UNIT})\b\s*)+)(?:from now|later|später)")
_AND_A_HALF = re.compile(r"\b(an?|\d{1,4}) (?:hours? and a half|and a half hours?)\b")
_SHORT = re.compile(r"\b(\d{1,3})\s?h\s?(\d{1,2})(?:\s?m(?:in)?)?\b")
_ONE = re.compile(rf"(?P<count>{COUNT})\s*(?P<unit>{UNIT})\b")


def find(phrase: str, where: tzinfo, now: float) -> float:
    """The epoch second a plain phrase means, later than `now`. Raises Unclear."""
    at = _ahead(phrase, where, now)
    if at is None:
        at = rules.instant(_named(phrase, rules.local(now, where)), where)
    if at <= now:
        raise past(now - at)
    if at > now + FARTHEST * 366 * 86_400:
        raise Unclear(f"That is more than {FARTHEST} years ahead. Say an earlier time.")
    return at


def is_counted(phrase: str) -> bool:
    """Whether a plain phrase counts from now, and so needs no time of day."""
    return bool(_AHEAD.match(phrase) or _LATER.match(phrase))


def _ahead(phrase: str, where: tzinfo, now: float) -> float | None:
    """`in 2 hours` by elapsed time, `in 2 weeks at 9` by the calendar; None if it is said otherwise."""
    phrase = _AND_A_HALF.sub(lambda one: f"{one[1] if one[1].isdigit() else 1}.5 hours", phrase)
    phrase = _SHORT.sub(r"\1 hours \2 minutes", phrase)
    found = _AHEAD.match(phrase) or _LATER.match(phrase)
    if found is None:
        return None
    spans = [(_count(one["count"]), UNITS[one["unit"]]) for one in _ONE.finditer(found[1])]
    _bounded(spans)
    rest = hours.find(phrase[found.end() :].strip(" ,"))
    start = rules.local(now, where)
    by_calendar = [(count, unit) for count, unit in spans if unit not in SECONDS]
    day = start.date()
    for count, unit in by_calendar:
        day = _later(day, count, unit)
    if days.lead(rest.rest):
        raise Unclear(HOW, told=False)
    if rest.times:
        if len(by_calendar) < len(spans) or len(rest.times) > 1:
            raise Unclear(
                "Say either how long from now or the time of day, such as: in 2 hours, in 3 days at 9:00."
            )
        return rules.instant(datetime.combine(day, rest.times[0]), where)
    if by_calendar:
        at = rules.instant(datetime.combine(day, start.time()), where)
    else:
        at = now
    return at + sum(count * SECONDS[unit] for count, unit in spans if unit in SECONDS)


def _bounded(spans: list[tuple[float, str]]) -> None:
    if any(unit == "second" for _, unit in spans):
        raise Unclear("I keep time by minutes. Say it as: in 1 minute.")
    if any(count != int(count) and unit not in SECONDS for count, unit in spans):
        raise Unclear("Half a day or half a week is not clear to me. Say it in hours or days.")
    years = {
        "hour": 1 / 8760,
        "minute": 1 / 525_600,
        "day": 1 / 365,
        "week": 1 / 52,
        "month": 1 / 12,
        "year": 1.0,
    }
    if sum(count * years[unit] for count, unit in spans) > FARTHEST:
        raise Unclear(f"That is more than {FARTHEST} years ahead. Say an earlier time.")


def _named(phrase: str, now: datetime) -> datetime:
    found = hours.find(phrase)
    if len(found.times) > 1:
        raise Unclear(hours.SEVERAL, told=False)
    if not found.times and days.lead(found.rest) in {"", "today", "heute"}:
        raise Unclear("At what time? Say it as: today at 17:00.", told=bool(found.rest))
    at = found.times[0] if found.times else hours.MORNING
    if found.after_midnight and found.rest:
        raise Unclear("That is after midnight. Say the day it is by then, such as: tomorrow at 1:00.")
    return datetime.combine(days.find(found.rest, now, at), at)


def _count(words: str) -> float:
    if words[0].isdigit():
        return float(words.replace(",", "."))
    if "hal" in words:
        if words in {"anderthalb", "eineinhalb"}:
            return 1.5
        return 0.5
    if words in {"a couple of", "ein paar"}:
        return 2
    return 1


def _later(day: date, count: float, unit: str) -> date:
    if unit in {"day", "week"}:
        return day + timedelta(days=int(count) * (7 if unit == "week" else 1))
    return days.months_on(day, int(count) * (12 if unit == "year" else 1))


def past(ago: float) -> Unclear:
    """What is said of a moment that was so many seconds ago."""
    if ago < ABOUT_NOW:
        return Unclear("That is now. Say a time to come, such as: in 10 minutes.")
    return Unclear(f"That was {saying.ago(ago)} ago. Say a time to come, such as: tomorrow at 9.")
