"""Words of messages and of tool descriptions, brought to a form in which they can be compared.

Pure apart from reading `words.txt` once: which words say little, and which tell that a text is English.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files

_WORD = re.compile(r"(?:[^\W\d_]|[\u0900-\u0dff\u0e31-\u0e4e])+|\d+(?:[.,:/]\d+)*")
_PLAIN_WORD = re.compile(
    r"[a-z]+|\d+(?:[.,:/]\d+)*"
)  # the same, three times as fast, where there is nothing but ASCII
_CAMEL_CASE_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ENDING = re.compile(  # the longest first
    "(?<=...)(?:ational|ization|isation|ations|ation|ments|ment|ingly|ities|ness|ings|ators|ator|ions|ion|ity|ing|ers|ies|"
    "ied|ance|ence|able|ible|ally|ical|est|ous|ive|als|ed|er|or|ly|es|al|ic|s|e|y)$"
)
_LAST_VOWEL = re.compile("(?<=....)(?:at|i|e)$")
_MAX_STEM_LETTERS = 7  # letters of a stem: `calculator` and `calculation` meet there
SCHEMA_WORD_WEIGHT = 0.35  # what a word of schemas weighs; others weigh 1


def split_words(text: str) -> list[str]:
    """The words and numbers of a text in small letters; names are parted at underscores and humps, accents
    are gone.
    """
    parted = _CAMEL_CASE_BORDER.sub(" ", text)
    if parted.isascii():
        return _PLAIN_WORD.findall(parted.lower())
    plain = unicodedata.normalize("NFKD", parted).casefold().replace("ı", "i")
    return _WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign)))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """What a word shares with its relatives, at most seven letters; numbers and short words stay as they are."""
    if len(word) <= 3 or not word.isascii() or word[0].isdigit():
        return word
    word = _ENDING.sub("", word)
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return _LAST_VOWEL.sub("", word)[:_MAX_STEM_LETTERS]


@lru_cache(maxsize=4096)
def weigh_word(word: str) -> float:
    """What a word can tell, between 0 and 1: small words and numbers nothing, words of schemas little."""
    if word[0].isdigit() or is_stop_word(word):
        return 0.0
    if stem(word) in _load_word_lists()["schema stems"]:
        return SCHEMA_WORD_WEIGHT
    if len(word) > 2 or not word.isascii():
        return 1.0
    return 0.5


def is_stop_word(word: str) -> bool:
    """Whether a word holds a sentence together and says nothing of its own."""
    return word in _load_word_lists()["small"]


def is_common_english(word: str) -> bool:
    """Whether English is full of it: a small word, one of talk, or one that schemas are made of."""
    lists = _load_word_lists()
    return word in lists["small"] or word in lists["talk"] or stem(word) in lists["schema stems"]


def is_foreign_stop_word(word: str) -> bool:
    """Whether it is a small word of another language."""
    return word in _load_word_lists()["elsewhere"]


def is_command_word(word: str) -> bool:
    """Whether it begins what somebody is asked to do."""
    return word in _load_word_lists()["orders"]


def is_search_word(word: str) -> bool:
    """Whether it begins what somebody is asked to find out."""
    return word in _load_word_lists()["seeking"]


@cache
def _load_word_lists() -> Mapping[str, frozenset[str]]:
    lists: dict[str, frozenset[str]] = {}
    name = ""
    for line in (
        files("bot.agent.tool_matching").joinpath("words.txt").read_text(encoding="utf-8").splitlines()
    ):
        if line.endswith(":"):
            name = line[:-1]
        elif not line.startswith("#"):
            lists[name] = lists.get(name, frozenset()) | frozenset(line.split())
    return {**lists, "schema stems": frozenset(map(stem, lists["schema"]))}
