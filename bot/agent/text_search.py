"""Finds the passages of many texts that match a query best. Pure.

Ranks pieces of texts by BM25: rare words count more, repeated ones and those of long pieces less. What was
said in a conversation also counts for what stands beside it, most of all a question for its answer: "Coco
and Rio." has no word of "What are the parrots called?". Messages and documents are read whole, a megabyte in
some twenty milliseconds; the caller bounds how much that is. What has an index of its words is not read.
"""

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from bot.agent.passages import PlacedPassage, cut_passage, is_duplicate
from bot.agent.search_terms import Term, build_terms, normalize
from bot.agent.word_index import (
    PIECE_CHARS,
    PIECE_STEP,
    Marks,
    WordIndex,
    find_marks,
    split_pieces,
    to_mark,
    to_piece,
)

MIN_RELATIVE_SCORE = 0.3  # of the best passage's score: what has less is not worth reading
MAX_RANKED_PIECES = 40
MAX_PASSAGES = 5  # that are shown
COMMON_PIECES = 5000  # from which a word is common: it counts where rarer ones match best
BATCH_PIECES = 500  # that are normalized together
MAX_GIVING_PIECES = 400  # of the best: what others give makes nothing one of the first

# Of BM25: how soon a repeated word counts no more, and how much the length of a piece counts.
SATURATION = 0.5
LENGTH_WEIGHT = 0.3

# The share of its score that a message gives to others.
TO_ANSWER = 0.8  # of a question to the next message
TO_NEIGHBOUR = 0.2
TO_SECOND = 0.1  # to the second neighbour
QUESTION_WEIGHT = 0.9  # of a question's own score: it tells less than what answers it
SAME_QUESTION = 0.7  # share of the rarity of all terms that a question scores which asks for the same
ASKED_AGAIN = 0.7  # of its score and TO_ANSWER, each time that was asked for later
QUESTION_MARKS = ("?", "？", "؟")

_SEPARATOR = "\0"  # of pieces that are read together

_Marks = dict[int, Marks]
"""What `find_marks` finds in indexed texts, by the first piece of each."""


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
            if len(chosen) == limit:
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
    query: str, messages: Sequence[str], limit: int = MAX_PASSAGES, documents: Sequence[str] = ()
) -> list[TextPassage]:
    """At most `limit` passages, best first; equal ones in the order of texts.

    `messages` are those of one conversation, the newest first; `documents` have nothing to do with each
    other, and their indexes follow those of the messages.
    """
    ranking = rank_pieces(query, messages, documents)
    texts = [*messages, *documents]
    ranked_texts = {(piece.text_index, piece.part): texts[piece.text_index] for piece in ranking.pieces}
    return ranking.choose_passages(ranked_texts, limit)


def rank_pieces(
    query: str, messages: Sequence[str], documents: Sequence[str] = (), indexes: Sequence[WordIndex] = ()
) -> RankedPieces:
    """Rank the pieces of messages and documents as `find_passages` does, and of texts that have an index.

    The indexes of the latter follow those of the documents.
    """
    terms = build_terms(query)
    pieces = _Pieces([*messages, *documents], indexes)
    scores, rarity = pieces.score(terms)
    pieces.share_scores(scores, messages, SAME_QUESTION * sum(rarity))
    best = heapq.nsmallest(MAX_RANKED_PIECES, scores, key=lambda number: (-scores[number], number))
    ranked = tuple(
        RankedPiece(scores[number], *pieces.locate(number))
        for number in best
        if scores[number] >= MIN_RELATIVE_SCORE * scores[best[0]]
    )
    return RankedPieces(ranked, tuple(terms), tuple(rarity))


class _Pieces:
    """The pieces of texts that are read, and of texts that have indexes, by number."""

    def __init__(self, texts: Sequence[str], indexes: Sequence[WordIndex]) -> None:
        read = list[str]()
        self._firsts: list[int] = []  # the number of each text's first piece
        for text in texts:
            self._firsts.append(len(read))
            read += split_pieces(text)
        self._lengths: list[int] = []
        plain = list[str]()
        # Many together: one by one takes three times as long. Not all: nothing else runs meanwhile.
        for start in range(0, len(read), BATCH_PIECES):
            batch = [piece.replace(_SEPARATOR, " ") for piece in read[start : start + BATCH_PIECES]]
            plain.append(normalize(_SEPARATOR.join(batch)))
            self._lengths += map(len, plain[-1].split(_SEPARATOR))
        self._plain = _SEPARATOR.join(plain)
        self._starts = list(accumulate((length + 1 for length in self._lengths), initial=0))
        self._indexes: dict[int, WordIndex] = {}  # by their first pieces
        self._read_count = len(read)
        for index in indexes:
            self._indexes[len(self._lengths)] = index
            self._firsts.append(len(self._lengths))
            self._lengths += index.list_lengths()
        self._count = len(self._lengths)
        char_count = len(self._plain) + sum(index.char_count for index in indexes)
        self._mean_length = max(1.0, char_count / max(1, self._count))

    def score(self, terms: Sequence[Term]) -> tuple[dict[int, float], list[float]]:
        """The scores of the pieces that some term matches, and what each term adds to them: its rarity."""
        scores = dict[int, float]()
        rarity = [0.0] * len(terms)
        marks: list[_Marks] = [
            dict(zip(self._indexes, find_marks(term, self._indexes.values()), strict=True)) for term in terms
        ]
        counts = [
            term.count(self._plain)
            + sum(len(found) for marks_of_text in marks_of_term.values() for _, found in marks_of_text)
            for term, marks_of_term in zip(terms, marks, strict=True)
        ]
        best: list[int] = []
        for term_index in sorted(range(len(terms)), key=lambda term_index: counts[term_index]):
            term = terms[term_index]
            match_count = min(counts[term_index], self._count)
            if scores and match_count > COMMON_PIECES:
                best = best or heapq.nlargest(MAX_GIVING_PIECES, scores, key=lambda piece: scores[piece])
                fits = self._find_fits_among(best, term, marks[term_index])
            else:
                fits = self._find_fits(term, marks[term_index])
                match_count = len(fits)
            rarity[term_index] = math.log(1 + (self._count - match_count + 0.5) / (match_count + 0.5))
            for piece, fit in fits.items():
                limit = self._limit_repetition(piece)
                gain = rarity[term_index] * fit * (1 + SATURATION) / (fit + limit)
                scores[piece] = scores.get(piece, 0.0) + gain
        return scores, rarity

    def _find_fits(self, term: Term, marks: _Marks) -> dict[int, float]:
        """How well a term fits in each piece that it matches."""
        fits = dict[int, float]()
        position = term.find(self._plain)
        while position >= 0:
            piece = bisect_right(self._starts, position) - 1
            end = self._starts[piece + 1]
            if fit := term.sum_fits(self._plain, position, end):
                fits[piece] = fit
            position = term.find(self._plain, end)
        for first, marks_of_text in marks.items():
            for fit, marks_of_word in marks_of_text:
                fits |= {first + to_piece(mark): fit for mark in marks_of_word}
        return fits

    def _find_fits_among(self, pieces: Sequence[int], term: Term, marks: _Marks) -> dict[int, float]:
        """The same of these pieces."""
        fits = dict[int, float]()
        for piece in pieces:
            if piece < self._read_count:
                fit = term.sum_fits(self._plain, self._starts[piece], self._starts[piece + 1])
            else:
                first = self._firsts[bisect_right(self._firsts, piece) - 1]
                mark = to_mark(piece - first)
                fit = max((fit for fit, found in marks.get(first, ()) if mark in found), default=0.0)
            if fit:
                fits[piece] = fit
        return fits

    def _limit_repetition(self, piece: int) -> float:
        """How little a repeated word counts in a piece of this length."""
        length = self._lengths[piece]
        return SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / self._mean_length)

    def locate(self, number: int) -> tuple[int, int, int]:
        """The text of a piece, the part of that, and where in it the piece begins."""
        text_index = bisect_right(self._firsts, number) - 1
        first = self._firsts[text_index]
        if first in self._indexes:
            return text_index, *self._indexes[first].locate(number - first)
        return text_index, 0, (number - first) * PIECE_STEP

    def share_scores(self, scores: dict[int, float], messages: Sequence[str], asking_score: float) -> None:
        """Add to the scores of messages, which are the first texts, what those beside them give.

        A question with `asking_score` asks for what is looked for.
        """
        best_pieces = dict[int, int]()
        for piece in heapq.nlargest(MAX_GIVING_PIECES, scores, key=lambda piece: scores[piece]):
            text_index = bisect_right(self._firsts, piece) - 1
            best = best_pieces.get(text_index, piece)
            if text_index < len(messages) and scores[piece] >= scores[best]:
                best_pieces[text_index] = piece
        times_asked = 0
        weights = dict[int, float]()
        gains: dict[int, float] = defaultdict(float)
        for text_index, piece in sorted(best_pieces.items()):
            to_next = TO_NEIGHBOUR
            if _is_question(messages[text_index]):
                again = 1.0
                if scores[piece] >= asking_score:
                    again = ASKED_AGAIN**times_asked
                    times_asked += 1
                to_next = TO_ANSWER * again
                weights[text_index] = QUESTION_WEIGHT * again
            for distance, share in ((-1, to_next), (1, TO_NEIGHBOUR), (-2, TO_SECOND), (2, TO_SECOND)):
                gains[text_index + distance] += share * scores[piece]
        for text_index in sorted({*best_pieces, *gains}):
            if 0 <= text_index < len(messages):
                piece = best_pieces.get(text_index, self._firsts[text_index])
                scores[piece] = weights.get(text_index, 1.0) * (scores.get(piece, 0.0) + gains[text_index])


def _is_question(text: str) -> bool:
    return text.rstrip().endswith(QUESTION_MARKS)
