"""Related words: which English ones mean something similar, and what words of other languages are in English.

Pure apart from reading `concepts.txt` once. The list is for requests to assistants, it is no dictionary.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bot.agent.tool_matching.stems import is_common_english, is_foreign_stop_word, split_words, stem

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_MAX_UNSPACED_CHARS = 8  # characters of the longest entry in scripts without spaces
_MAX_WORD_LETTERS = 40  # letters of a word that are looked at; no entry is as long
_MAX_WHOLE_WORD_LETTERS = 3  # letters up to which an entry is a whole word; longer entries are prefixes
_ARTICLE = re.compile(r"^(?:[وفبلك]?ال|[وفبل](?=\w{3}))")
_MIN_ENGLISH_SHARE = 0.2  # share of everyday English words from which a text counts as English


@dataclass(frozen=True, slots=True)
class Concepts:
    """Stems that mean something similar, by stem; and the English name of a concept, by foreign prefix."""

    related_stems: Mapping[str, frozenset[str]]
    english_names: Mapping[str, str]


@cache
def load_concepts() -> Concepts:
    """The shipped list."""
    path = files("bot.agent.tool_matching").joinpath("concepts.txt")
    return parse_concepts(path.read_text(encoding="utf-8"))


def parse_concepts(text: str) -> Concepts:
    """Read concepts, one a line: English words, a colon, prefixes of foreign words; `#` begins a remark."""
    related_stems: dict[str, frozenset[str]] = {}
    english_names: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        english, _, foreign = line.partition(":")
        stems = frozenset(map(stem, split_words(english)))
        for key in stems:
            related_stems[key] = related_stems.get(key, frozenset()) | (stems - {key})
        for prefix in split_words(foreign):
            english_names.setdefault(prefix, english.split()[0])
    return Concepts(related_stems, english_names)


def is_english(message_words: Iterable[str]) -> bool:
    """Whether words are likely English: many are common in it, fewer are foreign stop words."""
    letter_words = [word for word in message_words if not word[0].isdigit()]
    if not letter_words:
        return True
    english_count = sum(map(is_common_english, letter_words))
    foreign_count = sum(map(is_foreign_stop_word, letter_words))
    return english_count > foreign_count and english_count >= _MIN_ENGLISH_SHARE * len(letter_words)


def find_english_names(message_words: Iterable[str], concepts: Concepts) -> list[str]:
    """English names of the concepts that words of other languages stand for, in their order."""
    return [name for word in message_words for name in _match_names(word, concepts.english_names)]


def _match_names(word: str, names: Mapping[str, str]) -> Iterator[str]:
    if _UNSPACED.search(word):
        yield from _match_unspaced(word, names)
        return
    word = word[:_MAX_WORD_LETTERS]
    for form in dict.fromkeys((word, _ARTICLE.sub("", word))):
        for length in range(len(form), _MAX_WHOLE_WORD_LETTERS - 1, -1):
            if (name := names.get(form[:length])) and (
                length > _MAX_WHOLE_WORD_LETTERS or length == len(form)
            ):
                yield name
                return
        if form in names:
            yield names[form]
            return


def _match_unspaced(run: str, names: Mapping[str, str]) -> Iterator[str]:
    """The longest entries of a run without spaces, from left to right."""
    position = 0
    while position < len(run):
        for length in range(min(_MAX_UNSPACED_CHARS, len(run) - position), 0, -1):
            entry = run[position : position + length]
            if entry in names:
                yield names[entry]
                position += length
                break
        else:
            position += 1
