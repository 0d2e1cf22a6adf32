"""Days as people say them, in English and German: today, a weekday, the 3rd, a date. Pure.

Dates with a month's name are read by dateparser, and nothing else is: left to itself it takes `monday 8` for
a year's 20th of August, `8 30` for the 30th of that, `3.1.` for a 1st of March, and drops a time of day it
does not know.
"""

import contextlib
import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

from bot.jobs.times.errors import Unclear

_DAYS = (
    ("mo", "mon", "monday", "montag"),
    ("tu", "tue", "tues", "tuesday", "di", "dienstag"),
    ("we", "wed", "wednesday", "mi", "mittwoch"),
    ("th", "thu", "thur", "thurs", "thursday", "do", "donnerstag"),
    ("fr", "fri", "friday", "freitag"),
    ("sa", "sat", "saturday", "samstag", "sonnabend"),
    ("su", "sun", "sunday", "so", "sonntag"),
)
WEEKDAYS = {name: number for number, names in enumerate(_DAYS) for name in names}
WEEKDAYS |= {f"{name}s": number for name, number in WEEKDAYS.items() if len(name) > 4}  # mondays, montags
DAY = "|".join(sorted(WEEKDAYS, key=len, reverse=True))

ORDINALS = {
    word: number
    for number, words in enumerate(
        (
            "first 1st erste ersten erster",
            "second 2nd zweite zweiten zweiter",
            "third 3rd dritte dritten dritter",
            "fourth 4th vierte vierten vierter",
            "fifth 5th fünfte fünften fünfter",
        ),
        start=1,
    )
    for word in words.split()
} | {"last": -1, "letzte": -1, "letzten": -1, "letzter": -1}

_NEAR = {
    "": 0,
    "today": 0,
    "heute": 0,
    "tomorrow": 1,
    "morgen": 1,
    "day after tomorrow": 2,
    "the day after tomorrow": 2,
    "übermorgen": 2,
    "uebermorgen": 2,
    "yesterday": -1,
    "gestern": -1,
}
_LEAD = re.compile(r"^(?:on|am|the|den|der|this|diesen|an|for)\s+")
_NEXT = r"(?P<next>next|coming|nächsten?r?|naechsten?|kommenden?r?)\s+"
_WEEKDAY = re.compile(rf"(?:{_NEXT})?(?P<day>{DAY})")
_SPAN = re.compile(rf"{_NEXT}(?P<span>week|month|year|woche|monat|jahr)")
_NUMBERED = re.compile(r"(?P<number>\d{1,2})(?:st|nd|rd|th|\.)(?: of the month| des monats)?")
_OF_WEEK = re.compile(rf"(?P<day>{DAY})\.?,?\s+(?P<date>.*\d.*)")
_IN_FIGURES = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})|"
    r"(?P<first>\d{1,2})\.\s?(?:(?P<second>\d{1,2})\.(?:\s?(?P<of>\d{4}|\d{2}))?|(?P<bare>[01]\d))|"
    r"(?P<either>\d{1,2})(?P<sign>[/-])(?P<other>\d{1,2})(?:(?P=sign)(?P<in>\d{4}|\d{2}))?"
)
_IN_WORDS = re.compile(
    r"(?:\d{1,3}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?[^\W\d]{3,9}\.?|[^\W\d]{3,9}\.?\s+(?:the\s+)?\d{1,3}(?:st|nd|rd|th)?)"
    r"(?:,?\s+\d{4})?"
)
_MONTH = re.compile(r"\b(?:jan|jän|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)")
_ORDINAL = re.compile(
    r"\b(" + "|".join(word for word in ORDINALS if word.isalpha() and ORDINALS[word] > 0) + r")\b"
)
_YEAR = re.compile(r"\b\d{4}$")
LONGEST = 40  # characters of a date
HOW = "I do not know when that is. Say it as: tomorrow at 9, Friday at 17:30, in 2 hours, on 24 December at 18:00."


def lead(phrase: str) -> str:
    """The phrase without the small words before a day."""
    while (shorter := _LEAD.sub("", phrase)) != phrase:
        phrase = shorter
    return phrase


def find(phrase: str, now: datetime, at: time) -> date:
    """The day a plain phrase means for something at this time of day, seen from the local time `now`.

    Raises Unclear where it is no day, or one that no calendar has.
    """
    words = lead(phrase)
    today = now.date()
    if words in _NEAR:
        ahead = _NEAR[words]
        return today + timedelta(days=1 if words == "" and at <= now.time() else ahead)
    if weekday := _WEEKDAY.fullmatch(words):
        return _weekday(WEEKDAYS[weekday["day"]], now, at, after_today=bool(weekday["next"]))
    if span := _SPAN.fullmatch(words):
        return _ahead(today, span["span"])
    if numbered := _NUMBERED.fullmatch(words):
        return _numbered(int(numbered["number"]), now, at)
    return _dated(words, now, at)


def _weekday(number: int, now: datetime, at: time, *, after_today: bool) -> date:
    ahead = (number - now.weekday()) % 7
    if ahead == 0 and (after_today or at <= now.time()):
        ahead = 7
    return now.date() + timedelta(days=ahead)


def _ahead(today: date, span: str) -> date:
    if span in {"week", "woche"}:
        return today + timedelta(days=7)
    return months_on(today, 1 if span in {"month", "monat"} else 12)


def months_on(day: date, months: int) -> date:
    """The same day so many months later, or the last one of a month that is shorter."""
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _numbered(number: int, now: datetime, at: time) -> date:
    if not 1 <= number <= 31:
        raise Unclear(f"No month has a day {number}.")
    for months in range(13):
        first = months_on(now.date().replace(day=1), months)
        if number <= monthrange(first.year, first.month)[1]:
            day = first.replace(day=number)
            if datetime.combine(day, at) > now:
                return day
    raise AssertionError("every month of a year is looked at")


def _dated(words: str, now: datetime, at: time) -> date:
    named = _OF_WEEK.fullmatch(words)
    words = named["date"] if named else words
    words = _ORDINAL.sub(lambda found: str(ORDINALS[found[0]]), words)
    figures = _IN_FIGURES.fullmatch(words)
    if figures:
        day = _in_figures(figures, now, at)
    else:
        day = _in_words(words, now, at)
    if named and day.weekday() != WEEKDAYS[named["day"]]:
        raise Unclear(f"{day:%-d %B %Y} is a {day:%A}. Say one of the two.")
    return day


def _in_figures(found: re.Match[str], now: datetime, at: time) -> date:
    """A date in figures: behind dots the day is first, with strokes nobody knows unless only one can be it."""
    day = found["day"] or found["first"]
    month = found["month"] or found["second"] or found["bare"]
    year = found["year"] or found["of"] or found["in"]
    if found["sign"]:
        day = found["either"]
        month = found["other"]
        if int(month) > 12:
            day, month = month, day
        elif int(day) <= 12 and day != month:
            raise Unclear(
                f"“{found[0]}” may be two days. Say it with the month's name, such as: 24 December."
            )
    years: Sequence[int] = range(now.year, now.year + 9)
    if year:
        years = [int(year) + (2000 if int(year) < 100 else 0)]
    for one in years:
        with contextlib.suppress(ValueError):
            if datetime.combine(made := date(one, int(month), int(day)), at) > now or year:
                return made
    raise _no_calendar(found[0])


def _in_words(words: str, now: datetime, at: time) -> date:
    day = _parsed(words, now)
    if day is None:
        raise _no_day(words)
    if datetime.combine(day, at) <= now and not _YEAR.search(words):
        return _parsed(words, now + timedelta(days=1)) or day
    return day


def _parsed(words: str, now: datetime) -> date | None:
    """The date these words name, today or later if they name no year; None if they name none."""
    if len(words) > LONGEST or not (_IN_WORDS.fullmatch(words) and _MONTH.search(words)):
        return None
    import dateparser  # half a second, and ten megabytes: not before somebody names a date

    base = datetime.combine(now.date(), time()) - timedelta(seconds=1)
    settings: dict[str, Any] = {
        "RELATIVE_BASE": base,
        "PREFER_DATES_FROM": "future",
        "REQUIRE_PARTS": ["day", "month"],
    }
    try:
        found = dateparser.parse(words, languages=["en", "de"], settings=settings)
    except (ValueError, OverflowError):
        return None
    if found is None or found.time() != time():
        return None
    return found.date()


def _no_day(words: str) -> Unclear:
    if _IN_WORDS.fullmatch(words) and _MONTH.search(words):
        return _no_calendar(words)
    return Unclear(HOW, told=False)


def _no_calendar(words: str) -> Unclear:
    return Unclear(f"No calendar has the date “{words[:LONGEST]}”. Say it as: 24 December, or 2027-01-31.")
