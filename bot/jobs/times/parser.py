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
from bot.jobs.times.errors import Unclear
from bot.jobs.times.rrules import Rule

LONGEST = 120  # characters of words for a time
MOST_WORDS = 14
_JOIN = re.compile(r"^(?:[:,\-–]\s*|(?:me\s+)?(?:to|that|dass)\s+)+", re.IGNORECASE)
_ME = re.compile(r"^(?:(?:please|bitte)\s+)?(?:(?:remind|erinnere)\s+)?(?:me|mich|uns|us)\s+", re.IGNORECASE)
_ENDED = (":", "–", "-")  # what somebody puts between a time and its text
_SHORT = re.compile(
    r"(?P<name>mo|tu|we|th|fr|sa|su|so|di|mi|do|mon|tue|wed|thu|fri|sat|sun)\b(?P<more>.*)", re.DOTALL
)
_SURELY = re.compile(r"\s*(?:,|-|–|und|and|bis)|.*(?:\b(?:um|uhr)\b|\d:\d\d)")
_LAST = re.compile(
    r"(?:at|um|on|am|this|next|in|every|each|jeden|until|bis|tomorrow|today|tonight|heute|übermorgen|@\d*|"
    r"\d{1,2}(?::\d{2})?(?:[ap]m)?)$",
    re.IGNORECASE,
)
_DAYS = "|".join(name for name in days.WEEKDAYS if len(name) > 5)
_MORE = re.compile(
    rf"(?:and|und|or|oder|&)\s+(?:(?:on|am|at|um)\s+)?(?:\d|{_DAYS}|tomorrow|übermorgen)|(?:{_DAYS})\b|"
    r"(?:at|um|@|from|von|between|zwischen|by|gegen)\s*\d|(?:until|till|bis|starting|ab|except|außer|every|jede[nrsm]?)\b|"
    rf"(?:for|für)\s+(?:{moments.COUNT})\s+(?:days?|weeks?|months?|years?|tage?|wochen?|monate?|jahre?)\b|"
    rf"in\s+(?:{moments.COUNT})\s*(?:{moments.UNIT})\b|(?:utc|gmt|bst|ces?t|[ecmp][sd]t)\b|"
    r"(?:the|de[nmr])\s+\d{1,2}(?:st|nd|rd|th|\.)|(?:nacht|(?:and\s+)?a\s+half)\b|"
    r"\d{1,2}(?:[:.]\d{2}|\s*(?:[ap]\.?m|uhr|o'clock))(?!\w)"
)
_FIXED = re.compile(r"\d|noon|midday|midnight|mittag|mitternacht")  # else it is a part of the day
_JOINED = re.compile(
    r"[\s,]+(?:starting|beginning|from|ab|or|oder|and|und)(?:\s+(?:on|from|at))?$", re.IGNORECASE
)
_HOUR = re.compile(r"(?:[01]?\d|2[0-4])(?!\S)")
HALF_SAID = (
    "I understand the time as far as “{when}”. If “{rest}” is part of it, say it another way; if not, put a colon "
    "between them, such as: tomorrow at 9: call Anna."
)
NO_TEXT = "Say what I shall remind you of, too, such as: /remind tomorrow at 9 call Anna."


@dataclass(frozen=True, slots=True)
class When:
    """What was understood: the first due time, the rule if it comes again, and the next few times."""

    zone: str
    first: float
    rule: Rule | None
    next_few: tuple[float, ...]

    @property
    def words(self) -> str:
        """How often, in words; empty: once."""
        if self.rule:
            return saying.rule(self.rule)
        return ""


def understand(words: str, zone: str, now: float, shortest: int) -> When:
    """What words for a time mean to somebody in this zone; `shortest`: seconds between two times at least.

    Raises Unclear.
    """
    if len(words) > LONGEST:
        raise Unclear(f"That is too long to be a time. Say it in {LONGEST} characters at most.", told=False)
    phrase = hours.plain(words)
    where = rules.zone(zone)
    if not phrase:
        raise Unclear("Say when, such as: tomorrow at 9, or every weekday at 8.")
    if recurrences.is_meant(phrase):
        rule = recurrences.find(phrase, where, now, shortest)
        few = rules.next_few(rule, where, now, saying.SHOWN)
        return When(zone, few[0], rule, few)
    at = float(round(moments.find(phrase, where, now)))
    return When(zone, at, None, (at,))


def split(line: str, zone: str, now: float, shortest: int) -> tuple[When, str]:
    """What a line such as `tomorrow at nine call Anna` means, and the text in it: its time stands first or
    last, or its day first and its hour last.

    Raises Unclear, with what is wrong with the time where that is known.
    """
    line = _ME.sub("", line.strip())
    words = line.split()
    most = min(MOST_WORDS, len(words))
    ahead = ((words[:count], words[count:]) for count in range(most, 0, -1))
    behind = ((words[-count:], words[:-count]) for count in range(most, 0, -1))
    for when, rest in chain(ahead, behind):
        if _is_text(when):
            continue
        try:
            understood = understand(" ".join(when).rstrip(":,–-"), zone, now, shortest)
        except Unclear as error:
            if error.told:  # fewer of these words would be understood as something else
                raise
            continue
        text = _JOIN.sub("", _text(line, when, rest)).strip()
        if not text:
            raise Unclear(NO_TEXT)
        read = partial(understand, zone=zone, now=now, shortest=shortest)
        if line.split()[: len(when)] == when:
            return _first(when, rest, understood, text, read)
        _is_all(rest, when, read)
        return understood, text
    raise Unclear(moments.HOW, told=False)


def _first(
    when: list[str], rest: list[str], understood: When, text: str, read: Callable[[str], When]
) -> tuple[When, str]:
    """The time and the text of a line that begins with a time."""
    if when[-1].endswith(_ENDED):
        return understood, text
    said_last = _said_last(when, rest, read)
    if said_last is not None:
        whole, last, between = said_last
        _is_all(between, [*when, "…", *last], read, other_days=False)
        return whole, _text(text, last, between).strip()
    _is_whole(when, rest, understood)
    return understood, text


def _is_text(when: list[str]) -> bool:
    """Whether a day's short name is rather a word of the text: `do the dishes`, `what to do at 9`."""
    short = _SHORT.match(" ".join(when).lower())
    if short is None or len(when) == 1:
        return short is not None
    return len(short["name"]) == 2 and not _SURELY.match(short["more"])


def _said_last(
    when: list[str], rest: list[str], read: Callable[[str], When]
) -> tuple[When, list[str], list[str]] | None:
    """The time with what is said of it behind the text, these words, and the text's: `tomorrow call Anna at
    5`.
    """
    for at in range(max(1, len(rest) - MOST_WORDS), len(rest)):
        if _LAST.match(rest[at]):
            with contextlib.suppress(Unclear):
                return read(" ".join([*when, *rest[at:]])), rest[at:], rest[:at]
    return None


def _is_all(
    rest: list[str], when: list[str], read: Callable[[str], When], *, other_days: bool = True
) -> None:
    """Raise Unclear where a time goes before the one at the end: `pills every 8 hours, starting at 6`.

    `other_days`: a text may end with a day, such as `ask about Monday`.
    """
    words = " ".join(rest)
    joined = _JOINED.search(words)
    before = words[: joined.start()].split() if joined else rest
    for count in range(1, min(MOST_WORDS, len(before)) + 1):
        if _is_text(before[-count:]):
            continue
        found: When | None = None
        with contextlib.suppress(Unclear):
            found = read(" ".join(before[-count:]))
        if found is not None and (found.rule or joined or not other_days):
            raise _half_said(when, rest[len(before) - count :])


def _half_said(when: list[str], rest: list[str]) -> Unclear:
    return Unclear(HALF_SAID.format(when=" ".join(when), rest=" ".join(rest)[:40]))


def _is_whole(when: list[str], rest: list[str], understood: When) -> None:
    """Raise Unclear where what follows a time may belong to it."""
    follows = hours.plain(" ".join(rest[:4]))
    said = hours.plain(" ".join(when))
    counts = moments.is_counted(said) or (understood.rule is not None and understood.rule.step is not None)
    lacks_hour = not counts and not (hours.find(said).times and _FIXED.search(said))
    if _MORE.match(follows) or (lacks_hour and _HOUR.match(follows)):
        raise _half_said(when, rest[:3])


def _text(line: str, when: list[str], rest: list[str]) -> str:
    """The rest of the line as it was written, its own line breaks included."""
    if not rest:
        return ""
    if line.split()[: len(when)] == when and len(line.split()) > len(when):
        return re.sub(rf"^(?:\S+\s+){{{len(when)}}}", "", line)
    return re.sub(rf"(?:\s+\S+){{{len(when)}}}$", "", line)
