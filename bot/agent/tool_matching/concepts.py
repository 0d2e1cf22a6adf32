"""Which words mean something near, in English and from other languages into it.

Pure apart from reading `concepts.txt` once: made for what people ask assistants for, not a dictionary.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bot.agent.tool_matching.stems import is_elsewhere, is_everyday, stem, words

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_LONGEST = 8  # signs of an entry that are looked up in writing without spaces
_WHOLE = 3  # letters up to which an entry is a whole word; longer ones are beginnings
_ARTICLE = re.compile(r"^(?:[وفبلك]?ال|[وفبل](?=\w{3}))")
_ENGLISH = 0.2  # share of everyday English words from which a text counts as English


@dataclass(frozen=True, slots=True)
class Ideas:
    """`near` gives the stems that mean something alike, `named` the English name of an idea by foreign
    beginning.
    """

    near: Mapping[str, frozenset[str]]
    named: Mapping[str, str]


@cache
def ideas() -> Ideas:
    """The shipped list."""
    return read(files("bot.agent.tool_matching").joinpath("concepts.txt").read_text(encoding="utf-8"))


def read(text: str) -> Ideas:
    """Ideas, one a line: English words, a colon, how words for it begin elsewhere; `#` begins a remark."""
    near: dict[str, frozenset[str]] = {}
    named: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        english, _, others = line.partition(":")
        alike = frozenset(map(stem, words(english)))
        for one in alike:
            near[one] = near.get(one, frozenset()) | (alike - {one})
        for word in words(others):
            named.setdefault(word, english.split()[0])
    return Ideas(near, named)


def is_english(found: Iterable[str]) -> bool:
    """Whether words are likely English: many are everyday words of it, and more than are small words
    elsewhere.
    """
    letters = [word for word in found if not word[0].isdigit()]
    if not letters:
        return True
    here = sum(map(is_everyday, letters))
    elsewhere = sum(map(is_elsewhere, letters))
    return here > elsewhere and here >= _ENGLISH * len(letters)


def named(found: Iterable[str], known: Ideas) -> list[str]:
    """English names of the ideas that words of other languages stand for, in their order."""
    return [name for word in found for name in _names(word, known.named)]


def _names(word: str, known: Mapping[str, str]) -> Iterator[str]:
    if _UNSPACED.search(word):
        yield from _inside(word, known)
        return
    for form in dict.fromkeys((word, _ARTICLE.sub("", word))):
        for length in range(len(form), _WHOLE - 1, -1):
            if (name := known.get(form[:length])) and (length > _WHOLE or length == len(form)):
                yield name
                return
        if form in known:
            yield known[form]
            return


def _inside(run: str, known: Mapping[str, str]) -> Iterator[str]:
    """The longest entries of a run without spaces, from left to right."""
    at = 0
    while at < len(run):
        lengths = range(min(_LONGEST, len(run) - at), 0, -1)
        length = next((one for one in lengths if run[at : at + one] in known), 0)
        if length:
            yield known[run[at : at + length]]
        at += length or 1
