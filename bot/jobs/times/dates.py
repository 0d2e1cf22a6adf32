"""Days as people say them, in English and German: today, a weekday, the 3rd, a date. Pure.

dateparser reads dates with a month's name, and nothing else: left to itself it takes `monday 8` for a year's
20th of August, `8 30` for the 30th of that, `3.1.` for a 1st of March, and drops a time of day it does not
know.
"""

import contextlib
import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any

from bot.jobs.times.zones import UnclearTime
from bot.translations.formats import format_date, format_weekday
from bot.translations.translator import translatable

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
WEEKDAY_PATTERN = "|".join(sorted(WEEKDAYS, key=len, reverse=True))

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

_RELATIVE_DAYS = {
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
_LEADING_WORDS = re.compile(r"^(?:on|am|the|den|der|dem|this|diesen|an|for)\s+")
_NEXT = r"(?:next|coming|nächsten?r?|naechsten?|kommenden?r?)\s+"
_WEEKDAY = re.compile(rf"(?P<next>{_NEXT})?(?P<day>{WEEKDAY_PATTERN})(?P<later> week)?")
_SPAN = re.compile(rf"{_NEXT}(?P<span>week|month|year|woche|monat|jahr)")
_WEEKDAY_OF_NEXT_WEEK = re.compile(
    rf"{_NEXT}(?:week|woche)(?:\s+(?:on|am))?\s+(?P<day>{WEEKDAY_PATTERN})|"
    rf"(?P<day_first>{WEEKDAY_PATTERN})(?:\s+(?:of|in der))?\s+{_NEXT}(?:week|woche)"
)
_DAY_OF_MONTH = re.compile(r"(?P<number>\d{1,2})(?:st|nd|rd|th|\.)(?: of the month| des monats)?")
_WEEKDAY_AND_DATE = re.compile(rf"(?P<day>{WEEKDAY_PATTERN})\.?,?\s+(?:(?:the|de[mnr])\s+)?(?P<date>.*\d.*)")
_NUMERIC_DATE = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})|"
    r"(?P<first>\d{1,2})\.\s?(?:(?P<second>\d{1,2})\.(?:\s?(?P<of>\d{4}|\d{2}))?|(?P<bare>[01]\d))|"
    r"(?P<either>\d{1,2})(?P<sign>[/-])(?P<other>\d{1,2})(?:(?P=sign)(?P<in>\d{4}|\d{2}))?"
)
_WRITTEN_DATE = re.compile(
    r"(?:\d{1,3}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?[^\W\d]{3,9}\.?|"
    r"[^\W\d]{3,9}\.?\s+(?:the\s+)?\d{1,3}(?:st|nd|rd|th)?)(?:,?\s+\d{4})?"
)
_MONTH = re.compile(r"\b(?:jan|jän|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)")
_ORDINAL = re.compile(
    r"\b(" + "|".join(word for word in ORDINALS if word.isalpha() and ORDINALS[word] > 0) + r")\b"
)
_YEAR = re.compile(r"\b\d{4}$")
MAX_DATE_CHARS = 40  # characters of a date
WHEN_HELP = translatable(
    "I don't know when that is. "
    "Say it like this: `tomorrow at 9`, `Friday at 17:30`, `in 2 hours`, `on 24 December at 18:00`."
)
NO_SUCH_DAY = translatable("There's no day {number} in any month.")


def strip_leading_words(phrase: str) -> str:
    """Return the phrase without the small words before a day."""
    while (shorter := _LEADING_WORDS.sub("", phrase)) != phrase:
        phrase = shorter
    return phrase


def find_date(phrase: str, now: datetime, time_of_day: time) -> date:
    """Find the day a plain phrase means for something at this time of day, seen from the local time `now`.

    Raises UnclearTime where it is no day, or one that no calendar has.
    """
    day_text = strip_leading_words(phrase)
    today = now.date()
    if day_text == "" and time_of_day <= now.time():
        return today + timedelta(days=1)
    if day_text in _RELATIVE_DAYS:
        return today + timedelta(days=_RELATIVE_DAYS[day_text])
    if weekday := _WEEKDAY.fullmatch(day_text):
        number = WEEKDAYS[weekday["day"]]
        if not weekday["later"]:
            return _find_weekday(number, now, time_of_day, after_today=bool(weekday["next"]))
        days_ahead = (number - today.weekday()) % 7 or (7 if weekday["next"] else 0)
        return today + timedelta(days=days_ahead + 7)
    if day_text == "weekend":
        return min(_find_weekday(number, now, time_of_day, after_today=False) for number in (5, 6))
    if in_next_week := _WEEKDAY_OF_NEXT_WEEK.fullmatch(day_text):
        return _find_day_of_next_week(today, WEEKDAYS[in_next_week["day"] or in_next_week["day_first"]])
    if span := _SPAN.fullmatch(day_text):
        return _add_span(today, span["span"])
    if numbered := _DAY_OF_MONTH.fullmatch(day_text):
        return _find_day_of_month(int(numbered["number"]), now, time_of_day)
    return _parse_date(day_text, now, time_of_day)


def _find_weekday(number: int, now: datetime, time_of_day: time, *, after_today: bool) -> date:
    days_ahead = (number - now.weekday()) % 7
    if days_ahead == 0 and (after_today or time_of_day <= now.time()):
        days_ahead = 7
    return now.date() + timedelta(days=days_ahead)


def _find_day_of_next_week(today: date, weekday: int) -> date:
    """Return that day of the week that begins with the next Monday."""
    return today + timedelta(days=7 - today.weekday() + weekday)


def _add_span(today: date, span: str) -> date:
    if span in {"week", "woche"}:
        return _find_day_of_next_week(today, 0)
    return add_months(today, 1 if span in {"month", "monat"} else 12)


def add_months(day: date, months: int) -> date:
    """Return the same day so many months later, or the last day of a month that is shorter."""
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _find_day_of_month(number: int, now: datetime, time_of_day: time) -> date:
    if not 1 <= number <= 31:
        raise UnclearTime(NO_SUCH_DAY, number=number)
    for months in range(13):
        first = add_months(now.date().replace(day=1), months)
        if number <= monthrange(first.year, first.month)[1]:
            day = first.replace(day=number)
            if datetime.combine(day, time_of_day) > now:
                return day
    raise AssertionError("every month of a year is looked at")


def _parse_date(phrase: str, now: datetime, time_of_day: time) -> date:
    weekday = _WEEKDAY_AND_DATE.fullmatch(phrase)
    if weekday:
        phrase = weekday["date"]
    phrase = _ORDINAL.sub(lambda match: str(ORDINALS[match[0]]), phrase)
    if numeric := _NUMERIC_DATE.fullmatch(phrase):
        day = _parse_numeric_date(numeric, now, time_of_day)
    elif numbered := _DAY_OF_MONTH.fullmatch(phrase):
        day = _find_day_of_month(int(numbered["number"]), now, time_of_day)
    else:
        day = _parse_written_date(phrase, now, time_of_day)
    if weekday and day.weekday() != WEEKDAYS[weekday["day"]]:
        raise UnclearTime(
            translatable("{day} is a {weekday}. Name just one of the two."),
            day=partial(format_date, day=day, form="long"),
            weekday=partial(format_weekday, weekday=day.weekday()),
        )
    return day


def _parse_numeric_date(match: re.Match[str], now: datetime, time_of_day: time) -> date:
    """A date in figures: with dots the day is first, with strokes it is clear only if one is no month."""
    day = int(match["day"] or match["first"] or match["either"])
    month = int(match["month"] or match["second"] or match["bare"] or match["other"])
    if match["sign"]:
        if month > 12:
            day, month = month, day
        elif day <= 12 and day != month:
            raise UnclearTime(
                translatable("“{date}” could mean two days. Use the month's name, such as `24 December`."),
                date=match[0],
            )
    year_text = match["year"] or match["of"] or match["in"]
    for year in _list_years(year_text, now):
        with contextlib.suppress(ValueError):
            candidate = date(year, month, day)
            if year_text or datetime.combine(candidate, time_of_day) > now:
                return candidate
    raise _build_impossible_date(match[0])


def _list_years(year_text: str | None, now: datetime) -> Sequence[int]:
    """The years a date may be of; without a year in it these nine, so that a 29 February is found."""
    if not year_text:
        return range(now.year, now.year + 9)
    year = int(year_text)
    if year < 100:
        year += 2000
    return [year]


def _parse_written_date(phrase: str, now: datetime, time_of_day: time) -> date:
    day = _parse_with_dateparser(phrase, now)
    if day is None:
        raise _build_unclear_day(phrase)
    if datetime.combine(day, time_of_day) <= now and not _YEAR.search(phrase):
        return _parse_with_dateparser(phrase, now + timedelta(days=1)) or day
    return day


def _parse_with_dateparser(phrase: str, now: datetime) -> date | None:
    """The date a phrase names, today or later if it names no year; None if it names none."""
    if len(phrase) > MAX_DATE_CHARS or not (_WRITTEN_DATE.fullmatch(phrase) and _MONTH.search(phrase)):
        return None
    import dateparser  # half a second and ten megabytes: not before somebody names a date

    base = datetime.combine(now.date(), time()) - timedelta(seconds=1)
    settings: dict[str, Any] = {
        "RELATIVE_BASE": base,
        "PREFER_DATES_FROM": "future",
        "REQUIRE_PARTS": ["day", "month"],
    }
    try:
        parsed = dateparser.parse(phrase, languages=["en", "de"], settings=settings)
    except (ValueError, OverflowError):
        return None
    if parsed is None or parsed.time() != time():
        return None
    return parsed.date()


def _build_unclear_day(phrase: str) -> UnclearTime:
    if _WRITTEN_DATE.fullmatch(phrase) and _MONTH.search(phrase):
        return _build_impossible_date(phrase)
    return UnclearTime(WHEN_HELP, has_reason=False)


def _build_impossible_date(phrase: str) -> UnclearTime:
    return UnclearTime(
        translatable("“{date}” isn't a date. Say it like `24 December` or `2027-01-31`."),
        date=phrase[:MAX_DATE_CHARS],
    )
