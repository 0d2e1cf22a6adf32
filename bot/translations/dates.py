"""Days and moments in the language of the person who reads them."""

from datetime import date, datetime, tzinfo

from bot.translations.translator import Translator, translatable

_WEEKDAYS = (
    translatable("Mon"),
    translatable("Tue"),
    translatable("Wed"),
    translatable("Thu"),
    translatable("Fri"),
    translatable("Sat"),
    translatable("Sun"),
)
_MONTHS = (
    translatable("Jan"),
    translatable("Feb"),
    translatable("Mar"),
    translatable("Apr"),
    translatable("May"),
    translatable("Jun"),
    translatable("Jul"),
    translatable("Aug"),
    translatable("Sep"),
    translatable("Oct"),
    translatable("Nov"),
    translatable("Dec"),
)


def format_day(translate: Translator, timestamp: float, zone: tzinfo) -> str:
    """Format the day of a moment: 22 Nov 2026."""
    return format_date(translate, datetime.fromtimestamp(timestamp, zone))


def format_date(translate: Translator, day: date) -> str:
    """Format a day: 22 Nov 2026."""
    month = translate(_MONTHS[day.month - 1])
    return translate("{day} {month} {year}", day=day.day, month=month, year=day.year)


def format_weekday(translate: Translator, day: date) -> str:
    """Format a day with its weekday: Sun 22 Nov 2026."""
    weekday = translate(_WEEKDAYS[day.weekday()])
    return translate("{weekday} {date}", weekday=weekday, date=format_date(translate, day))


def format_moment(translate: Translator, timestamp: float, zone: tzinfo) -> str:
    """Format a moment with its weekday: Sun 22 Nov 2026, 09:30."""
    moment = datetime.fromtimestamp(timestamp, zone)
    return translate(
        "{weekday} {date}, {time}",
        weekday=translate(_WEEKDAYS[moment.weekday()]),
        date=format_day(translate, timestamp, zone),
        time=f"{moment:%H:%M}",
    )
