"""An index of the words of a long text, in buckets to be stored, so that a search need not read it. Pure.

Words that begin alike are in the same bucket, so that a search needs few of them. A bucket has a line for
each word: the word, a tab, and a character, its mark, for each piece of the text that has it. Bucket HEAD has
how long each part of the text is. A word is looked up by its beginning.
"""

import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Final
from zlib import crc32

from bot.agent.search_terms import MAX_WORD_LETTERS, UNSPACED, Term, normalize, split_scripts
from bot.agent.tool_matching.stems import split_words

HEAD: Final = -1
PIECE_CHARS = 600  # characters that are scored together; pieces overlap, so that no word is lost between two
PIECE_STEP = 520
MAX_PIECES = 50_000  # of one text; the number of each fits into a character
_WORD_BUCKETS = 256  # the fewer, the more is read that is not looked for
_FIRST_MARK = 0x30  # of piece 0: the characters below it separate

Marks = list[tuple[float, str]]
"""How well words fit, and the marks of their pieces; the best last."""


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
    return sorted({_choose_bucket(term.needle) for term in terms})


def _choose_bucket(word: str) -> int:
    letters = 1 if UNSPACED.match(word) else 2
    return crc32(_encode(word[:letters])) % _WORD_BUCKETS


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


class WordIndex:
    """Looks words up in buckets of an index: HEAD, and those that `list_buckets` lists."""

    def __init__(self, buckets: Mapping[int, bytes]) -> None:
        self._buckets = buckets
        self._lengths: list[int] = json.loads(buckets[HEAD])
        self._firsts = list(accumulate(map(_count_pieces, self._lengths), initial=0))

    @property
    def char_count(self) -> int:
        """How long all parts are together."""
        return sum(self._lengths)

    def locate(self, piece: int) -> tuple[int, int]:
        """The part of a piece, and where in it the piece begins."""
        part = bisect_right(self._firsts, piece) - 1
        return part, (piece - self._firsts[part]) * PIECE_STEP

    def list_lengths(self) -> list[int]:
        """How long each piece is."""
        lengths = list[int]()
        for length, (first, end) in zip(self._lengths, pairwise(self._firsts), strict=True):
            lengths += [PIECE_CHARS] * (end - first)
            lengths[-1] = length - PIECE_STEP * (end - first - 1)
        return lengths

    def get_lines(self, bucket: int) -> bytes:
        """The words of a bucket, each in a line that begins with a line feed."""
        return self._buckets.get(bucket, b"")


def find_marks(term: Term, indexes: Iterable[WordIndex]) -> Iterator[Marks]:
    """The marks in each index of the words that a term matches."""
    line = re.compile(rb"\n(%b[^\t]*)\t([^\n]*)" % re.escape(_encode(term.needle)))
    fit_word = cache(lambda word: term.fit_word(word.decode()))
    buckets = list_buckets([term])
    for index in indexes:
        marks_of_fits: dict[float, list[bytes]] = defaultdict(list)
        for bucket in buckets:
            for word, marks in line.findall(index.get_lines(bucket)):
                marks_of_fits[fit_word(word)].append(marks)
        yield [(fit, b"".join(marks).decode()) for fit, marks in sorted(marks_of_fits.items()) if fit]
