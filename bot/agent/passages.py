"""Cuts the passage of a text that has most of what a search looks for. Pure."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bot.agent.search_terms import Term, normalize
from bot.agent.tool_matching.stems import split_words

PASSAGE_CHARS = 400  # characters of a passage, about
MAX_TERM_DISTANCE = 300  # characters between words that count as standing together
DUPLICATE_SHARE = 0.8  # share of common words from which a passage repeats another one


@dataclass(frozen=True, slots=True)
class PlacedPassage:
    """A stretch of a text in one line, and where in the text it begins and ends."""

    start: int
    end: int
    line: str

    def overlaps(self, other: "PlacedPassage") -> bool:
        """Whether it has a part of the text in common with another passage of it."""
        return self.start < other.end and other.start < self.end


def cut_passage(
    text: str, start: int, end: int, terms: Sequence[Term], rarity: Sequence[float]
) -> PlacedPassage:
    """Cut the passage around the stretch, between `start` and `end`, whose words weigh most."""
    stretch_start, stretch_end = _find_best_stretch(text, start, end, terms, rarity)
    center = (stretch_start + stretch_end - PASSAGE_CHARS) // 2
    passage_start = max(0, min(center, len(text) - PASSAGE_CHARS))
    passage_end = min(len(text), passage_start + PASSAGE_CHARS)
    return PlacedPassage(passage_start, passage_end, _format_passage(text, passage_start, passage_end))


def is_duplicate(line: str, earlier: str) -> bool:
    """Whether a passage repeats another one."""
    passage_words = _collect_words(line)
    return len(passage_words & _collect_words(earlier)) >= DUPLICATE_SHARE * len(passage_words)


def _find_best_stretch(
    text: str, start: int, end: int, terms: Sequence[Term], rarity: Sequence[float]
) -> tuple[int, int]:
    plain, origins = _normalize_with_origins(text[start:end])
    matches = sorted(
        (start + origins[position], term_index, fit * rarity[term_index])
        for term_index, term in enumerate(terms)
        for position, fit in term.find_matches(plain)
    )
    best = (0.0, start, start)
    for number, (first, *_) in enumerate(matches):
        gains: dict[int, float] = {}
        last = first
        for position, term_index, gain in matches[number:]:
            if position - first > MAX_TERM_DISTANCE:
                break
            gains[term_index] = max(gain, gains.get(term_index, 0.0))
            last = position
        score = sum(gains.values())
        if score > best[0]:
            best = (score, first, last)
    return best[1], best[2]


def _normalize_with_origins(text: str) -> tuple[str, list[int]]:
    """The normalized text, and the position in `text` that each of its characters comes from."""
    chars = []
    origins = []
    plain_chars = {char: normalize(char) for char in set(text)}
    for position, char in enumerate(text):
        for plain_char in plain_chars[char]:
            chars.append(plain_char)
            origins.append(position)
    return "".join(chars), origins


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


def _collect_words(passage: str) -> set[object]:
    """The words of a passage, and all pairs of neighbouring words."""
    passage_words = split_words(passage)
    return {*passage_words, *itertools.pairwise(passage_words)}
