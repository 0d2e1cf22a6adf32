"""Parses words for when something is due, and finds where they end and a text begins.

Something is due once or again and again. Pure, but slow at its first date (a library is loaded): call it in a
thread.
"""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from bot.jobs.times import clock_times, dates, formatting, instants, recurrences, rrules
from bot.jobs.times.rrules import RecurrenceRule
from bot.jobs.times.time_words import find_name_across, find_time_words
from bot.jobs.times.zones import UnclearTime, resolve_zone
from bot.translations.translator import translatable

MAX_PHRASE_CHARS = 120  # characters of words for a time
MAX_WORDS = 14
_TEXT_LEAD_IN = re.compile(r"^(?:[:,\-–]\s*|(?:me\s+)?(?:to|that|dass)\s+)+", re.IGNORECASE)
_REMIND_ME = re.compile(
    r"^(?:(?:please|bitte)\s+)?(?:(?:remind|erinnere)\s+)?(?:me|mich|uns|us)\s+", re.IGNORECASE
)
_ABOUT = re.compile(r"^(?:about|of|an(?:\s+(?:den|die|das))?|ans|daran,?(?:\s+dass)?)\s+", re.IGNORECASE)
_BARE_SPAN = re.compile(rf"\d{{1,6}}(?:[.,]\d{{1,2}})?\s*(?:{instants.UNIT_PATTERN})(?!\w)", re.IGNORECASE)
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
    r"(?:at|um|@|from|von|between|zwischen|by|gegen)\s*\d|"
    r"(?:until|till|bis|starting|ab|except|außer|every|jede[nrsm]?)\b|"
    rf"(?:for|für)\s+(?:{instants.COUNT_PATTERN})\s+"
    r"(?:days?|weeks?|months?|years?|tage?|wochen?|monate?|jahre?)\b|"
    rf"in\s+(?:{instants.COUNT_PATTERN})\s*(?:{instants.UNIT_PATTERN})\b|"
    r"(?:utc|gmt|bst|ces?t|[ecmp][sd]t)\b|"
    r"(?:the|de[nmr])\s+\d{1,2}(?:st|nd|rd|th|\.)|(?:nacht|(?:and\s+)?a\s+half)\b|"
    r"\d{1,2}(?:[:.]\d{2}|\s*(?:[ap]\.?m|uhr|o'clock))(?!\w)"
)
_EXACT_TIME = re.compile(r"\d|noon|midday|midnight|mittag|mitternacht")  # else it is a part of the day
_JOINING_WORDS = re.compile(
    r"[\s,]+(?:starting|beginning|from|ab|or|oder|and|und)(?:\s+(?:on|from|at))?$", re.IGNORECASE
)
_CLOCK_TIME = re.compile(r"(?<!\d)\d{1,2}(?::\d{2}|h(?:\d{2})?)(?!\w)|\d[点點時时시]")
_TIME_OF_PLACE = re.compile(r"(?:in\s+)?(?P<place>[^\W\d]+(?:\s[^\W\d]+)?)\s(?:time|zeit|ortszeit)\b")
_BARE_HOUR = re.compile(r"(?:[01]?\d|2[0-4])(?!\S)")
PARTLY_UNDERSTOOD = translatable(
    "I understand the time as far as “{when}”. If “{rest}” is part of it, say it another way, in English or "
    "German, or write to me without /remind; if not, put a colon behind the time, such as "
    "`/remind tomorrow at 9: call Anna`."
)
OTHER_PLACE = translatable(
    "I don't know the time of other places here. Say it in the time of your own zone, such as "
    "`/remind tomorrow at 9 call Anna`."
)
NO_TEXT = translatable(
    "What shall I remind you of? Say that, too, such as `/remind tomorrow at 9 call Anna`."
)


@dataclass(frozen=True, slots=True)
class ParsedSchedule:
    """What a text means: first due time, rule if it comes again, and next few times (epoch seconds)."""

    zone: str
    first_due: float
    rule: RecurrenceRule | None
    next_times: tuple[float, ...]


def parse_when(text: str, zone: str, now: float, min_interval_seconds: int) -> ParsedSchedule:
    """Parse words for a time of somebody in this zone (an IANA name).

    `min_interval_seconds` is the least time between two due times. Raises UnclearTime.
    """
    if len(text) > MAX_PHRASE_CHARS:
        raise UnclearTime(
            translatable("That is too long for a time. Say it in at most {count} characters."),
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


def parse_line(line: str, zone: str, now: float, min_interval_seconds: int) -> tuple[ParsedSchedule, str]:
    """Parse a line such as `tomorrow at nine call Anna`: return its schedule and its text.

    Its time stands first or last, or its day first and its hour last. Raises UnclearTime, with what is wrong
    with the time where that is known.
    """
    wish = _REMIND_ME.sub("", line.strip())
    try:
        schedule, text = _parse_wish(wish, zone, now, min_interval_seconds)
    except UnclearTime as error:
        if error.has_reason or not _BARE_SPAN.match(wish):
            raise
        schedule, text = _parse_wish(f"in {wish}", zone, now, min_interval_seconds)  # `5 min tea`
    if wish != line.strip():
        text = _ABOUT.sub("", text)
    return schedule, text


def _parse_wish(line: str, zone: str, now: float, min_interval_seconds: int) -> tuple[ParsedSchedule, str]:
    words = line.split()
    limit = min(MAX_WORDS, len(words))
    leading = ((words[:count], words[count:]) for count in range(limit, 0, -1))
    trailing = ((words[-count:], words[:-count]) for count in range(limit, 0, -1))
    for time_words, rest in chain(leading, trailing):
        if _is_text(time_words):
            continue
        try:
            schedule = parse_when(" ".join(time_words).rstrip(":,–-"), zone, now, min_interval_seconds)
        except UnclearTime as error:
            if error.has_reason:  # fewer of these words would be understood as something else
                raise
            continue
        text = _TEXT_LEAD_IN.sub("", _extract_text(line, time_words, rest)).strip()
        if not text:
            raise UnclearTime(NO_TEXT)
        parse = partial(parse_when, zone=zone, now=now, min_interval_seconds=min_interval_seconds)
        if words[: len(time_words)] == time_words:
            return _resolve_leading_time(time_words, rest, schedule, text, parse)
        if not rest[-1].endswith(_SEPARATORS):
            _refuse_second_time(rest, time_words, parse)
            _refuse_time_words(text, time_words, find_name_across(text, " ".join(time_words)))
        return schedule, text
    raise UnclearTime(instants.WHEN_HELP, has_reason=False)


def _resolve_leading_time(
    time_words: list[str],
    rest: list[str],
    schedule: ParsedSchedule,
    text: str,
    parse: Callable[[str], ParsedSchedule],
) -> tuple[ParsedSchedule, str]:
    """The time and the text of a line that begins with a time."""
    if time_words[-1].endswith(_SEPARATORS):
        return schedule, text
    trailing = _find_trailing_time(time_words, rest, parse)
    if trailing is not None:
        full_schedule, last_words, text_words = trailing
        all_words = [*time_words, "…", *last_words]
        _refuse_second_time(text_words, all_words, parse)
        words_across = find_name_across(" ".join(time_words), text) or find_name_across(
            " ".join(text_words), " ".join(last_words)
        )
        _refuse_time_words(" ".join(text_words), all_words, words_across)
        return full_schedule, _extract_text(text, last_words, text_words).strip()
    _refuse_continued_time(time_words, rest, schedule)
    _refuse_time_words(text, time_words, find_name_across(" ".join(time_words), text))
    return schedule, text


def _is_text(time_words: list[str]) -> bool:
    """Tell whether a day's short name is rather a word of the text: `do the dishes`, `what to do at 9`."""
    short = _SHORT_DAY.match(" ".join(time_words).lower())
    if short is None or len(time_words) == 1:
        return short is not None
    return len(short["name"]) == 2 and not _TIME_FOLLOWS.match(short["more"])


def _find_trailing_time(
    time_words: list[str], rest: list[str], parse: Callable[[str], ParsedSchedule]
) -> tuple[ParsedSchedule, list[str], list[str]] | None:
    """Find a time that ends behind the text, as in `tomorrow call Anna at 5`.

    Returns the schedule of both parts of the time, the words of its second part, and those of the text.
    """
    for index in range(max(1, len(rest) - MAX_WORDS), len(rest)):
        if _TIME_START.match(rest[index]):
            with contextlib.suppress(UnclearTime):
                return parse(" ".join([*time_words, *rest[index:]])), rest[index:], rest[:index]
    return None


def _refuse_second_time(
    rest: list[str], time_words: list[str], parse: Callable[[str], ParsedSchedule]
) -> None:
    """Raise UnclearTime if a second time stands before the last one: `pills every 8 hours, starting at 6`."""
    text = " ".join(rest)
    joined = _JOINING_WORDS.search(text)
    before = text[: joined.start()].split() if joined else rest
    for count in range(1, min(MAX_WORDS, len(before)) + 1):
        if _is_text(before[-count:]):
            continue
        try:
            parse(" ".join(before[-count:]))
        except UnclearTime:
            continue
        raise _build_partly_understood(time_words, rest[len(before) - count :])


def _refuse_time_words(text: str, time_words: list[str], words_across: str) -> None:
    """Raise UnclearTime if a word of the text may belong to the time, in whatever language.

    `words_across`: a name of a time that lies on both sides of the border between time and text.
    """
    if words := words_across or find_time_words(text):
        raise _build_partly_understood(time_words, [words])


def _build_partly_understood(time_words: list[str], rest: list[str]) -> UnclearTime:
    return UnclearTime(
        PARTLY_UNDERSTOOD,
        when=" ".join(time_words),
        rest=" ".join(rest)[:40],
    )


def _refuse_continued_time(time_words: list[str], rest: list[str], schedule: ParsedSchedule) -> None:
    """Raise UnclearTime if what follows a time may belong to it."""
    follows = clock_times.normalize_phrase(" ".join(rest[:4]))
    phrase = clock_times.normalize_phrase(" ".join(time_words))
    needs_no_hour = instants.is_relative(phrase) or (
        schedule.rule is not None and schedule.rule.step_seconds is not None
    )
    has_hour = needs_no_hour or (clock_times.find_times(phrase).times and _EXACT_TIME.search(phrase))
    lacks_hour = not has_hour
    if _TIME_CONTINUES.match(follows) or (lacks_hour and _BARE_HOUR.match(follows)):
        raise _build_partly_understood(time_words, rest[:3])
    if lacks_hour and (hour := _CLOCK_TIME.search(" ".join(rest))):
        raise _build_partly_understood(time_words, [hour[0]])
    if has_hour and (other := _TIME_OF_PLACE.match(follows)):
        try:
            resolve_zone(other["place"])
        except UnclearTime:
            return
        raise UnclearTime(OTHER_PLACE)


def _extract_text(line: str, time_words: list[str], rest: list[str]) -> str:
    """The rest of the line as it was written, its own line breaks included."""
    if not rest:
        return ""
    if line.split()[: len(time_words)] == time_words and len(line.split()) > len(time_words):
        return re.sub(rf"^(?:\S+\s+){{{len(time_words)}}}", "", line)
    return re.sub(rf"(?:\s+\S+){{{len(time_words)}}}$", "", line)
