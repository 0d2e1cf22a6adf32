"""Days and moments in the language of the person who reads them."""

from datetime import datetime, tzinfo

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
    moment = datetime.fromtimestamp(timestamp, zone)
    month = translate(_MONTHS[moment.month - 1])
    return translate("{day} {month} {year}", day=moment.day, month=month, year=moment.year)


def format_moment(translate: Translator, timestamp: float, zone: tzinfo) -> str:
    """Format a moment with its weekday: Sun 22 Nov 2026, 09:30."""
    moment = datetime.fromtimestamp(timestamp, zone)
    return translate(
        "{weekday} {date}, {time}",
        weekday=translate(_WEEKDAYS[moment.weekday()]),
        date=format_day(translate, timestamp, zone),
        time=f"{moment:%H:%M}",
    )
