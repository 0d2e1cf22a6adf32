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

from bot.agent.tool_matching.stems import is_foreign_stop_word, is_stop_word, split_words, stem

PASSAGE_CHARS = 400  # characters of a passage, about
PIECE_CHARS = 600  # characters that are judged together; they overlap, so that no word is lost between two
OVERLAP_CHARS = 80
MAX_QUERY_CHARS = 300  # characters of what is asked that are looked at
MAX_TERMS = 16
MAX_SCORED_PIECES = 40  # pieces that are judged word by word
MAX_TERM_DISTANCE = 300  # characters between words that count as standing together
MIN_RELATIVE_SCORE = 0.4  # of the best passage's worth: what has less is not worth reading
DUPLICATE_SHARE = 0.8  # share of its words from which a passage says what another one has said

SAME_STEM, BEGINS_ALIKE, INSIDE = 0.9, 0.6, 0.3  # how well a word fits, where the very word is 1
PREFIX_LETTERS = 5  # letters by which longer stems are looked for
PAIR_WEIGHT = 0.5  # what two signs of a writing without blanks tell, where a word is 1
MAX_PLACES_PER_TERM = 10  # of one term in one piece that are looked at
MAX_WORD_LETTERS = 40  # letters of a word that are looked at

_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True, slots=True)
class TextPassage:
    """A passage: from which of the texts, and its words in one line."""

    text_index: int
    passage: str


def find_passages(query: str, texts: Sequence[str], limit: int = 5) -> list[TextPassage]:
    """At most so many passages, the best first; of equal ones that of the earlier text, so give the newest
    first.
    """
    terms = _build_terms(_normalize(query[:MAX_QUERY_CHARS]))
    pieces = list(_split_pieces(terms, texts))
    rarity = _compute_rarity(terms, pieces, len(texts))
    likely = heapq.nlargest(
        MAX_SCORED_PIECES, pieces, key=lambda piece: sum(rarity[one] * fit for one, fit in piece.terms)
    )
    judged = [_score_piece(piece, texts[piece.text_index], terms, rarity) for piece in likely]
    return _choose_passages(sorted(judged, key=lambda one: (-one.score, one.text_index)), texts, limit)


@dataclass(frozen=True, slots=True)
class _Term:
    """Something to look for: `needle` finds it quickly, the `word` tells how well it was found."""

    needle: str
    word: str
    weight: float = 1.0

    def best_fit(self, plain: str) -> float:
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
        for _ in range(MAX_PLACES_PER_TERM):
            if at < 0:
                return
            if fits := self._fit_at(plain, at):
                yield at, fits
            at = plain.find(self.needle, at + len(self.needle))

    def _fit_at(self, plain: str, position: int) -> float:
        begin, end = _find_word_borders(plain, position, position + len(self.needle))
        word = plain[begin:end]
        if word == self.word or self.weight == PAIR_WEIGHT:
            return 1.0
        if begin == position and not word[0].isdigit() and stem(word) == stem(self.word):
            return SAME_STEM
        if self.needle.isascii() and len(self.needle) < PREFIX_LETTERS:
            return 0.0
        if begin == position:
            return BEGINS_ALIKE
        return INSIDE


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a text in which some terms stand, each with how well it fits."""

    text_index: int
    start: int
    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class _ScoredPiece:
    """What a piece is worth by its best stretch, and where in its text that lies."""

    score: float
    text_index: int
    start: int
    end: int


def _build_terms(plain: str) -> list[_Term]:
    """What to look for; words that say nothing only where there are no others."""
    asked = split_words(plain)
    telling = [word for word in asked if not (is_stop_word(word) or is_foreign_stop_word(word))] or asked
    return list(dict.fromkeys(term for word in telling for term in _build_word_terms(word)))[:MAX_TERMS]


def _build_word_terms(word: str) -> Iterator[_Term]:
    for run in _UNSPACED.findall(word):
        pairs = [run[at : at + 2] for at in range(len(run) - 1)]
        yield from (_Term(pair, pair, PAIR_WEIGHT) for pair in pairs or [run])
    for part in _UNSPACED.sub(" ", word).split():
        if part[0].isdigit():
            yield _Term(part, part)
        elif part.isascii():
            yield _Term(stem(part)[:PREFIX_LETTERS], part)
        else:  # endings of other writings are not known, but they are short
            yield _Term(part[: max(3, round(0.7 * len(part)))], part)


def _normalize(text: str) -> str:
    """The text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    return _compile_combining_marks().sub("", unicodedata.normalize("NFKD", text).casefold())


@cache
def _compile_combining_marks() -> re.Pattern[str]:
    return re.compile(
        "[" + "".join(chr(one) for one in range(0x300, 0x3100) if unicodedata.combining(chr(one))) + "]"
    )


def _split_pieces(terms: Sequence[_Term], texts: Sequence[str]) -> Iterator[_Piece]:
    """The pieces in which some term stands."""
    for number, text in enumerate(texts):
        for begin in range(0, max(1, len(text) - OVERLAP_CHARS), PIECE_CHARS - OVERLAP_CHARS):
            plain = _normalize(text[begin : begin + PIECE_CHARS])
            there = tuple((place, fit) for place, term in enumerate(terms) if (fit := term.best_fit(plain)))
            if there:
                yield _Piece(number, begin, there)


def _compute_rarity(terms: Sequence[_Term], pieces: Sequence[_Piece], text_count: int) -> list[float]:
    count = [0] * len(terms)
    for piece in pieces:
        for place, _ in piece.terms:
            count[place] += 1
    return [
        term.weight * math.log(1 + (text_count + 1) / (times + 0.5))
        for term, times in zip(terms, count, strict=True)
    ]


def _score_piece(piece: _Piece, text: str, terms: Sequence[_Term], rarity: Sequence[float]) -> _ScoredPiece:
    plain, origin = _normalize_with_origins(text[piece.start : piece.start + PIECE_CHARS])
    places = sorted(
        (piece.start + origin[at], place, fits * rarity[place])
        for place, _ in piece.terms
        for at, fits in terms[place].places(plain)
    )
    best = _ScoredPiece(0.0, piece.text_index, piece.start, piece.start)
    for number, (begin, *_) in enumerate(places):
        met: dict[int, float] = {}
        end = begin
        for at, place, worth in places[number:]:
            if at - begin > MAX_TERM_DISTANCE:
                break
            met[place], end = max(worth, met.get(place, 0.0)), at
        if (worth := sum(met.values())) > best.score:
            best = _ScoredPiece(worth, piece.text_index, begin, end)
    return best


def _normalize_with_origins(text: str) -> tuple[str, list[int]]:
    """The plain text, and of each of its characters where it comes from."""
    signs = [(plain, at) for at, sign in enumerate(text) for plain in _normalize(sign)]
    return "".join(sign for sign, _ in signs), [at for _, at in signs]


def _find_word_borders(plain: str, start: int, end: int) -> tuple[int, int]:
    """Where the word begins and ends that this is a part of."""
    least = max(0, start - MAX_WORD_LETTERS)
    most = min(len(plain), end + MAX_WORD_LETTERS)
    while start > least and plain[start - 1].isalnum():
        start -= 1
    while end < most and plain[end].isalnum():
        end += 1
    return start, end


def _choose_passages(scored: Sequence[_ScoredPiece], texts: Sequence[str], limit: int) -> list[TextPassage]:
    chosen: list[TextPassage] = []
    taken: list[tuple[int, int, int]] = []
    for one in scored:
        if len(chosen) == limit or not one.score or one.score < MIN_RELATIVE_SCORE * scored[0].score:
            break
        begin, end = _center_passage(texts[one.text_index], one.start, one.end)
        if any(text == one.text_index and begin < until and since < end for text, since, until in taken):
            continue
        passage = _format_passage(texts[one.text_index], begin, end)
        if not any(_is_duplicate(passage, other.passage) for other in chosen):
            chosen.append(TextPassage(one.text_index, passage))
            taken.append((one.text_index, begin, end))
    return chosen


def _center_passage(text: str, start: int, end: int) -> tuple[int, int]:
    """About CUT characters with the stretch in their middle."""
    begin = max(0, min((start + end - PASSAGE_CHARS) // 2, len(text) - PASSAGE_CHARS))
    return begin, min(len(text), begin + PASSAGE_CHARS)


def _format_passage(text: str, start: int, end: int) -> str:
    """The words between; `…` stands where the text goes on."""
    line = " ".join(text[start:end].split())
    if start and not text[start - 1].isspace() and " " in line[:20]:
        line = line.partition(" ")[2]
    if end < len(text) and not text[end].isspace() and " " in line[-20:]:
        line = line.rpartition(" ")[0]
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"


def _is_duplicate(passage: str, earlier: str) -> bool:
    own = _collect_words(passage)
    return len(own & _collect_words(earlier)) >= DUPLICATE_SHARE * len(own)


def _collect_words(passage: str) -> set[object]:
    """The words of a passage, and each two that follow one another."""
    found = split_words(passage)
    return {*found, *itertools.pairwise(found)}
