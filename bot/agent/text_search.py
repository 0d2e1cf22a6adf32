"""Finds the passages of many texts that match a query best. Pure.

Matches words and their stems; rare ones count more. Reads all texts, megabytes in tenths of a second; the
caller bounds how much that is.
"""

import heapq
import itertools
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from bot.agent.tool_matching.stems import is_foreign_stop_word, is_stop_word, split_words, stem

PASSAGE_CHARS = 400  # characters of a passage, about
PIECE_CHARS = 600  # characters that are scored together; pieces overlap, so that no word is lost between two
OVERLAP_CHARS = 80
MAX_QUERY_CHARS = 300  # characters of the query that count
MAX_TERMS = 16
MAX_SCORED_PIECES = 40  # pieces that are scored word by word
MAX_TERM_DISTANCE = 300  # characters between words that count as standing together
MIN_RELATIVE_SCORE = 0.4  # of the best passage's score: what has less is not worth reading
DUPLICATE_SHARE = 0.8  # share of common words from which a passage repeats another one

# How well a word matches; the very word is 1.
SAME_STEM = 0.9
BEGINS_ALIKE = 0.6
INSIDE = 0.3
PREFIX_LETTERS = 5  # letters by which longer stems are searched
PAIR_WEIGHT = 0.5  # weight of two characters of a script without spaces, where a word weighs 1
MAX_MATCHES_PER_TERM = 10  # of one term in one piece
MAX_WORD_LETTERS = 40  # letters of a word, to each side of a match, that are looked at

_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True, slots=True)
class TextPassage:
    """A passage of the text with index `text_index`, in one line."""

    text_index: int
    passage: str


def find_passages(query: str, texts: Sequence[str], limit: int = 5) -> list[TextPassage]:
    """At most `limit` passages, best first; equal ones in the order of texts, so pass the newest first."""
    terms = _build_terms(_normalize(query[:MAX_QUERY_CHARS]))
    pieces = list(_split_pieces(terms, texts))
    rarity = _compute_rarity(terms, pieces, len(texts))
    likely = heapq.nlargest(
        MAX_SCORED_PIECES, pieces, key=lambda piece: sum(rarity[term] * fit for term, fit in piece.terms)
    )
    scored = [_score_piece(piece, texts[piece.text_index], terms, rarity) for piece in likely]
    scored.sort(key=lambda piece: (-piece.score, piece.text_index))
    return _choose_passages(scored, texts, limit)


@dataclass(frozen=True, slots=True)
class _Term:
    """Something to look for: `needle` finds candidates quickly, `word` tells how well they match."""

    needle: str
    word: str
    weight: float = 1.0

    def best_fit(self, plain: str) -> float:
        """How well its best match in a text fits, 0 to 1."""
        if self.needle not in plain:
            return 0.0
        best = 0.0
        for _, fit in self.find_matches(plain):
            best = max(best, fit)
            if best == 1.0:
                break
        return best

    def find_matches(self, plain: str) -> Iterator[tuple[int, float]]:
        """Positions of its matches in a text, and how well each fits."""
        position = plain.find(self.needle)
        for _ in range(MAX_MATCHES_PER_TERM):
            if position < 0:
                return
            if fit := self._fit_at(plain, position):
                yield position, fit
            position = plain.find(self.needle, position + len(self.needle))

    def _fit_at(self, plain: str, position: int) -> float:
        start, end = _find_word_borders(plain, position, position + len(self.needle))
        word = plain[start:end]
        if word == self.word or self.weight == PAIR_WEIGHT:
            return 1.0
        if start == position and not word[0].isdigit() and stem(word) == stem(self.word):
            return SAME_STEM
        if self.needle.isascii() and len(self.needle) < PREFIX_LETTERS:
            return 0.0
        if start == position:
            return BEGINS_ALIKE
        return INSIDE


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a text that contains some terms, each (its index) with how well it matches."""

    text_index: int
    start: int
    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class _ScoredPiece:
    """The score of a piece's best stretch, and where in its text that is."""

    score: float
    text_index: int
    start: int
    end: int


def _build_terms(plain: str) -> list[_Term]:
    """What to look for; stop words only where there are no other words."""
    query_words = split_words(plain)
    telling = [word for word in query_words if not (is_stop_word(word) or is_foreign_stop_word(word))]
    terms = dict.fromkeys(term for word in telling or query_words for term in _build_word_terms(word))
    return list(terms)[:MAX_TERMS]


def _build_word_terms(word: str) -> Iterator[_Term]:
    for run in _UNSPACED.findall(word):
        pairs = [run[index : index + 2] for index in range(len(run) - 1)]
        yield from (_Term(pair, pair, PAIR_WEIGHT) for pair in pairs or [run])
    for part in _UNSPACED.sub(" ", word).split():
        if part[0].isdigit():
            yield _Term(part, part)
        elif part.isascii():
            yield _Term(stem(part)[:PREFIX_LETTERS], part)
        else:  # endings of other scripts are not known, but they are short
            yield _Term(part[: max(3, round(0.7 * len(part)))], part)


def _normalize(text: str) -> str:
    """The text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    return _compile_combining_marks().sub("", unicodedata.normalize("NFKD", text).casefold())


@cache
def _compile_combining_marks() -> re.Pattern[str]:
    marks = (char for char in map(chr, range(0x300, 0x3100)) if unicodedata.combining(char))
    return re.compile(f"[{''.join(marks)}]")


def _split_pieces(terms: Sequence[_Term], texts: Sequence[str]) -> Iterator[_Piece]:
    """The pieces that contain some term."""
    for text_index, text in enumerate(texts):
        for start in range(0, max(1, len(text) - OVERLAP_CHARS), PIECE_CHARS - OVERLAP_CHARS):
            plain = _normalize(text[start : start + PIECE_CHARS])
            matches = tuple((index, fit) for index, term in enumerate(terms) if (fit := term.best_fit(plain)))
            if matches:
                yield _Piece(text_index, start, matches)


def _compute_rarity(terms: Sequence[_Term], pieces: Sequence[_Piece], text_count: int) -> list[float]:
    piece_counts = [0] * len(terms)
    for piece in pieces:
        for term_index, _ in piece.terms:
            piece_counts[term_index] += 1
    return [
        term.weight * math.log(1 + (text_count + 1) / (piece_count + 0.5))
        for term, piece_count in zip(terms, piece_counts, strict=True)
    ]


def _score_piece(piece: _Piece, text: str, terms: Sequence[_Term], rarity: Sequence[float]) -> _ScoredPiece:
    plain, origins = _normalize_with_origins(text[piece.start : piece.start + PIECE_CHARS])
    matches = sorted(
        (piece.start + origins[position], term_index, fit * rarity[term_index])
        for term_index, _ in piece.terms
        for position, fit in terms[term_index].find_matches(plain)
    )
    best = _ScoredPiece(0.0, piece.text_index, piece.start, piece.start)
    for number, (start, *_) in enumerate(matches):
        gains: dict[int, float] = {}
        end = start
        for position, term_index, gain in matches[number:]:
            if position - start > MAX_TERM_DISTANCE:
                break
            gains[term_index] = max(gain, gains.get(term_index, 0.0))
            end = position
        score = sum(gains.values())
        if score > best.score:
            best = _ScoredPiece(score, piece.text_index, start, end)
    return best


def _normalize_with_origins(text: str) -> tuple[str, list[int]]:
    """The normalized text, and the position in `text` that each of its characters comes from."""
    chars = []
    origins = []
    for position, char in enumerate(text):
        for plain_char in _normalize(char):
            chars.append(plain_char)
            origins.append(position)
    return "".join(chars), origins


def _find_word_borders(plain: str, start: int, end: int) -> tuple[int, int]:
    """Where the word around a match begins and ends."""
    min_start = max(0, start - MAX_WORD_LETTERS)
    max_end = min(len(plain), end + MAX_WORD_LETTERS)
    while start > min_start and plain[start - 1].isalnum():
        start -= 1
    while end < max_end and plain[end].isalnum():
        end += 1
    return start, end


def _choose_passages(scored: Sequence[_ScoredPiece], texts: Sequence[str], limit: int) -> list[TextPassage]:
    chosen: list[TextPassage] = []
    chosen_ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for piece in scored:
        if len(chosen) == limit or not piece.score or piece.score < MIN_RELATIVE_SCORE * scored[0].score:
            break
        text = texts[piece.text_index]
        ranges = chosen_ranges[piece.text_index]
        start, end = _center_passage(text, piece.start, piece.end)
        if any(start < chosen_end and chosen_start < end for chosen_start, chosen_end in ranges):
            continue
        passage = _format_passage(text, start, end)
        if not any(_is_duplicate(passage, earlier.passage) for earlier in chosen):
            chosen.append(TextPassage(piece.text_index, passage))
            ranges.append((start, end))
    return chosen


def _center_passage(text: str, start: int, end: int) -> tuple[int, int]:
    """Borders of about PASSAGE_CHARS characters with the stretch in their middle."""
    passage_start = max(0, min((start + end - PASSAGE_CHARS) // 2, len(text) - PASSAGE_CHARS))
    return passage_start, min(len(text), passage_start + PASSAGE_CHARS)


def _format_passage(text: str, start: int, end: int) -> str:
    """The passage in one line, whole words only, with `…` where the text continues."""
    line = " ".join(text[start:end].split())
    if start and not text[start - 1].isspace() and " " in line[:20]:
        line = line.partition(" ")[2]
    if end < len(text) and not text[end].isspace() and " " in line[-20:]:
        line = line.rpartition(" ")[0]
    if start > 0:
        line = f"…{line}"
    if end < len(text):
        line = f"{line}…"
    return line


def _is_duplicate(passage: str, earlier: str) -> bool:
    passage_words = _collect_words(passage)
    return len(passage_words & _collect_words(earlier)) >= DUPLICATE_SHARE * len(passage_words)


def _collect_words(passage: str) -> set[object]:
    """The words of a passage, and all pairs of neighbouring words."""
    passage_words = split_words(passage)
    return {*passage_words, *itertools.pairwise(passage_words)}
