"""Finds in a line of somebody where the words for a time end and a text begins."""

import contextlib
import re
import unicodedata
from itertools import chain, pairwise

from bot.jobs.times import clock_times, dates, instants
from bot.jobs.times.phrasebook import Phrasebook
from bot.jobs.times.reader import ParsedSchedule, TimeReader, list_readers, take_first
from bot.jobs.times.time_words import find_name_across, find_time_words, is_preposition
from bot.jobs.times.zones import UnclearTime, resolve_zone
from bot.translations.translator import translatable

MAX_WORDS = 16
_TEXT_LEAD_IN = re.compile(r"^(?:[:,\-–]\s*|(?:me\s+)?(?:to|that|dass)\s+)+", re.IGNORECASE)
_REMIND_ME = re.compile(
    r"^(?:(?:please|bitte)\s+)?(?:(?:remind|erinnere)\s+)?(?:me|mich|uns|us)\s+", re.IGNORECASE
)
_ABOUT = re.compile(r"^(?:about|of|an(?:\s+(?:den|die|das))?|ans|daran,?(?:\s+dass)?)\s+", re.IGNORECASE)
_BARE_SPAN = re.compile(rf"\d{{1,6}}(?:[.,]\d{{1,2}})?\s*(?:{instants.UNIT_PATTERN})(?!\w)", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d]")
_SEPARATORS = (":", "–", "-")  # between a time and its text
_SHORT_DAY = re.compile(
    r"(?P<name>mo|tu|we|th|fr|sa|su|so|di|mi|do|mon|tue|wed|thu|fri|sat|sun)\b(?P<more>.*)", re.DOTALL
)
_TIME_FOLLOWS = re.compile(r"\s*(?:,|-|–|und|and|bis)|.*(?:\b(?:um|uhr)\b|\d:\d\d)")
_TIME_START = re.compile(
    r"(?:at|um|on|am|this|next|in|every|each|jeden|until|bis|tomorrow|today|tonight|heute|übermorgen|@\d*|"
    r"\d{1,2}(?::\d{2})?(?:[ap]m)?)$",
    re.IGNORECASE,
)
_LONG_DAY_NAMES = "|".join(name for name in dates.WEEKDAYS if len(name) > 5)
_TIME_CONTINUES = re.compile(
    rf"(?:and|und|or|oder|&)\s+(?:(?:on|am|at|um)\s+)?(?:\d|{_LONG_DAY_NAMES}|tomorrow|übermorgen)|"
    rf"(?:{_LONG_DAY_NAMES})\b|"
    r"(?:at|um|@|from|von|between|zwischen|by|gegen)\s*(?:(?:punkt|halb|viertel|dreiviertel)\s+)?\d|"
    r"(?:until|till|bis|starting|ab|except|außer|every|jede[nrsm]?)\b|"
    rf"(?:for|für)\s+(?:{instants.COUNT_PATTERN})\s+"
    r"(?:days?|weeks?|months?|years?|tage?|wochen?|monate?|jahre?)\b|"
    rf"in\s+(?:{instants.COUNT_PATTERN})\s*(?:{instants.UNIT_PATTERN})\b|"
    r"(?:utc|gmt|bst|ces?t|[ecmp][sd]t)\b|"
    r"(?:to|past)\s+\d|(?:on\s+)?(?:the|de[nmr])\s+\d{1,2}(?:st|nd|rd|th|\.)|(?:nacht|(?:and\s+)?a\s+half)\b|"
    r"\d{1,2}(?:[:.]\d{2}|\s*(?:[ap]\.?m|uhr|o'clock))(?!\w)"
)
_EXACT_TIME = re.compile(r"\d|noon|midday|midnight|mittag|mitternacht")  # else it is a part of the day
_JOINING_WORDS = re.compile(
    r"[\s,]+(?:starting|beginning|from|ab|or|oder|and|und)(?:\s+(?:on|from|at))?$", re.IGNORECASE
)
_CLOCK_TIME = re.compile(r"(?<!\d)\d{1,2}(?::\d{2}|h(?:\d{2})?|\s?[ap]m|\s?uhr)(?!\w)|\d[点點時时시]")
_TIME_OF_PLACE = re.compile(r"(?:in\s+)?(?P<place>[^\W\d]+(?:\s[^\W\d]+)?)\s(?:time|zeit|ortszeit)\b")
_HALF_OF_CLOCK = re.compile(r"(?:p\.?\s?m|a\.\s?m)\b", re.IGNORECASE)
_ENDS_IN_MINUTES = re.compile(r"\d\s?m(?:in(?:ute[ns]?|s)?)?$")
_LEAST_MINUTES = 10  # in `at nine twenty`; a smaller number rather counts something
_BARE_HOUR = re.compile(r"(?:[01]?\d|2[0-4])(?:\s?[-–]\s?\d{1,2})?(?!\S)")
PARTLY_UNDERSTOOD = translatable(
    "I understand the time as far as “{when}”. If “{rest}” is part of it, say it another way, or write to "
    "me without /remind. If not, put a colon after the time, such as `/remind tomorrow at 9: call Anna`."
)
OTHER_PLACE = translatable(
    "I can't use the time of other places here. Give it in your own time zone, such as `/remind tomorrow "
    "at 9 call Anna`."
)
NO_TEXT = translatable("What should I remind you of? Add it, such as `/remind tomorrow at 9 call Anna`.")


def parse_line(
    line: str, zone: str, now: float, min_interval_seconds: int, language: str = "en"
) -> tuple[ParsedSchedule, str]:
    """Parse a line such as `tomorrow at nine call Anna`: return its schedule and its text.

    Its time stands first or last, or its day first and its hour last. Raises UnclearTime, with what is wrong
    with the time where that is known.
    """
    line = unicodedata.normalize("NFC", line.strip())
    readers = list_readers(zone, now, min_interval_seconds, language)

    def parse(reader: TimeReader) -> tuple[ParsedSchedule, str]:
        if reader.phrasebook is None:
            return _parse_grammar_line(line, reader)
        return _parse_phrasebook_line(line, reader)

    return take_first(readers, parse)


def _parse_grammar_line(line: str, reader: TimeReader) -> tuple[ParsedSchedule, str]:
    wish = _REMIND_ME.sub("", line)
    try:
        schedule, text = _parse_wish(wish, reader)
    except UnclearTime as error:
        if error.has_reason or not _BARE_SPAN.match(wish):
            raise
        schedule, text = _parse_wish(f"in {wish}", reader)  # `5 min tea`
    if wish != line:
        text = _ABOUT.sub("", text)
    return schedule, text


def _parse_phrasebook_line(line: str, reader: TimeReader) -> tuple[ParsedSchedule, str]:
    assert reader.phrasebook is not None
    wish = reader.phrasebook.strip_request(line)
    schedule, rest = _parse_wish(reader.phrasebook.separate(wish), reader)
    text = reader.phrasebook.strip_request(rest)  # it may also stand between time and text
    if wish != line or text != rest:
        text = reader.phrasebook.strip_lead_in(text)
    return schedule, text


def _parse_wish(line: str, reader: TimeReader) -> tuple[ParsedSchedule, str]:
    words = line.split()
    limit = min(MAX_WORDS, len(words))
    leading = ((words[:count], words[count:]) for count in range(limit, 0, -1))
    trailing = ((words[-count:], words[:-count]) for count in reader.list_trailing_counts(words, limit))
    for time_words, rest in chain(leading, trailing):
        if reader.phrasebook is None and _is_text(time_words):
            continue
        try:
            schedule = reader.read(" ".join(time_words).rstrip(":,–-"))
        except UnclearTime as error:
            if error.has_reason:  # fewer of these words would be understood as something else
                raise
            is_last = bool(rest) and words[: len(rest)] == rest
            if reader.phrasebook is not None and is_last and _LETTER.search(" ".join(time_words)):
                raise UnclearTime(instants.WHEN_HELP) from None
            continue
        text = _TEXT_LEAD_IN.sub("", _extract_text(line, time_words, rest)).strip()
        if not text:
            raise UnclearTime(NO_TEXT)
        if words[: len(time_words)] == time_words:
            return _resolve_leading_time(time_words, rest, schedule, text, reader)
        if not rest[-1].endswith(_SEPARATORS):
            _refuse_earlier_time(rest, time_words, schedule, text, reader)
        return schedule, text
    raise UnclearTime(instants.WHEN_HELP, has_reason=False)


def _refuse_earlier_time(
    rest: list[str], time_words: list[str], schedule: ParsedSchedule, text: str, reader: TimeReader
) -> None:
    """Raise UnclearTime if a text in front of a time may hold a part of it."""
    _refuse_second_time(rest, time_words, reader)
    if reader.phrasebook is not None:
        _refuse_further_time(rest, time_words, reader)
    if not _has_hour(time_words, schedule, reader) and reader.find_number(rest[-1]) is not None:
        raise _build_partly_understood(time_words, rest[-1:])
    _refuse_time_words(text, time_words, find_name_across(text, " ".join(time_words)))


def _resolve_leading_time(
    time_words: list[str],
    rest: list[str],
    schedule: ParsedSchedule,
    text: str,
    reader: TimeReader,
) -> tuple[ParsedSchedule, str]:
    """The time and the text of a line that begins with a time."""
    if time_words[-1].endswith(_SEPARATORS):
        return schedule, text
    trailing = _find_trailing_time(time_words, rest, reader)
    if trailing is not None:
        full_schedule, last_words, text_words = trailing
        all_words = [*time_words, "…", *last_words]
        _refuse_second_time(text_words, all_words, reader)
        words_across = find_name_across(" ".join(time_words), text) or find_name_across(
            " ".join(text_words), " ".join(last_words)
        )
        _refuse_time_words(" ".join(text_words), all_words, words_across)
        return full_schedule, _extract_text(text, last_words, text_words).strip()
    if reader.phrasebook is not None:
        _refuse_further_time(rest, time_words, reader)
    _refuse_continued_time(time_words, rest, schedule, reader)
    _refuse_time_words(text, time_words, find_name_across(" ".join(time_words), text))
    return schedule, text


def _is_text(time_words: list[str]) -> bool:
    """Tell whether a day's short name is rather a word of the text: `do the dishes`, `what to do at 9`."""
    short = _SHORT_DAY.match(" ".join(time_words).lower())
    if short is None or len(time_words) == 1:
        return short is not None
    return len(short["name"]) == 2 and not _TIME_FOLLOWS.match(short["more"])


def _find_trailing_time(
    time_words: list[str], rest: list[str], reader: TimeReader
) -> tuple[ParsedSchedule, list[str], list[str]] | None:
    """Find a time that ends behind the text, as in `tomorrow call Anna at 5`.

    Returns the schedule of both parts of the time, the words of its second part, and those of the text.
    """
    indexes = range(max(1, len(rest) - MAX_WORDS), len(rest))
    joint: list[str] = []
    if reader.phrasebook is None:
        indexes_to_try = [index for index in indexes if _TIME_START.match(rest[index])]
    else:
        joint = [","]  # no phrase begins in the first part and ends in the second
        indexes_to_try = _list_last_words(time_words, rest, reader, reader.phrasebook)
    for index in indexes_to_try:
        with contextlib.suppress(UnclearTime):
            return reader.read(" ".join([*time_words, *joint, *rest[index:]])), rest[index:], rest[:index]
    return None


def _list_last_words(
    time_words: list[str], rest: list[str], reader: TimeReader, phrasebook: Phrasebook
) -> list[int]:
    """Where the words for a time begin that a text ends in, if they complete the time before it.

    They name its hour, or the day until which it repeats.
    """
    has_hour = _names_hour(reader.say_in_english(" ".join(time_words)))
    for index in range(max(1, len(rest) - MAX_WORDS), len(rest)):
        if english := phrasebook.in_english(" ".join(rest[index:])):
            is_complement = english.startswith("until ") if has_hour else _names_hour(english)
            return [index] if is_complement else []
    return []


def _names_hour(english: str) -> bool:
    """Tell whether a phrase names a time of day that is more than a part of it."""
    try:
        times = clock_times.find_times(english).times
    except UnclearTime:
        return True
    return bool(times and _EXACT_TIME.search(english))


def _refuse_second_time(rest: list[str], time_words: list[str], reader: TimeReader) -> None:
    """Raise UnclearTime if a second time stands before the last one: `pills every 8 hours, starting at 6`."""
    text = " ".join(rest)
    joined = _JOINING_WORDS.search(text)
    before = text[: joined.start()].split() if joined else rest
    for count in range(1, min(MAX_WORDS, len(before)) + 1):
        if _is_text(before[-count:]):
            continue
        try:
            reader.read(" ".join(before[-count:]))
        except UnclearTime:
            continue
        raise _build_partly_understood(time_words, rest[len(before) - count :])


def _refuse_further_time(rest: list[str], time_words: list[str], reader: TimeReader) -> None:
    """Raise UnclearTime if a text ends in a time of any language: related ones share words."""
    for other in list_readers(reader.zone, reader.now, reader.min_interval_seconds):
        words = rest if other.phrasebook is None else other.phrasebook.separate(" ".join(rest)).split()
        _refuse_second_time(words, time_words, other)


def _refuse_time_words(text: str, time_words: list[str], words_across: str) -> None:
    """Raise UnclearTime if a word of the text may belong to the time, in whatever language.

    `words_across`: a name of a time that lies on both sides of the border between time and text.
    """
    if words := words_across or find_time_words(text):
        raise _build_partly_understood(time_words, [words])


def _build_partly_understood(time_words: list[str], rest: list[str]) -> UnclearTime:
    return UnclearTime(
        PARTLY_UNDERSTOOD,
        has_unknown_words=True,
        when=" ".join(time_words),
        rest=" ".join(rest)[:40],
    )


def _refuse_continued_time(
    time_words: list[str], rest: list[str], schedule: ParsedSchedule, reader: TimeReader
) -> None:
    """Raise UnclearTime if what follows a time may belong to it."""
    phrase = clock_times.normalize_phrase(reader.say_in_english(" ".join(time_words)))
    follows = clock_times.normalize_phrase(reader.say_in_english(" ".join(rest[:4])))
    has_hour = _has_hour(time_words, schedule, reader)
    lacks_hour = not has_hour
    if _TIME_CONTINUES.match(follows) or (lacks_hour and _BARE_HOUR.match(follows)):
        raise _build_partly_understood(time_words, rest[:3])
    if lacks_hour and (hour := _find_hour(rest, reader)):
        raise _build_partly_understood(time_words, [hour])
    if _may_be_minutes(phrase, rest, reader):
        raise _build_partly_understood(time_words, rest[:1])
    if has_hour and (other := _TIME_OF_PLACE.match(follows)):
        try:
            resolve_zone(other["place"])
        except UnclearTime:
            return
        raise UnclearTime(OTHER_PLACE)


def _find_hour(rest: list[str], reader: TimeReader) -> str:
    """The words of a text that name an hour; "" if there are none."""
    if clock_time := _CLOCK_TIME.search(" ".join(rest)):
        return clock_time[0]
    for before, word in pairwise(rest):
        number = reader.find_number(word)
        is_article = number == 1 and not word.isdecimal()
        if number is not None and number <= 24 and not is_article and is_preposition(before):
            return f"{before} {word}"
    return ""


def _may_be_minutes(phrase: str, rest: list[str], reader: TimeReader) -> bool:
    """Tell whether a text begins with what may belong to the hour before it: `at nine`, `twenty Anna`."""
    if reader.phrasebook is not None and _HALF_OF_CLOCK.match(" ".join(rest[:2])):
        return True
    number = reader.find_number(rest[0])
    return number is not None and number >= _LEAST_MINUTES and not _ENDS_IN_MINUTES.search(phrase)


def _has_hour(time_words: list[str], schedule: ParsedSchedule, reader: TimeReader) -> bool:
    """Tell whether words for a time name an exact time of day, or need none."""
    phrase = clock_times.normalize_phrase(reader.say_in_english(" ".join(time_words)))
    if instants.is_relative(phrase) or (schedule.rule is not None and schedule.rule.step_seconds is not None):
        return True
    return bool(clock_times.find_times(phrase).times and _EXACT_TIME.search(phrase))


def _extract_text(line: str, time_words: list[str], rest: list[str]) -> str:
    """The rest of the line as it was written, its own line breaks included."""
    if not rest:
        return ""
    if line.split()[: len(time_words)] == time_words and len(line.split()) > len(time_words):
        return re.sub(rf"^(?:\S+\s+){{{len(time_words)}}}", "", line)
    return re.sub(rf"(?:\s+\S+){{{len(time_words)}}}$", "", line)
