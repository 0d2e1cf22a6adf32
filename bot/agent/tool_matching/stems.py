"""Splits messages and tool descriptions into words and stems that can be compared.

Pure apart from reading `words.txt` once: which words say little, and which show that a text is English.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files

_WORD = re.compile(r"(?:[^\W\d_]|[\u0900-\u0dff\u0e31-\u0e4e])+|\d+(?:[.,:/]\d+)*")
_ASCII_WORD = re.compile(r"[a-z]+|\d+(?:[.,:/]\d+)*")  # the same for ASCII, three times as fast
_CAMEL_CASE_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ENDING = re.compile(  # the longest first
    "(?<=...)(?:ational|ization|isation|ations|ation|ments|ment|ingly|ities|ness|ings|ators|ator|ions|ion|"
    "ity|ing|ers|ies|ied|ance|ence|able|ible|ally|ical|est|ous|ive|als|ed|er|or|ly|es|al|ic|s|e|y)$"
)
_LAST_VOWEL = re.compile("(?<=....)(?:at|i|e)$")
_MAX_STEM_LETTERS = 7  # letters of a stem: `calculator` and `calculation` meet there
SCHEMA_WORD_WEIGHT = 0.35  # of a word that is common in schemas; others weigh 1


def split_words(text: str) -> list[str]:
    """The words and numbers of a text in lower case, without accents; snake_case and camelCase are split."""
    text = _CAMEL_CASE_BORDER.sub(" ", text)
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(fold_text(text))


def fold_text(text: str) -> str:
    """A text in lower case, without accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold().replace("ı", "i")
    return "".join(char for char in plain if not unicodedata.combining(char))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """What a word shares with its relatives, at most seven letters; short words and numbers unchanged."""
    if len(word) <= 3 or not word.isascii() or word[0].isdigit():
        return word
    whole_words = _load_word_lists()["whole"]
    for form in (word, word.removesuffix("s")):
        if form in whole_words:
            return form
    word = _ENDING.sub("", word)
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return _LAST_VOWEL.sub("", word)[:_MAX_STEM_LETTERS]


@lru_cache(maxsize=4096)
def weigh_word(word: str) -> float:
    """How much a word says, 0 to 1: stop words and numbers nothing, words of schemas little."""
    if word[0].isdigit() or is_stop_word(word):
        return 0.0
    if stem(word) in _list_schema_stems():
        return SCHEMA_WORD_WEIGHT
    if len(word) > 2 or not word.isascii():
        return 1.0
    return 0.5


def is_stop_word(word: str) -> bool:
    """Whether it is an English word without a meaning of its own, such as `the`."""
    return word in _load_word_lists()["small"]


def is_common_english(word: str) -> bool:
    """Whether it is common in English: a stop word, one of small talk, or one that schemas use."""
    lists = _load_word_lists()
    return word in lists["small"] or word in lists["talk"] or stem(word) in _list_schema_stems()


def is_foreign_stop_word(word: str) -> bool:
    """Whether it is a stop word of another language."""
    return word in _load_word_lists()["elsewhere"]


@cache
def _load_word_lists() -> Mapping[str, frozenset[str]]:
    text = files("bot.agent.tool_matching").joinpath("words.txt").read_text(encoding="utf-8")
    lists: dict[str, frozenset[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.endswith(":"):
            name = line[:-1]
        elif not line.startswith("#"):
            lists[name] = lists.get(name, frozenset()) | frozenset(line.split())
    return lists


@cache
def _list_schema_stems() -> frozenset[str]:
    return frozenset(map(stem, _load_word_lists()["schema"]))
