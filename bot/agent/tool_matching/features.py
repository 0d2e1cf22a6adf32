"""The features of a message: words, numbers and names, form of the sentence, English or not. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from bot.agent.tool_matching.concepts import find_english_names, is_english, load_concepts
from bot.agent.tool_matching.stems import (
    is_foreign_stop_word,
    is_stop_word,
    split_words,
    stem,
    weigh_word,
)
from bot.agent.tool_matching.synonyms import find_actions

ACTION_WORD_WEIGHT = 0.8  # of `send` in a search, as the actions of tools are compared, too
MAX_CHARS = 2000  # characters that count: more would cost time and add nothing

_NUMBER = re.compile(r"\d[\d.,:/]*")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z]\w+")
_QUOTED = re.compile(r'"[^"]+"|(?<!\w)\'[^\']{2,}\'|[“„«][^”“„«»]+[”“»]')
_NUMBER_WORDS = frozenset(
    {
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "hundred",
        "thousand",
        "million",
        "dozen",
    }
)
_QUESTION_WORDS = frozenset({"what", "who", "which", "when", "where", "why", "how"})
# What some patterns stand for, in the words of tools; these count only where a tool has them.
# They are searched in lower case, which is faster than to ignore case.
_MONEY = r"\b(?:dollars?|euros?|pounds?|yen|francs?|yuan|rupees?|pesos?|usd|eur|gbp|jpy|chf|cny|inr)\b"
_UNIT = (
    r"\b(?:miles?|km|kilomet(?:er|re)s?|met(?:er|re)s?|feet|foot|inch(?:es)?|cm|lbs?|kg|kilos?|"
    r"celsius|fahrenheit)\b"
)
_HINTS = (
    (rf"{_MONEY}.*{_MONEY}", "convert currency exchange"),
    (rf"{_UNIT}.*{_UNIT}", "convert unit"),
    (
        r"https?://|\bwww\.|(?<![\w-])-*\w[\w-]*+\.(?:com|org|net|io|de|fr|ru|cn|jp)\b",
        "web website url page link",
    ),
    (
        r"\d\s*[-+*/×÷^]\s*\d|\d\s*%|%\s*\d|√|"
        r"\b(?:square root|divided by|multiplied by|\d (?:plus|minus|times))\b",
        "arithmetic expression percent",
    ),
    (r"[€$£¥₽₺]|\b(?:usd|eur|gbp|jpy|chf|cny|rub|inr|try)\b", "currency money"),
    (r"°|\b\d+\s*(?:km|kg|lbs?|cm|mm|ft|mph|kmh|oz|ml)\b", "unit"),
    (r"\b\d{1,2}:\d{2}\b|\b\d{1,2}\s*[ap]\.?m\b", "clock hour"),
    (r"\bwhat(?:'s| is)? (?:the )?(?:current )?(?:time|date|day)\b|\btime is it\b", "clock timezone weekday"),
    (r"(?<![\w.+-])[\w.+-]++@[\w-]++\.\w", "email mail"),
    (r"\b(?:get|go|drive|travel|walk|cycle) from .+ to ", "route direction"),
    (r"\b\d{4}-\d\d-\d\d\b|\b(?:tomorrow|tonight|next (?:week|month)|\w{3,6}day)\b", "calendar schedule"),
)
_SURE_STEMS = frozenset(map(stem, ("url", "arithmetic")))  # a pattern for one of them is enough
# Asked of the world, not of a tool.
_VAGUE_WORDS = frozenset({"best", "most", "why", "meaning", "difference", "cause", "steps", "better"})


@dataclass(frozen=True, slots=True)
class MessageFeatures:
    """What is known of one message.

    stems: with their weights, 0 to 1.
    sentence_features: numbers for the classifier; empty where the message is not English.
    hints: stems that count only where a tool has them.
    sure_hints: of these, those of which one alone is enough.
    number_count, value_count: numbers; and numbers, names and quoted texts together.
    is_readable: something in it can be compared with English descriptions.
    actions: what is to be done, in the words of synonyms.txt; only search words tell it.
    joined_stems: of two neighbours in a search written as one word; these count only where a tool has them.
    """

    stems: Mapping[str, float]
    sentence_features: Mapping[str, float]
    hints: frozenset[str]
    sure_hints: frozenset[str]
    number_count: int
    value_count: int
    is_readable: bool
    is_english: bool
    actions: frozenset[str] = frozenset()
    joined_stems: frozenset[str] = frozenset()


def extract_features(text: str) -> MessageFeatures:
    """Extract the features of a user's newest message."""
    text = text[:MAX_CHARS]
    message_words = split_words(text)
    lower = text.lower()
    hints = frozenset(hint for pattern, stems in _compile_hints() if pattern.search(lower) for hint in stems)
    counts = _count_values(text, message_words)
    if is_english(message_words):
        return MessageFeatures(
            stems=weigh_stems(message_words),
            sentence_features=_describe_sentence(message_words, counts),
            hints=hints,
            sure_hints=hints & _SURE_STEMS,
            number_count=counts.numbers,
            value_count=counts.values,
            is_readable=bool(message_words),
            is_english=True,
        )
    names = find_english_names(message_words, load_concepts())
    # A foreign word that names no concept would only seem left over; a stop word is not the name of anything.
    unknown_stems = weigh_stems(word for word in message_words if not is_foreign_stop_word(word)).keys()
    return MessageFeatures(
        stems=weigh_stems(names),
        sentence_features={},
        hints=hints | unknown_stems,
        sure_hints=hints & _SURE_STEMS,
        number_count=counts.numbers,
        value_count=counts.values,
        is_readable=bool(names or hints),
        is_english=False,
    )


def extract_search_features(text: str) -> MessageFeatures:
    """Extract the features of the words of a search: English is asked for, and each word is meant.

    So no English word of it is taken for a small word of another language (`comment` is one in French), and
    words that all tools have count as any other. Two neighbours count as one word, too: `diskspace`.
    """
    features = extract_features(text)
    search_words = split_words(text[:MAX_CHARS])
    meant_words = [word for word in search_words if not is_stop_word(word)]
    joined_words = [first + second for first, second in pairwise(meant_words)]
    stems = {stem(word): ACTION_WORD_WEIGHT if find_actions([word]) else 1.0 for word in meant_words}
    return replace(
        features,
        stems={**features.stems, **stems},
        hints=features.hints & features.sure_hints,
        actions=find_actions(search_words),
        joined_stems=frozenset(map(stem, joined_words)),
    )


def weigh_stems(message_words: Iterable[str]) -> dict[str, float]:
    """Stems of the words that say something, with their weights."""
    weights: dict[str, float] = {}
    for word in message_words:
        weight = weigh_word(word)
        if weight:
            word_stem = stem(word)
            weights[word_stem] = max(weight, weights.get(word_stem, 0.0))
    return weights


@dataclass(frozen=True, slots=True)
class _ValueCounts:
    numbers: int
    names: int
    quoted: int

    @property
    def values(self) -> int:
        return self.numbers + self.names + self.quoted


def _count_values(text: str, message_words: list[str]) -> _ValueCounts:
    number_words = sum(word in _NUMBER_WORDS for word in message_words)
    numbers = len(_NUMBER.findall(text)) + number_words
    return _ValueCounts(numbers, names=len(_NAME.findall(text)), quoted=len(_QUOTED.findall(text)))


@cache
def _compile_hints() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    return tuple((re.compile(pattern), tuple(map(stem, meaning.split()))) for pattern, meaning in _HINTS)


def _describe_sentence(message_words: list[str], counts: _ValueCounts) -> dict[str, float]:
    first = message_words[0] if message_words else ""
    return {
        "numbers": min(counts.numbers, 4) / 4,
        "names": min(counts.names, 4) / 4,
        "quoted": float(counts.quoted > 0),
        "given": float(counts.values > 0),
        "question": float(first in _QUESTION_WORDS),
        "how": float(first == "how"),
        "who": float(first == "who"),
        "order": float(bool(first) and not is_stop_word(first)),
        "length": min(len(message_words), 40) / 40,
        "short": float(len(message_words) < 8),
        "vague": float(not _VAGUE_WORDS.isdisjoint(message_words)),
    }
