"""What a message holds by itself: its words, numbers and names, how it asks, and whether it is English. Pure."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from bot.agent.tool_matching.concepts import Ideas, ideas, is_english, named
from bot.agent.tool_matching.stems import is_elsewhere, is_order, is_seeking, is_small, stem, weight, words

LENGTH = 2000  # characters that are looked at: more would cost time and tell nothing new

_NUMBER = re.compile(r"\d[\d.,:/]*")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z]\w+")
_QUOTED = re.compile(r'"[^"]+"|(?<!\w)\'[^\']{2,}\'|[“„«][^”“»]+[”“»]')
_COUNTING = re.compile(
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million|dozen"
)
_QUESTION = re.compile("what|who|which|when|where|why|how")
# What signs stand for, in the words tools have for it; they count only where a tool has them.
_MONEY = r"\b(?:dollars?|euros?|pounds?|yen|francs?|yuan|rupees?|pesos?|USD|EUR|GBP|JPY|CHF|CNY|INR)\b"
_UNIT = r"\b(?:miles?|km|kilomet(?:er|re)s?|met(?:er|re)s?|feet|foot|inch(?:es)?|cm|lbs?|kg|kilos?|celsius|fahrenheit)\b"
_SIGNS = (
    (rf"{_MONEY}.*{_MONEY}", "convert currency exchange"),
    (rf"{_UNIT}.*{_UNIT}", "convert unit"),
    (r"https?://|\bwww\.|\b[\w-]+\.(?:com|org|net|io|de|fr|ru|cn|jp)\b", "web website url page link"),
    (
        r"\d\s*[-+*/×÷^]\s*\d|\d\s*%|%\s*\d|√|\b(?:square root|divided by|multiplied by|\d (?:plus|minus|times))\b",
        "arithmetic expression percent",
    ),
    (r"[€$£¥₽₺]|\b(?:USD|EUR|GBP|JPY|CHF|CNY|RUB|INR|TRY)\b", "currency money"),
    (r"°|\b\d+\s*(?:km|kg|lbs?|cm|mm|ft|mph|kmh|oz|ml)\b", "unit"),
    (r"\b\d{1,2}:\d{2}\b|\b\d{1,2}\s*[ap]\.?m\b", "clock hour"),
    (r"\bwhat(?:'s| is)? (?:the )?(?:current )?(?:time|date|day)\b|\btime is it\b", "clock timezone weekday"),
    (r"[\w.+-]+@[\w-]+\.\w+", "email mail"),
    (r"\b(?:get|go|drive|travel|walk|cycle) from .+ to ", "route direction"),
    (r"\b\d{4}-\d\d-\d\d\b|\b(?:tomorrow|tonight|next (?:week|month)|\w{3,6}day)\b", "calendar schedule"),
)
_SURE = frozenset(map(stem, ("url", "arithmetic")))  # a sign for them is enough
_VAGUE = re.compile(
    "best|most|why|meaning|difference|cause|steps|better"
)  # asked of the world, not of a tool


@dataclass(frozen=True, slots=True)
class Wording:
    """One message. `stems` weigh what they tell; `forms` describe the sentence, empty where it is not
    English.

    `hints` are stems that only count where tools have them; one of the `sure` is enough there. `order`: it
    begins with something to be done, `seeks`: with something to be found out. `readable`: something in it can
    be held against English descriptions.
    """

    stems: Mapping[str, float]
    forms: Mapping[str, float]
    hints: frozenset[str]
    sure: frozenset[str]
    numbers: int
    givens: int
    readable: bool
    english: bool
    order: bool
    seeks: bool

    @property
    def asks(self) -> bool:
        """Whether it begins with a question word of English."""
        return self.forms.get("question", 0.0) > 0


def read(text: str, known: Ideas | None = None) -> Wording:
    """Look at the newest message of a person."""
    text = text[:LENGTH]
    found = words(text)
    numbers = len(_NUMBER.findall(text)) + sum(_COUNTING.fullmatch(word) is not None for word in found)
    capitals = len(_NAME.findall(text))
    quoted = len(_QUOTED.findall(text))
    givens = numbers + capitals + quoted
    hints = frozenset(one for pattern, meant in _signs() if pattern.search(text) for one in meant)
    if is_english(found):
        forms = _forms(found, numbers, capitals, quoted)
        held = (weighed(found), forms, hints, hints & _SURE, numbers, givens, bool(found))
        return Wording(*held, english=True, order=_begins(found, is_order), seeks=_begins(found, is_seeking))
    names = named(found, known or ideas())
    # A foreign word that is no name of anything would only seem left over, and a small one is no name.
    perhaps = hints | weighed(word for word in found if not is_elsewhere(word)).keys()
    readable = bool(names or hints)
    held = (weighed(names), {}, perhaps, hints & _SURE, numbers, givens, readable)
    return Wording(*held, english=False, order=_begins(names, is_order), seeks=_begins(names, is_seeking))


def weighed(found: Iterable[str]) -> dict[str, float]:
    """Stems of the words that can tell something, with what they weigh."""
    told: dict[str, float] = {}
    for word in found:
        if worth := weight(word):
            short = stem(word)
            told[short] = max(worth, told.get(short, 0.0))
    return told


def _begins(found: list[str], kind: Callable[[str], bool]) -> bool:
    """Whether the first word that says something is of this kind."""
    return any(map(kind, itertools.islice((word for word in found if not is_small(word)), 1)))


@cache
def _signs() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    return tuple(
        (re.compile(pattern, re.IGNORECASE), tuple(map(stem, meant.split()))) for pattern, meant in _SIGNS
    )


def _forms(found: list[str], numbers: int, capitals: int, quoted: int) -> dict[str, float]:
    first = found[0] if found else ""
    return {
        "numbers": min(numbers, 4) / 4,
        "names": min(capitals, 4) / 4,
        "quoted": float(quoted > 0),
        "given": float(numbers + capitals + quoted > 0),
        "question": float(_QUESTION.fullmatch(first) is not None),
        "how": float(first == "how"),
        "who": float(first == "who"),
        "order": float(bool(first) and not is_small(first)),
        "length": min(len(found), 40) / 40,
        "short": float(len(found) < 8),
        "vague": float(any(map(_VAGUE.fullmatch, found))),
    }
