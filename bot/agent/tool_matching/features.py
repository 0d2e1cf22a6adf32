"""What a message holds by itself: its words, numbers and names, how it asks, and whether it is English. Pure."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from bot.agent.tool_matching.concepts import Concepts, find_english_names, is_english, load_concepts
from bot.agent.tool_matching.stems import (
    is_command_word,
    is_foreign_stop_word,
    is_search_word,
    is_stop_word,
    split_words,
    stem,
    weigh_word,
)

MAX_CHARS = 2000  # characters that are looked at: more would cost time and tell nothing new

_NUMBER = re.compile(r"\d[\d.,:/]*")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z]\w+")
_QUOTED = re.compile(r'"[^"]+"|(?<!\w)\'[^\']{2,}\'|[“„«][^”“»]+[”“»]')
_NUMBER_WORD = re.compile(
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million|dozen"
)
_QUESTION = re.compile("what|who|which|when|where|why|how")
# What signs stand for, in the words tools have for it; they count only where a tool has them.
_MONEY = r"\b(?:dollars?|euros?|pounds?|yen|francs?|yuan|rupees?|pesos?|USD|EUR|GBP|JPY|CHF|CNY|INR)\b"
_UNIT = r"\b(?:miles?|km|kilomet(?:er|re)s?|met(?:er|re)s?|feet|foot|inch(?:es)?|cm|lbs?|kg|kilos?|celsius|fahrenheit)\b"
_HINTS = (
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
_SURE_STEMS = frozenset(map(stem, ("url", "arithmetic")))  # a sign for them is enough
_VAGUE = re.compile(
    "best|most|why|meaning|difference|cause|steps|better"
)  # asked of the world, not of a tool


@dataclass(frozen=True, slots=True)
class MessageFeatures:
    """One message. `stems` weigh what they tell; `forms` describe the sentence, empty where it is not
    English.

    `hints` are stems that only count where tools have them; one of the `sure` is enough there. `order`: it
    begins with something to be done, `seeks`: with something to be found out. `readable`: something in it can
    be held against English descriptions.
    """

    stems: Mapping[str, float]
    sentence_features: Mapping[str, float]
    hints: frozenset[str]
    sure_hints: frozenset[str]
    number_count: int
    value_count: int
    is_readable: bool
    is_english: bool
    begins_with_command: bool
    begins_with_search: bool

    @property
    def is_question(self) -> bool:
        """Whether it begins with a question word of English."""
        return self.sentence_features.get("question", 0.0) > 0


def extract_features(text: str, concepts: Concepts | None = None) -> MessageFeatures:
    """Look at the newest message of a person."""
    text = text[:MAX_CHARS]
    found = split_words(text)
    numbers = len(_NUMBER.findall(text)) + sum(_NUMBER_WORD.fullmatch(word) is not None for word in found)
    capitals = len(_NAME.findall(text))
    quoted = len(_QUOTED.findall(text))
    givens = numbers + capitals + quoted
    hints = frozenset(one for pattern, meant in _compile_hints() if pattern.search(text) for one in meant)
    if is_english(found):
        forms = _describe_sentence(found, numbers, capitals, quoted)
        held = (weigh_stems(found), forms, hints, hints & _SURE_STEMS, numbers, givens, bool(found))
        return MessageFeatures(
            *held,
            is_english=True,
            begins_with_command=_begins_with(found, is_command_word),
            begins_with_search=_begins_with(found, is_search_word),
        )
    names = find_english_names(found, concepts or load_concepts())
    # A foreign word that is no name of anything would only seem left over, and a small one is no name.
    perhaps = hints | weigh_stems(word for word in found if not is_foreign_stop_word(word)).keys()
    readable = bool(names or hints)
    held = (weigh_stems(names), {}, perhaps, hints & _SURE_STEMS, numbers, givens, readable)
    return MessageFeatures(
        *held,
        is_english=False,
        begins_with_command=_begins_with(names, is_command_word),
        begins_with_search=_begins_with(names, is_search_word),
    )


def weigh_stems(message_words: Iterable[str]) -> dict[str, float]:
    """Stems of the words that can tell something, with what they weigh."""
    told: dict[str, float] = {}
    for word in message_words:
        if worth := weigh_word(word):
            short = stem(word)
            told[short] = max(worth, told.get(short, 0.0))
    return told


def _begins_with(message_words: list[str], is_kind: Callable[[str], bool]) -> bool:
    """Whether the first word that says something is of this kind."""
    return any(map(is_kind, itertools.islice((word for word in message_words if not is_stop_word(word)), 1)))


@cache
def _compile_hints() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    return tuple(
        (re.compile(pattern, re.IGNORECASE), tuple(map(stem, meant.split()))) for pattern, meant in _HINTS
    )


def _describe_sentence(
    message_words: list[str], numbers: int, capitals: int, quoted: int
) -> dict[str, float]:
    first = message_words[0] if message_words else ""
    return {
        "numbers": min(numbers, 4) / 4,
        "names": min(capitals, 4) / 4,
        "quoted": float(quoted > 0),
        "given": float(numbers + capitals + quoted > 0),
        "question": float(_QUESTION.fullmatch(first) is not None),
        "how": float(first == "how"),
        "who": float(first == "who"),
        "order": float(bool(first) and not is_stop_word(first)),
        "length": min(len(message_words), 40) / 40,
        "short": float(len(message_words) < 8),
        "vague": float(any(map(_VAGUE.fullmatch, message_words))),
    }
