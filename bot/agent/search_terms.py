"""What a search looks for: the telling words of a query, by stems, and how well a word of a text fits. Pure.

Scripts that put no blanks between words are searched by pairs of characters.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

from bot.agent.tool_matching.stems import is_foreign_stop_word, is_stop_word, split_words, stem

MAX_QUERY_CHARS = 300  # characters of the query that count
MAX_TERMS = 48  # a sentence of a script without blanks has as many pairs

# How well a word matches; the very word is 1.
SAME_STEM = 0.9
BEGINS_ALIKE = 0.6
INSIDE = 0.3
PREFIX_LETTERS = 5  # letters by which longer stems are searched
MIN_FOREIGN_PREFIX = 3  # letters of a word in another script that are more than its beginning
MAX_WORD_LETTERS = 40  # letters of a word, to each side of a match, that are looked at
MAX_MATCHES = 10  # of one term in one piece of a text

# Thai and Lao, Burmese, Khmer, Japanese, Chinese.
UNSPACED = re.compile(r"[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
# Nearly every Russian text has them, and taking them apart by the rules of Unicode takes twice as long.
_COMMON_ACCENTED = (("й", "и"), ("Й", "И"), ("ё", "е"), ("Ё", "Е"))
_WORD_REST = re.compile(rf"[^\W_]{{0,{MAX_WORD_LETTERS}}}")


@dataclass(frozen=True)
class Term:
    """Something to look for: `needle` finds candidates quickly, `word` tells how well they match.

    `word` is None for a pair of characters, which fits wherever it stands.
    """

    needle: str
    word: str | None
    _fits: dict[tuple[str, bool], float] = field(default_factory=dict, compare=False, repr=False)

    def count(self, plain: str) -> int:
        """About how often a normalized text may have it: quicker than to look at each place."""
        if self._beginning is not None:
            return plain.count(f" {self.needle}")
        return plain.count(self.needle)

    def find(self, plain: str, start: int = 0, end: int = sys.maxsize) -> int:
        """The next position where a normalized text may have it; -1: there is none."""
        if self._beginning is not None:
            match = self._beginning.search(plain, start, end)
            return -1 if match is None else match.start()
        return plain.find(self.needle, start, end)

    def find_matches(self, plain: str, start: int = 0, end: int = sys.maxsize) -> Iterator[tuple[int, float]]:
        """Positions of its matches in a normalized text, and how well each fits, from 0 to 1."""
        position = self.find(plain, start, end)
        for _ in range(MAX_MATCHES):
            if position < 0:
                return
            if fit := self._fit_at(plain, position):
                yield position, fit
            position = self.find(plain, position + len(self.needle), end)

    def sum_fits(self, plain: str, start: int, end: int) -> float:
        """How well all of its matches in a part of a normalized text fit together."""
        if self.word is None:
            return float(min(MAX_MATCHES, plain.count(self.needle, start, end)))
        return sum(fit for _, fit in self.find_matches(plain, start, end))

    @cached_property
    def _beginning(self) -> re.Pattern[str] | None:
        """Finds the needle where a word begins; None: it may stand inside one as well."""
        if self.word is None or self._is_telling():
            return None
        needle = re.escape(self.needle)
        return re.compile(f"{needle}(?<![^\\W_]{needle})")

    def fit_word(self, word: str, *, is_beginning: bool = True) -> float:
        """How well a word that has the needle fits; `is_beginning`: it begins with the needle."""
        if self.word is None:
            return 1.0
        key = (word, is_beginning)
        if key not in self._fits:
            self._fits[key] = self._judge(word, self.word, is_beginning=is_beginning)
        return self._fits[key]

    def _judge(self, word: str, wanted: str, *, is_beginning: bool) -> float:
        if word == wanted:
            return 1.0
        if is_beginning and not word[0].isdigit() and stem(word) == stem(wanted):
            return SAME_STEM
        if not self._is_telling():
            return 0.0
        if is_beginning:
            return BEGINS_ALIKE
        return INSIDE

    def _is_telling(self) -> bool:
        """Whether the needle is more than a few letters, so that other words with it fit as well."""
        return len(self.needle) >= (PREFIX_LETTERS if self.needle.isascii() else MIN_FOREIGN_PREFIX)

    def _fit_at(self, plain: str, position: int) -> float:
        if self.word is None:
            return 1.0
        start = position
        min_start = max(0, position - MAX_WORD_LETTERS)
        while start > min_start and plain[start - 1].isalnum():
            start -= 1
        rest = _WORD_REST.match(plain, position + len(self.needle))
        end = rest.end() if rest else len(plain)
        return self.fit_word(plain[start:end], is_beginning=start == position)


def build_terms(query: str) -> list[Term]:
    """What to look for; stop words only where there are no other words."""
    query_words = split_words(normalize(query[:MAX_QUERY_CHARS]))
    telling = [word for word in query_words if not (is_stop_word(word) or is_foreign_stop_word(word))]
    terms = dict.fromkeys(
        term for word in telling or query_words for part in split_scripts(word) for term in _build(part)
    )
    return list(terms)[:MAX_TERMS]


def _build(part: str) -> Iterator[Term]:
    if UNSPACED.match(part):
        yield Term(part, None)
    elif part[0].isdigit():
        yield Term(part, part)
    elif part.isascii():
        yield Term(stem(part)[:PREFIX_LETTERS], part)
    else:  # endings of other scripts are not known, but they are short
        yield Term(part[: max(3, round(0.7 * len(part)))], part)


def split_scripts(word: str) -> Iterator[str]:
    """The parts of a word that are searched by themselves: pairs of characters where no blanks are."""
    if word.isascii():
        yield word
        return
    for run in UNSPACED.findall(word):
        yield from [run[index : index + 2] for index in range(len(run) - 1)] or [run]
    yield from UNSPACED.sub(" ", word).split()


def normalize(text: str) -> str:
    """The text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    for letter, plain in _COMMON_ACCENTED:
        text = text.replace(letter, plain)
    return _compile_combining_marks().sub("", unicodedata.normalize("NFKD", text).casefold())


@cache
def _compile_combining_marks() -> re.Pattern[str]:
    marks = (char for char in map(chr, range(0x300, 0x3100)) if unicodedata.combining(char))
    return re.compile(f"[{''.join(marks)}]")
