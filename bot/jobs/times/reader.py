"""Reads words for when something is due, once or again and again, in each language.

The grammar reads English and German; a phrasebook says words of other languages in English first. Pure, but
slow at its first date (a library is loaded): call it in a thread.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bot.jobs.times import clock_times, formatting, instants, recurrences, rrules
from bot.jobs.times.phrasebook import LANGUAGES, MAX_PHRASE_CHARS, Phrasebook, load_phrasebook
from bot.jobs.times.rrules import RecurrenceRule
from bot.jobs.times.zones import UnclearTime
from bot.translations.translator import translatable

_STROKES = re.compile(r"(?<![\d/])(\d{1,2})/(0?[1-9]|1[0-2])(?:/(\d{2,4}))?(?![\d/])")
_DAY_FIRST = {"es", "fr", "pt", "ru"}  # 1/2 is in February for who speaks one of these
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParsedSchedule:
    """What a text means: first due time, rule if it comes again, and next few times (epoch seconds)."""

    zone: str
    first_due: float
    rule: RecurrenceRule | None
    next_times: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TimeReader:
    """Reads words for a time in one language; without a phrasebook in English and German.

    `zone`: that of who said them (an IANA name).
    `min_interval_seconds`: the least time between two due times.
    `is_day_first`: of a date in strokes, such as `1/2`.
    """

    phrasebook: Phrasebook | None
    zone: str
    now: float
    min_interval_seconds: int
    is_day_first: bool

    def read(self, words: str) -> ParsedSchedule:
        """Raise UnclearTime unless every word belongs to a time."""
        english = self._say(words)
        if not english and self.phrasebook is not None:
            raise UnclearTime(instants.WHEN_HELP, has_reason=False)
        try:
            return _parse_phrase(english, self.zone, self.now, self.min_interval_seconds)
        except UnclearTime as error:
            if error.date is not None:
                error.quote(self._find_words(words, error.date))
            raise

    def _find_words(self, words: str, date: object) -> str:
        """The words that say this date of the grammar; all of them if none alone do."""
        parts = words.split()
        ends = [(begin, end) for begin in range(len(parts)) for end in range(len(parts), begin, -1)]
        for said in (" ".join(parts[begin:end]) for begin, end in ends):
            if clock_times.normalize_phrase(self._say(said)) == date:
                return said
        return words

    def _say(self, words: str) -> str:
        """Say words as the grammar reads them; "" if one of them is not known."""
        english = words if self.phrasebook is None else self.phrasebook.in_english(words) or ""
        if self.is_day_first:
            english = _STROKES.sub(r"\1.\2.\3", english)
        return english

    def list_trailing_counts(self, words: list[str], limit: int) -> list[int]:
        """How many of the last words may be a time: all that a phrasebook knows, or any number."""
        counts = range(limit, 0, -1)
        if self.phrasebook is None:
            return [*counts]
        return [count for count in counts if self.phrasebook.in_english(" ".join(words[-count:]))][:1]

    def find_number(self, word: str) -> int | None:
        """The number that a word is, in figures or letters."""
        digits = self.phrasebook.find_number(word) if self.phrasebook is not None else None
        digits = digits or clock_times.normalize_phrase(word)
        return int(digits) if digits.isdecimal() else None

    def say_in_english(self, words: str) -> str:
        """What a text begins with as far as it may belong to a time."""
        return words if self.phrasebook is None else self.phrasebook.start_in_english(words)


def parse_when(
    text: str, zone: str, now: float, min_interval_seconds: int, language: str = "en"
) -> ParsedSchedule:
    """Parse words for a time of somebody in this zone (an IANA name), who speaks this language.

    `min_interval_seconds` is the least time between two due times. Raises UnclearTime.
    """
    readers = list_readers(zone, now, min_interval_seconds, language)
    return take_first(readers, lambda reader: reader.read(text))


def list_readers(zone: str, now: float, min_interval_seconds: int, language: str = "en") -> list[TimeReader]:
    """The readers of all languages, that of the person first."""
    names: list[str | None] = [None, *LANGUAGES]
    names.sort(key=lambda name: name != language)
    return [
        TimeReader(
            None if name is None else load_phrasebook(name),
            zone,
            now,
            min_interval_seconds,
            name == language and name in _DAY_FIRST,
        )
        for name in names
    ]


def take_first(readers: list[TimeReader], parse: Callable[[TimeReader], T]) -> T:
    """The first result; without any the first error that has a reason, or the first of all.

    Where a phrasebook understands a part, no other one is asked: a related language might pass over the rest.
    """
    errors = list[UnclearTime]()
    is_half_read = False
    for reader in readers:
        if is_half_read and reader.phrasebook is not None:
            continue
        try:
            return parse(reader)
        except UnclearTime as error:
            errors.append(error)
            is_half_read |= error.has_reason and reader.phrasebook is not None
    raise next((error for error in errors if error.has_reason), errors[0])


def _parse_phrase(text: str, zone: str, now: float, min_interval_seconds: int) -> ParsedSchedule:
    if len(text) > MAX_PHRASE_CHARS:
        raise UnclearTime(
            translatable("That's too long for a time. Say it in at most {count} characters."),
            has_reason=False,
            count=MAX_PHRASE_CHARS,
        )
    phrase = clock_times.normalize_phrase(text)
    tz = rrules.load_zone(zone)
    if not phrase:
        raise UnclearTime(translatable("Say when, such as `tomorrow at 9` or `every weekday at 8`."))
    if recurrences.is_recurrence(phrase):
        rule = recurrences.find_recurrence(phrase, tz, now, min_interval_seconds)
        next_times = rrules.find_next_few(rule, tz, now, formatting.MAX_TIMES)
        return ParsedSchedule(zone, next_times[0], rule, next_times)
    instant = float(round(instants.find_instant(phrase, tz, now)))
    return ParsedSchedule(zone, instant, None, (instant,))
