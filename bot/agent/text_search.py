"""Finds the passages of many texts that match a query best. Pure.

Ranks pieces of texts by BM25: rare words count more, repeated ones and those of long pieces less. What was
said in a conversation also counts for what stands beside it, most of all a question for its answer: "Coco
and Rio." has no word of "What are the parrots called?". Messages and documents are read whole, megabytes in
tenths of a second; the caller bounds how much that is. What has an index of its words is not read.
"""

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.agent.passages import PlacedPassage, cut_passage, is_duplicate
from bot.agent.search_terms import Term, build_terms, normalize
from bot.agent.word_index import PIECE_CHARS, PIECE_STEP, WordIndex, split_pieces, to_piece

MIN_RELATIVE_SCORE = 0.3  # of the best passage's score: what has less is not worth reading
MAX_RANKED_PIECES = 40
COMMON_PIECES = 5000  # of indexed texts, from which a word is common
MAX_GIVING_PIECES = 400  # of the best: what others give makes nothing one of the first

# Of BM25: how soon a repeated word counts no more, and how much the length of a piece counts.
SATURATION = 0.5
LENGTH_WEIGHT = 0.3

# The share of its score that a message gives to others.
TO_ANSWER = 0.8  # of a question to the next message
TO_NEIGHBOUR = 0.2
TO_SECOND = 0.1  # to the second neighbour
QUESTION_WEIGHT = 0.9  # of a question's own score: it tells less than what answers it
QUESTION_MARKS = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class TextPassage:
    """A passage of the text with index `text_index`, in one line; `part`: of which part, such as a page."""

    text_index: int
    passage: str
    part: int = 0


@dataclass(frozen=True, slots=True)
class RankedPiece:
    """A piece of a text, from `start`, and its score."""

    score: float
    text_index: int
    part: int
    start: int


@dataclass(frozen=True, slots=True)
class RankedPieces:
    """The best pieces, and what they were looked for by: terms, each with its rarity."""

    pieces: tuple[RankedPiece, ...]
    terms: tuple[Term, ...]
    rarity: tuple[float, ...]

    def choose_passages(self, texts: Mapping[tuple[int, int], str], limit: int) -> list[TextPassage]:
        """At most `limit` passages, best first, of these texts, by index and part; others are left out."""
        chosen: list[TextPassage] = []
        chosen_passages: dict[tuple[int, int], list[PlacedPassage]] = defaultdict(list)
        for piece in self.pieces:
            if len(chosen) == limit or piece.score < MIN_RELATIVE_SCORE * self.pieces[0].score:
                break
            key = (piece.text_index, piece.part)
            if key not in texts:
                continue
            end = piece.start + PIECE_CHARS
            passage = cut_passage(texts[key], piece.start, end, self.terms, self.rarity)
            if any(passage.overlaps(earlier) for earlier in chosen_passages[key]):
                continue
            if not any(is_duplicate(passage.line, earlier.passage) for earlier in chosen):
                chosen.append(TextPassage(piece.text_index, passage.line, piece.part))
                chosen_passages[key].append(passage)
        return chosen


def find_passages(
    query: str, messages: Sequence[str], limit: int = 5, documents: Sequence[str] = ()
) -> list[TextPassage]:
    """At most `limit` passages, best first; equal ones in the order of texts.

    `messages` are those of one conversation, the newest first; `documents` have nothing to do with each
    other, and their indexes follow those of the messages.
    """
    texts = {(index, 0): text for index, text in enumerate([*messages, *documents])}
    return rank_pieces(query, messages, documents).choose_passages(texts, limit)


def rank_pieces(
    query: str, messages: Sequence[str], documents: Sequence[str] = (), indexes: Sequence[WordIndex] = ()
) -> RankedPieces:
    """Rank the pieces of messages and documents as `find_passages` does, and of texts that have an index.

    The indexes of the latter follow those of the documents.
    """
    terms = build_terms(query)
    pieces = _Pieces(terms)
    for text in messages:
        pieces.add_text(text)
    for text in documents:
        pieces.add_text(text)
    for index in indexes:
        pieces.add_index(index)
    rarity = pieces.compute_rarity()
    scores = pieces.score(rarity)
    pieces.share_scores(scores, messages)
    best = heapq.nsmallest(MAX_RANKED_PIECES, scores, key=lambda number: (-scores[number], number))
    ranked = tuple(RankedPiece(scores[number], *pieces.locate(number)) for number in best)
    return RankedPieces(ranked, tuple(terms), tuple(rarity))


class _Pieces:
    """The pieces of all texts, by number, and where each term matches."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = terms
        self._needles = [(index, term.needle) for index, term in enumerate(terms)]
        self._fits: list[dict[int, float]] = [{} for _ in terms]  # of each term, by piece
        self._marks: list[dict[int, dict[str, float]]] = [{} for _ in terms]  # the same of indexed texts
        self._lengths: list[int] = []  # of pieces that were read
        self._firsts: list[int] = []  # the number of each text's first piece
        self._indexes: dict[int, WordIndex] = {}  # by text
        self._count = 0

    def add_text(self, text: str) -> None:
        self._firsts.append(self._count)
        for piece in split_pieces(text):
            plain = normalize(piece)
            for term_index in [index for index, needle in self._needles if needle in plain]:
                if fit := self._terms[term_index].sum_fits(plain):
                    self._fits[term_index][self._count] = fit
            self._lengths.append(len(plain))
            self._count += 1

    def add_index(self, index: WordIndex) -> None:
        """Add a text by the index of its words. All texts that are read come before."""
        self._indexes[len(self._firsts)] = index
        self._firsts.append(self._count)
        for term, marks in zip(self._terms, self._marks, strict=True):
            if found := index.find_marks(term):
                marks[self._count] = found
        self._count += index.piece_count

    def compute_rarity(self) -> list[float]:
        """How rare each term is: what it adds to a score."""
        counts = (
            len(fits) + sum(map(len, marks.values()))
            for fits, marks in zip(self._fits, self._marks, strict=True)
        )
        return [math.log(1 + (self._count - count + 0.5) / (count + 0.5)) for count in counts]

    def score(self, rarity: Sequence[float]) -> dict[int, float]:
        """The scores of the pieces that some term matches."""
        scores = self._score_indexed(rarity)
        mean = self._compute_mean_length()
        limits = [_limit_repetition(length, mean) for length in self._lengths]
        for weight, fits in zip(rarity, self._fits, strict=True):
            for piece, fit in fits.items():
                gain = weight * fit * (1 + SATURATION) / (fit + limits[piece])
                scores[piece] = scores.get(piece, 0.0) + gain
        return scores

    def _score_indexed(self, rarity: Sequence[float]) -> dict[int, float]:
        """The scores of the pieces of indexed texts; a common term counts where a rarer one stands."""
        limit = _limit_repetition(PIECE_CHARS, self._compute_mean_length())
        scores: dict[int, dict[str, float]] = {}  # by first piece of a text and mark
        rarest_first = sorted(range(len(rarity)), key=lambda term_index: -rarity[term_index])
        for term_index in rarest_first:
            marks_of_texts = self._marks[term_index]
            is_common = bool(scores) and sum(map(len, marks_of_texts.values())) > COMMON_PIECES
            for first, marks in marks_of_texts.items():
                text_scores = scores.setdefault(first, {})
                for mark in [mark for mark in text_scores if mark in marks] if is_common else marks:
                    fit = marks[mark]
                    gain = rarity[term_index] * fit * (1 + SATURATION) / (fit + limit)
                    text_scores[mark] = text_scores.get(mark, 0.0) + gain
        return {
            first + to_piece(mark): score
            for first, text_scores in scores.items()
            for mark, score in text_scores.items()
        }

    def _compute_mean_length(self) -> float:
        indexed_chars = PIECE_CHARS * (self._count - len(self._lengths))
        return max(1.0, (sum(self._lengths) + indexed_chars) / max(1, self._count))

    def locate(self, number: int) -> tuple[int, int, int]:
        """The text of a piece, the part of that, and where in it the piece begins."""
        text_index = bisect_right(self._firsts, number) - 1
        offset = number - self._firsts[text_index]
        if text_index in self._indexes:
            return text_index, *self._indexes[text_index].locate(offset)
        return text_index, 0, offset * PIECE_STEP

    def share_scores(self, scores: dict[int, float], messages: Sequence[str]) -> None:
        """Add to the scores of messages, which are the first texts, what those beside them give."""
        best_pieces = dict[int, int]()
        for piece in heapq.nlargest(MAX_GIVING_PIECES, scores, key=lambda piece: scores[piece]):
            text_index = bisect_right(self._firsts, piece) - 1
            best = best_pieces.get(text_index, piece)
            if text_index < len(messages) and scores[piece] >= scores[best]:
                best_pieces[text_index] = piece
        gains: dict[int, float] = defaultdict(float)
        for text_index, piece in best_pieces.items():
            to_next = TO_ANSWER if _is_question(messages[text_index]) else TO_NEIGHBOUR
            for distance, share in ((-1, to_next), (1, TO_NEIGHBOUR), (-2, TO_SECOND), (2, TO_SECOND)):
                gains[text_index + distance] += share * scores[piece]
        for text_index in sorted({*best_pieces, *gains}):
            if 0 <= text_index < len(messages):
                piece = best_pieces.get(text_index, self._firsts[text_index])
                weight = QUESTION_WEIGHT if _is_question(messages[text_index]) else 1.0
                scores[piece] = weight * (scores.get(piece, 0.0) + gains[text_index])


def _limit_repetition(length: int, mean_length: float) -> float:
    """How little a repeated word counts in a piece of this length."""
    return SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / mean_length)


def _is_question(text: str) -> bool:
    return text.rstrip().endswith(QUESTION_MARKS)
