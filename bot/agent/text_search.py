"""Finds the passages of many texts that fit some words best: by words and their stems, the rarer the better.
Pure.

Reads all it is given, megabytes in tenths of a second; how much that is, is the caller's to bound.
"""

import heapq
import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from bot.agent.tool_matching.stems import is_elsewhere, is_small, stem, words

CUT = 400  # characters of a passage, about
PIECE = 600  # characters that are judged together; they overlap, so that no word is lost between two
OVERLAP = 80
ASKED = 300  # characters of what is asked that are looked at
TERMS = 16
CLOSER_LOOK = 40  # pieces that are judged word by word
TOGETHER = 300  # characters between words that count as standing together
WEAK = 0.4  # of the best passage's worth: what has less is not worth reading
ALIKE = 0.8  # share of its words from which a passage says what another one has said

SAME_STEM, BEGINS_ALIKE, INSIDE = 0.9, 0.6, 0.3  # how well a word fits, where the very word is 1
BEGINNING = 5  # letters by which longer stems are looked for
PAIR = 0.5  # what two signs of a writing without blanks tell, where a word is 1
PLACES = 10  # of one term in one piece that are looked at
WORD = 40  # letters of a word that are looked at

_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True, slots=True)
class Found:
    """A passage: from which of the texts, and its words in one line."""

    text: int
    passage: str


def find(asked: str, texts: Sequence[str], most: int = 5) -> list[Found]:
    """At most so many passages, the best first; of equal ones that of the earlier text, so give the newest
    first.
    """
    terms = _terms(_plain(asked[:ASKED]))
    pieces = list(_pieces(terms, texts))
    rarity = _rarity(terms, pieces, len(texts))
    likely = heapq.nlargest(
        CLOSER_LOOK, pieces, key=lambda piece: sum(rarity[one] * fit for one, fit in piece.terms)
    )
    judged = [_judged(piece, texts[piece.text], terms, rarity) for piece in likely]
    return _chosen(sorted(judged, key=lambda one: (-one.worth, one.text)), texts, most)


@dataclass(frozen=True, slots=True)
class _Term:
    """Something to look for: `needle` finds it quickly, the `word` tells how well it was found."""

    needle: str
    word: str
    tells: float = 1.0

    def fit(self, plain: str) -> float:
        """How well it is found there, 0 to 1."""
        best = 0.0
        for _, fits in self.places(plain) if self.needle in plain else ():
            best = max(best, fits)
            if best == 1.0:
                break
        return best

    def places(self, plain: str) -> Iterator[tuple[int, float]]:
        """Where it stands, and how well it fits there."""
        at = plain.find(self.needle)
        for _ in range(PLACES):
            if at < 0:
                return
            if fits := self._fits(plain, at):
                yield at, fits
            at = plain.find(self.needle, at + len(self.needle))

    def _fits(self, plain: str, at: int) -> float:
        begin, end = _borders(plain, at, at + len(self.needle))
        word = plain[begin:end]
        if word == self.word or self.tells == PAIR:
            return 1.0
        if begin == at and not word[0].isdigit() and stem(word) == stem(self.word):
            return SAME_STEM
        if self.needle.isascii() and len(self.needle) < BEGINNING:
            return 0.0
        if begin == at:
            return BEGINS_ALIKE
        return INSIDE


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a text in which some terms stand, each with how well it fits."""

    text: int
    begin: int
    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class _Judged:
    """What a piece is worth by its best stretch, and where in its text that lies."""

    worth: float
    text: int
    begin: int
    end: int


def _terms(plain: str) -> list[_Term]:
    """What to look for; words that say nothing only where there are no others."""
    asked = words(plain)
    telling = [word for word in asked if not (is_small(word) or is_elsewhere(word))] or asked
    return list(dict.fromkeys(term for word in telling for term in _terms_of(word)))[:TERMS]


def _terms_of(word: str) -> Iterator[_Term]:
    for run in _UNSPACED.findall(word):
        pairs = [run[at : at + 2] for at in range(len(run) - 1)]
        yield from (_Term(pair, pair, PAIR) for pair in pairs or [run])
    for part in _UNSPACED.sub(" ", word).split():
        if part[0].isdigit():
            yield _Term(part, part)
        elif part.isascii():
            yield _Term(stem(part)[:BEGINNING], part)
        else:  # endings of other writings are not known, but they are short
            yield _Term(part[: max(3, round(0.7 * len(part)))], part)


def _plain(text: str) -> str:
    """The text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    return _marks().sub("", unicodedata.normalize("NFKD", text).casefold())


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(
        "[" + "".join(chr(one) for one in range(0x300, 0x3100) if unicodedata.combining(chr(one))) + "]"
    )


def _pieces(terms: Sequence[_Term], texts: Sequence[str]) -> Iterator[_Piece]:
    """The pieces in which some term stands."""
    for number, text in enumerate(texts):
        for begin in range(0, max(1, len(text) - OVERLAP), PIECE - OVERLAP):
            plain = _plain(text[begin : begin + PIECE])
            there = tuple((place, fit) for place, term in enumerate(terms) if (fit := term.fit(plain)))
            if there:
                yield _Piece(number, begin, there)


def _rarity(terms: Sequence[_Term], pieces: Sequence[_Piece], texts: int) -> list[float]:
    count = [0] * len(terms)
    for piece in pieces:
        for place, _ in piece.terms:
            count[place] += 1
    return [
        term.tells * math.log(1 + (texts + 1) / (times + 0.5))
        for term, times in zip(terms, count, strict=True)
    ]


def _judged(piece: _Piece, text: str, terms: Sequence[_Term], rarity: Sequence[float]) -> _Judged:
    plain, origin = _mapped(text[piece.begin : piece.begin + PIECE])
    places = sorted(
        (piece.begin + origin[at], place, fits * rarity[place])
        for place, _ in piece.terms
        for at, fits in terms[place].places(plain)
    )
    best = _Judged(0.0, piece.text, piece.begin, piece.begin)
    for number, (begin, *_) in enumerate(places):
        met: dict[int, float] = {}
        end = begin
        for at, place, worth in places[number:]:
            if at - begin > TOGETHER:
                break
            met[place], end = max(worth, met.get(place, 0.0)), at
        if (worth := sum(met.values())) > best.worth:
            best = _Judged(worth, piece.text, begin, end)
    return best


def _mapped(text: str) -> tuple[str, list[int]]:
    """The plain text, and of each of its characters where it comes from."""
    signs = [(plain, at) for at, sign in enumerate(text) for plain in _plain(sign)]
    return "".join(sign for sign, _ in signs), [at for _, at in signs]


def _borders(plain: str, begin: int, end: int) -> tuple[int, int]:
    """Where the word begins and ends that this is a part of."""
    least = max(0, begin - WORD)
    most = min(len(plain), end + WORD)
    while begin > least and plain[begin - 1].isalnum():
        begin -= 1
    while end < most and plain[end].isalnum():
        end += 1
    return begin, end


def _chosen(judged: Sequence[_Judged], texts: Sequence[str], most: int) -> list[Found]:
    chosen: list[Found] = []
    taken: list[tuple[int, int, int]] = []
    for one in judged:
        if len(chosen) == most or not one.worth or one.worth < WEAK * judged[0].worth:
            break
        begin, end = _around(texts[one.text], one.begin, one.end)
        if any(text == one.text and begin < until and since < end for text, since, until in taken):
            continue
        passage = _in_one_line(texts[one.text], begin, end)
        if not any(_says_no_more(passage, other.passage) for other in chosen):
            chosen.append(Found(one.text, passage))
            taken.append((one.text, begin, end))
    return chosen


def _around(text: str, first: int, last: int) -> tuple[int, int]:
    """About CUT characters with the stretch in their middle."""
    begin = max(0, min((first + last - CUT) // 2, len(text) - CUT))
    return begin, min(len(text), begin + CUT)


def _in_one_line(text: str, begin: int, end: int) -> str:
    """The words between; `…` stands where the text goes on."""
    line = " ".join(text[begin:end].split())
    if begin and not text[begin - 1].isspace() and " " in line[:20]:
        line = line.partition(" ")[2]
    if end < len(text) and not text[end].isspace() and " " in line[-20:]:
        line = line.rpartition(" ")[0]
    return f"{'…' if begin else ''}{line}{'…' if end < len(text) else ''}"


def _says_no_more(passage: str, other: str) -> bool:
    own = _said(passage)
    return len(own & _said(other)) >= ALIKE * len(own)


def _said(passage: str) -> set[object]:
    """The words of a passage, and each two that follow one another."""
    found = words(passage)
    return {*found, *itertools.pairwise(found)}
