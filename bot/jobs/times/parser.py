"""Words for when something is due, understood whole: once or again and again, and where they end and its text
begins.

Pure, but slow at its first date (a library is loaded): call it in a thread.
"""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from bot.jobs.times import clock_times as hours
from bot.jobs.times import dates as days
from bot.jobs.times import formatting as saying
from bot.jobs.times import instants as moments
from bot.jobs.times import recurrences
from bot.jobs.times import rrules as rules
from bot.jobs.times.errors import UnclearTime
from bot.jobs.times.rrules import RecurrenceRule

MAX_PHRASE_CHARS = 120  # characters of words for a time
MAX_WORDS = 14
_TEXT_LEAD_IN = re.compile(r"^(?:[:,\-–]\s*|(?:me\s+)?(?:to|that|dass)\s+)+", re.IGNORECASE)
_REMIND_ME = re.compile(
    r"^(?:(?:please|bitte)\s+)?(?:(?:remind|erinnere)\s+)?(?:me|mich|uns|us)\s+", re.IGNORECASE
)
_SEPARATORS = (":", "–", "-")  # what somebody puts between a time and its text
_SHORT_DAY = re.compile(
    r"(?P<name>mo|tu|we|th|fr|sa|su|so|di|mi|do|mon|tue|wed|thu|fri|sat|sun)\b(?P<more>.*)", re.DOTALL
)
_TIME_FOLLOWS = re.compile(r"\s*(?:,|-|–|und|and|bis)|.*(?:\b(?:um|uhr)\b|\d:\d\d)")
_TIME_START = re.compile(
    r"(?:at|um|on|am|this|next|in|every|each|jeden|until|bis|tomorrow|today|tonight|heute|übermorgen|@\d*|"
    r"\d{1,2}(?::\d{2})?(?:[ap]m)?)$",
    re.IGNORECASE,
)
_LONG_DAY_NAMES = "|".join(name for name in days.WEEKDAYS if len(name) > 5)
_TIME_CONTINUES = re.compile(
    rf"(?:and|und|or|oder|&)\s+(?:(?:on|am|at|um)\s+)?(?:\d|{_LONG_DAY_NAMES}|tomorrow|übermorgen)|(?:{_LONG_DAY_NAMES})\b|"
    r"(?:at|um|@|from|von|between|zwischen|by|gegen)\s*\d|(?:until|till|bis|starting|ab|except|außer|every|jede[nrsm]?)\b|"
    rf"(?:for|für)\s+(?:{moments.COUNT_PATTERN})\s+(?:days?|weeks?|months?|years?|tage?|wochen?|monate?|jahre?)\b|"
    rf"in\s+(?:{moments.COUNT_PATTERN})\s*(?:{moments.UNIT_PATTERN})\b|(?:utc|gmt|bst|ces?t|[ecmp][sd]t)\b|"
    r"(?:the|de[nmr])\s+\d{1,2}(?:st|nd|rd|th|\.)|(?:nacht|(?:and\s+)?a\s+half)\b|"
    r"\d{1,2}(?:[:.]\d{2}|\s*(?:[ap]\.?m|uhr|o'clock))(?!\w)"
)
_EXACT_TIME = re.compile(r"\d|noon|midday|midnight|mittag|mitternacht")  # else it is a part of the day
_JOINING_WORDS = re.compile(
    r"[\s,]+(?:starting|beginning|from|ab|or|oder|and|und)(?:\s+(?:on|from|at))?$", re.IGNORECASE
)
_BARE_HOUR = re.compile(r"(?:[01]?\d|2[0-4])(?!\S)")
PARTLY_UNDERSTOOD = (
    "I understand the time as far as “{when}”. If “{rest}” is part of it, say it another way; if not, put a colon "
    "between them, such as: tomorrow at 9: call Anna."
)
NO_TEXT = "Say what I shall remind you of, too, such as: /remind tomorrow at 9 call Anna."


@dataclass(frozen=True, slots=True)
class ParsedSchedule:
    """What was understood: the first due time, the rule if it comes again, and the next few times."""

    zone: str
    first_due: float
    rule: RecurrenceRule | None
    next_times: tuple[float, ...]

    @property
    def recurrence_text(self) -> str:
        """How often, in words; empty: once."""
        if self.rule:
            return saying.format_recurrence(self.rule)
        return ""


def parse_when(text: str, zone: str, now: float, min_interval_seconds: int) -> ParsedSchedule:
    """What words for a time mean to somebody in this zone; `shortest`: seconds between two times at least.

    Raises Unclear.
    """
    if len(text) > MAX_PHRASE_CHARS:
        raise UnclearTime(
            f"That is too long to be a time. Say it in {MAX_PHRASE_CHARS} characters at most.",
            has_reason=False,
        )
    phrase = hours.normalize_phrase(text)
    where = rules.load_zone(zone)
    if not phrase:
        raise UnclearTime("Say when, such as: tomorrow at 9, or every weekday at 8.")
    if recurrences.is_recurrence(phrase):
        rule = recurrences.find_recurrence(phrase, where, now, min_interval_seconds)
        few = rules.find_next_few(rule, where, now, saying.MAX_TIMES)
        return ParsedSchedule(zone, few[0], rule, few)
    at = float(round(moments.find_instant(phrase, where, now)))
    return ParsedSchedule(zone, at, None, (at,))


def parse_line(line: str, zone: str, now: float, min_interval_seconds: int) -> tuple[ParsedSchedule, str]:
    """What a line such as `tomorrow at nine call Anna` means, and the text in it: its time stands first or
    last, or its day first and its hour last.

    Raises Unclear, with what is wrong with the time where that is known.
    """
    line = _REMIND_ME.sub("", line.strip())
    words = line.split()
    most = min(MAX_WORDS, len(words))
    ahead = ((words[:count], words[count:]) for count in range(most, 0, -1))
    behind = ((words[-count:], words[:-count]) for count in range(most, 0, -1))
    for when, rest in chain(ahead, behind):
        if _is_text(when):
            continue
        try:
            understood = parse_when(" ".join(when).rstrip(":,–-"), zone, now, min_interval_seconds)
        except UnclearTime as error:
            if error.has_reason:  # fewer of these words would be understood as something else
                raise
            continue
        text = _TEXT_LEAD_IN.sub("", _extract_text(line, when, rest)).strip()
        if not text:
            raise UnclearTime(NO_TEXT)
        read = partial(parse_when, zone=zone, now=now, min_interval_seconds=min_interval_seconds)
        if line.split()[: len(when)] == when:
            return _resolve_leading_time(when, rest, understood, text, read)
        _refuse_second_time(rest, when, read)
        return understood, text
    raise UnclearTime(moments.WHEN_HELP, has_reason=False)


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
    said_last = _find_trailing_time(time_words, rest, parse)
    if said_last is not None:
        whole, last, between = said_last
        _refuse_second_time(between, [*time_words, "…", *last], parse, allow_days=False)
        return whole, _extract_text(text, last, between).strip()
    _refuse_continued_time(time_words, rest, schedule)
    return schedule, text


def _is_text(time_words: list[str]) -> bool:
    """Whether a day's short name is rather a word of the text: `do the dishes`, `what to do at 9`."""
    short = _SHORT_DAY.match(" ".join(time_words).lower())
    if short is None or len(time_words) == 1:
        return short is not None
    return len(short["name"]) == 2 and not _TIME_FOLLOWS.match(short["more"])


def _find_trailing_time(
    time_words: list[str], rest: list[str], parse: Callable[[str], ParsedSchedule]
) -> tuple[ParsedSchedule, list[str], list[str]] | None:
    """The time with what is said of it behind the text, these words, and the text's: `tomorrow call Anna at
    5`.
    """
    for at in range(max(1, len(rest) - MAX_WORDS), len(rest)):
        if _TIME_START.match(rest[at]):
            with contextlib.suppress(UnclearTime):
                return parse(" ".join([*time_words, *rest[at:]])), rest[at:], rest[:at]
    return None


def _refuse_second_time(
    rest: list[str], time_words: list[str], parse: Callable[[str], ParsedSchedule], *, allow_days: bool = True
) -> None:
    """Raise Unclear where a time goes before the one at the end: `pills every 8 hours, starting at 6`.

    `other_days`: a text may end with a day, such as `ask about Monday`.
    """
    words = " ".join(rest)
    joined = _JOINING_WORDS.search(words)
    before = words[: joined.start()].split() if joined else rest
    for count in range(1, min(MAX_WORDS, len(before)) + 1):
        if _is_text(before[-count:]):
            continue
        found: ParsedSchedule | None = None
        with contextlib.suppress(UnclearTime):
            found = parse(" ".join(before[-count:]))
        if found is not None and (found.rule or joined or not allow_days):
            raise _build_partly_understood(time_words, rest[len(before) - count :])


def _build_partly_understood(time_words: list[str], rest: list[str]) -> UnclearTime:
    return UnclearTime(PARTLY_UNDERSTOOD.format(when=" ".join(time_words), rest=" ".join(rest)[:40]))


def _refuse_continued_time(time_words: list[str], rest: list[str], schedule: ParsedSchedule) -> None:
    """Raise Unclear where what follows a time may belong to it."""
    follows = hours.normalize_phrase(" ".join(rest[:4]))
    said = hours.normalize_phrase(" ".join(time_words))
    counts = moments.is_relative(said) or (
        schedule.rule is not None and schedule.rule.step_seconds is not None
    )
    lacks_hour = not counts and not (hours.find_times(said).times and _EXACT_TIME.search(said))
    if _TIME_CONTINUES.match(follows) or (lacks_hour and _BARE_HOUR.match(follows)):
        raise _build_partly_understood(time_words, rest[:3])


def _extract_text(line: str, time_words: list[str], rest: list[str]) -> str:
    """The rest of the line as it was written, its own line breaks included."""
    if not rest:
        return ""
    if line.split()[: len(time_words)] == time_words and len(line.split()) > len(time_words):
        return re.sub(rf"^(?:\S+\s+){{{len(time_words)}}}", "", line)
    return re.sub(rf"(?:\s+\S+){{{len(time_words)}}}$", "", line)
