"""An index of the words of a long text, in buckets to be stored, so that a search need not read it. Pure.

Words that begin alike are in the same bucket, so that a search needs few of them. A bucket has a line for
each word: the word, a tab, and a character, its mark, for each piece of the text that has it. Bucket HEAD has
how long each part of the text is. A word is looked up by its beginning.
"""

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final
from zlib import crc32

from bot.agent.search_terms import MAX_WORD_LETTERS, Term, normalize, split_scripts
from bot.agent.tool_matching.stems import split_words

HEAD: Final = -1
PIECE_CHARS = 600  # characters that are scored together; pieces overlap, so that no word is lost between two
PIECE_STEP = 520
MAX_PIECES = 50_000  # of one text; the number of each fits into a character
_WORD_BUCKETS = 64
_BUCKET_LETTERS = 2  # letters that choose a word's bucket
_FIRST_MARK = 0x30  # of piece 0: the characters below it separate


def to_mark(piece: int) -> str:
    """The character for the piece with this number."""
    return chr(_FIRST_MARK + piece)


def to_piece(mark: str) -> int:
    """The number of the piece that a character stands for."""
    return ord(mark) - _FIRST_MARK


def split_pieces(text: str) -> list[str]:
    """The pieces of a text, each PIECE_STEP characters after the one before; one at least."""
    if len(text) <= PIECE_CHARS:
        return [text]
    starts = range(0, PIECE_STEP * _count_pieces(len(text)), PIECE_STEP)
    return [text[start : start + PIECE_CHARS] for start in starts]


def _count_pieces(char_count: int) -> int:
    return max(1, math.ceil((char_count - PIECE_CHARS + PIECE_STEP) / PIECE_STEP))


def build_word_index(parts: Sequence[str]) -> dict[int, bytes]:
    """Index a text of several parts, such as pages; none of them beyond MAX_PIECES."""
    marks_of_words: dict[str, list[str]] = defaultdict(list)
    lengths = []
    number = 0
    for part in parts:
        pieces = split_pieces(part)
        if number + len(pieces) > MAX_PIECES:
            break
        lengths.append(len(part))
        for piece in pieces:
            words = set(split_words(normalize(piece)))
            for term in {term[:MAX_WORD_LETTERS] for word in words for term in split_scripts(word)}:
                marks_of_words[term].append(to_mark(number))
            number += 1
    lines: dict[int, list[str]] = defaultdict(list)
    for word, marks in marks_of_words.items():
        lines[_choose_bucket(word)].append(f"\n{word}\t{''.join(marks)}")
    buckets = {bucket: _encode("".join(lines_of_bucket)) for bucket, lines_of_bucket in lines.items()}
    return {HEAD: json.dumps(lengths).encode()} | buckets


def list_buckets(terms: Sequence[Term]) -> list[int]:
    """Where words are that these terms match, without HEAD."""
    if any(term.word is None and len(term.needle) < _BUCKET_LETTERS for term in terms):
        return list(range(_WORD_BUCKETS))
    return sorted({_choose_bucket(term.needle) for term in terms})


def _choose_bucket(word: str) -> int:
    return crc32(_encode(word[:_BUCKET_LETTERS])) % _WORD_BUCKETS


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


class WordIndex:
    """Looks words up in buckets of an index: HEAD, and those that `list_buckets` lists."""

    def __init__(self, buckets: Mapping[int, bytes]) -> None:
        self._buckets = buckets
        self._lengths: list[int] = json.loads(buckets[HEAD])
        self._firsts = list(accumulate(map(_count_pieces, self._lengths), initial=0))

    @property
    def piece_count(self) -> int:
        """How many pieces all parts have."""
        return self._firsts[-1]

    @property
    def char_count(self) -> int:
        """How long all parts are together."""
        return sum(self._lengths)

    def locate(self, piece: int) -> tuple[int, int]:
        """The part of a piece, and where in it the piece begins."""
        part = bisect_right(self._firsts, piece) - 1
        return part, (piece - self._firsts[part]) * PIECE_STEP

    def measure(self, piece: int) -> int:
        """How long a piece is."""
        part, start = self.locate(piece)
        return min(PIECE_CHARS, self._lengths[part] - start)

    def find_marks(self, term: Term) -> list[tuple[float, str]]:
        """How well each word fits that a term matches, and the marks of its pieces; the best last."""
        words_and_marks = (line.split("\t") for line in self._find_lines(term))
        fits = ((term.fit_word(word), marks) for word, marks in words_and_marks)
        return sorted((fit, marks) for fit, marks in fits if fit)

    def _find_lines(self, term: Term) -> Iterator[str]:
        """The lines of words that begin with the needle of a term."""
        beginning = b"\n" + _encode(term.needle)
        for bucket in list_buckets([term]):
            lines = self._buckets.get(bucket, b"")
            start = lines.find(beginning)
            while start >= 0:
                end = lines.find(b"\n", start + 1)
                end = len(lines) if end < 0 else end
                yield lines[start + 1 : end].decode()
                start = lines.find(beginning, end)
