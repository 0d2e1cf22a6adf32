"""An index of the words of a long text, in bytes to be stored, so that a search need not read the text. Pure.

A line for each word, in order: the word, a tab, and a character, its mark, for each piece of the text that
has it. The first line has how many pieces each part of the text has. Words are looked up by their beginning.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from bot.agent.search_terms import MAX_WORD_LETTERS, Term, normalize, split_scripts
from bot.agent.tool_matching.stems import split_words

PIECE_CHARS = 600  # characters that are scored together; pieces overlap, so that no word is lost between two
PIECE_STEP = 520
MAX_PIECES = 50_000  # of one text; the number of each fits into a character
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
    last_start = len(text) - (PIECE_CHARS - PIECE_STEP)
    return [text[start : start + PIECE_CHARS] for start in range(0, last_start, PIECE_STEP)]


def build_word_index(parts: Sequence[str]) -> bytes:
    """Index a text of several parts, such as pages."""
    marks_of_words: dict[str, list[str]] = defaultdict(list)
    counts = []
    number = 0
    for part in parts:
        pieces = split_pieces(part)[: MAX_PIECES - number]
        counts.append(len(pieces))
        for piece in pieces:
            words = split_words(normalize(piece))
            for term in {term[:MAX_WORD_LETTERS] for word in set(words) for term in split_scripts(word)}:
                marks_of_words[term].append(to_mark(number))
            number += 1
    lines = (f"{word}\t{''.join(marks)}".encode() for word, marks in marks_of_words.items())
    return b"\n".join([json.dumps(counts).encode(), *sorted(lines)])


class WordIndex:
    """Looks words up in what `build_word_index` built."""

    def __init__(self, stored: bytes) -> None:
        head, _, self._lines = stored.partition(b"\n")
        self._firsts: list[int] = [0, *accumulate(json.loads(head))]

    @property
    def piece_count(self) -> int:
        """How many pieces all parts have."""
        return self._firsts[-1]

    def locate(self, piece: int) -> tuple[int, int]:
        """The part of a piece, and where in it the piece begins."""
        part = bisect_right(self._firsts, piece) - 1
        return part, (piece - self._firsts[part]) * PIECE_STEP

    def find_marks(self, term: Term) -> dict[str, float]:
        """The marks of the pieces that a term matches, with how well its best match fits."""
        fits = list[tuple[float, str]]()
        for line in self._find_lines(term.needle.encode()):
            word, _, marks = line.decode().partition("\t")
            if fit := term.fit_word(word):
                fits.append((fit, marks))
        found: dict[str, float] = {}
        for fit, marks in sorted(fits):
            found.update(dict.fromkeys(marks, fit))
        return found

    def _find_lines(self, beginning: bytes) -> Iterator[bytes]:
        """The lines that begin so."""
        lines = self._lines
        low, high = 0, len(lines)  # the first such line begins between these
        while low < high:
            middle = (low + high) // 2
            start = lines.rfind(b"\n", low, middle) + 1 or low
            end = lines.find(b"\n", middle)
            end = len(lines) if end < 0 else end
            if lines[start : start + len(beginning)] < beginning:
                low = min(end + 1, len(lines))
            else:
                high = start
        while lines.startswith(beginning, low):
            end = lines.find(b"\n", low)
            end = len(lines) if end < 0 else end
            yield lines[low:end]
            low = end + 1
