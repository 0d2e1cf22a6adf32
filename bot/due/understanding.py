"""Words for when something is due, understood whole: once or again and again, and where they end and its text begins.

Pure, but slow at its first date (a library is loaded): call it in a thread.
"""

import re
from dataclasses import dataclass
from itertools import chain

from bot.due import hours, moments, recurrences, rules, saying
from bot.due.rules import Rule
from bot.due.unclear import Unclear

LONGEST = 120  # characters of words for a time
MOST_WORDS = 14
_JOIN = re.compile(r"^(?:[:,\-–]\s*|(?:me\s+)?(?:to|that|dass)\s+)+", re.IGNORECASE)
_ME = re.compile(r"^(?:me|mich|uns|us)\s+", re.IGNORECASE)
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
        return saying.rule(self.rule) if self.rule else ""


def understand(words: str, zone: str, now: float, shortest: int) -> When:
    """What words for a time mean to somebody in this zone; `shortest`: seconds between two times at least.

    Raises Unclear.
    """
    if len(words) > LONGEST:
        raise Unclear(f"That is too long to be a time. Say it in {LONGEST} characters at most.", told=False)
    phrase, where = hours.plain(words), rules.zone(zone)
    if not phrase:
        raise Unclear("Say when, such as: tomorrow at 9, or every weekday at 8.")
    if recurrences.is_meant(phrase):
        rule = recurrences.find(phrase, where, now, shortest)
        few = rules.next_few(rule, where, now, saying.SHOWN)
        return When(zone, few[0], rule, few)
    at = float(round(moments.find(phrase, where, now)))
    return When(zone, at, None, (at,))


def split(line: str, zone: str, now: float, shortest: int) -> tuple[When, str]:
    """What a line such as `tomorrow at nine call Anna` means, and the text in it: its time stands first or last.

    Raises Unclear, with what is wrong with the time where that is known.
    """
    line = _ME.sub("", line.strip())
    words = line.split()
    most = min(MOST_WORDS, len(words))
    ahead = ((words[:count], words[count:]) for count in range(most, 0, -1))
    behind = ((words[-count:], words[:-count]) for count in range(most, 0, -1))
    for when, rest in chain(ahead, behind):
        try:
            understood = understand(" ".join(when).rstrip(":,–-"), zone, now, shortest)
        except Unclear as error:
            if error.told:  # fewer of these words would be understood as something else
                raise
            continue
        text = _JOIN.sub("", _text(line, when, rest)).strip()
        if not text:
            raise Unclear(NO_TEXT)
        return understood, text
    raise Unclear(moments.HOW, told=False)


def _text(line: str, when: list[str], rest: list[str]) -> str:
    """The rest of the line as it was written, its own line breaks included."""
    if not rest:
        return ""
    if line.split()[: len(when)] == when and len(line.split()) > len(when):
        return re.sub(rf"^(?:\S+\s+){{{len(when)}}}", "", line)
    return re.sub(rf"(?:\s+\S+){{{len(when)}}}$", "", line)
