"""Which words mean something near, in English and from other languages into it.

Pure apart from reading `concepts.txt` once: made for what people ask assistants for, not a dictionary.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bot.agent.tool_matching.stems import is_common_english, is_foreign_stop_word, split_words, stem

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_MAX_UNSPACED_SIGNS = 8  # signs of an entry that are looked up in writing without spaces
_MAX_WHOLE_WORD_LETTERS = 3  # letters up to which an entry is a whole word; longer ones are beginnings
_ARTICLE = re.compile(r"^(?:[وفبلك]?ال|[وفبل](?=\w{3}))")
_MIN_ENGLISH_SHARE = 0.2  # share of everyday English words from which a text counts as English


@dataclass(frozen=True, slots=True)
class Concepts:
    """`near` gives the stems that mean something alike, `named` the English name of an idea by foreign
    beginning.
    """

    related_stems: Mapping[str, frozenset[str]]
    english_names: Mapping[str, str]


@cache
def load_concepts() -> Concepts:
    """The shipped list."""
    return parse_concepts(
        files("bot.agent.tool_matching").joinpath("concepts.txt").read_text(encoding="utf-8")
    )


def parse_concepts(text: str) -> Concepts:
    """Ideas, one a line: English words, a colon, how words for it begin elsewhere; `#` begins a remark."""
    near: dict[str, frozenset[str]] = {}
    named: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        english, _, others = line.partition(":")
        alike = frozenset(map(stem, split_words(english)))
        for one in alike:
            near[one] = near.get(one, frozenset()) | (alike - {one})
        for word in split_words(others):
            named.setdefault(word, english.split()[0])
    return Concepts(near, named)


def is_english(message_words: Iterable[str]) -> bool:
    """Whether words are likely English: many are everyday words of it, and more than are small words
    elsewhere.
    """
    letters = [word for word in message_words if not word[0].isdigit()]
    if not letters:
        return True
    here = sum(map(is_common_english, letters))
    elsewhere = sum(map(is_foreign_stop_word, letters))
    return here > elsewhere and here >= _MIN_ENGLISH_SHARE * len(letters)


def find_english_names(message_words: Iterable[str], concepts: Concepts) -> list[str]:
    """English names of the ideas that words of other languages stand for, in their order."""
    return [name for word in message_words for name in _match_names(word, concepts.english_names)]


def _match_names(word: str, names: Mapping[str, str]) -> Iterator[str]:
    if _UNSPACED.search(word):
        yield from _match_unspaced(word, names)
        return
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
    at = 0
    while at < len(run):
        lengths = range(min(_MAX_UNSPACED_SIGNS, len(run) - at), 0, -1)
        length = next((one for one in lengths if run[at : at + one] in names), 0)
        if length:
            yield names[run[at : at + length]]
        at += length or 1
