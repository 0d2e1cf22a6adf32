"""Words of times in all languages: by them a text shows that it holds a part of a time nobody read. Pure.

`python -m tests.jobs.times.calendar_words` writes calendar_words.txt from CLDR; time_words.txt has what is
not in there.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

MAX_NAME_WORDS = 7
MIN_STEM_CHARS = 4
MAX_ENDING_CHARS = 4
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SPACED = re.compile(r"[ '.*…\-\da-zß-ɏͰ-ҁҊ-ԯḀ-ỿ]+")  # in other scripts words may stick together


@dataclass(frozen=True, slots=True)
class TimeWords:
    """The words: whole names, stems of any ending, pieces that may stand within a word, and prepositions."""

    names: frozenset[str]
    stems: frozenset[str]
    pieces: frozenset[str]
    prepositions: frozenset[str]


def find_time_words(text: str) -> str:
    """The words of a reminder's text that may be part of its time, in any language; "" if it holds none."""
    known = load_time_words()
    plain = normalize_text(text)
    words: list[str] = _WORD.findall(plain)
    if words and words[-1] in known.prepositions:
        return words[-1]
    if words and words[0] in known.prepositions and words[1:2] == ["0"]:
        return words[0]
    for start, word in enumerate(words):
        for end in range(start + 1, start + MAX_NAME_WORDS + 1):
            name = " ".join(words[start:end])
            if name in known.names or name.removesuffix("s") in known.names:
                return name
        lengths = range(max(MIN_STEM_CHARS, len(word) - MAX_ENDING_CHARS), len(word) + 1)
        if any(word[:length] in known.stems for length in lengths):
            return word
    return next((piece.strip() for piece in known.pieces if piece in f" {plain} "), "")


def is_preposition(word: str) -> bool:
    """Tell whether a word may stand right before an hour."""
    return normalize_text(word) in load_time_words().prepositions


def find_name_across(before: str, after: str) -> str:
    """A name of several words that begins in one text and ends in the next; "" if there is none.

    Of `at 17:30 di mattina Anna` the parser takes `di` for a day, which leaves `mattina Anna`.
    """
    known = load_time_words()
    begun: list[str] = _WORD.findall(normalize_text(before))[1 - MAX_NAME_WORDS :]
    words = begun + _WORD.findall(normalize_text(after))[: MAX_NAME_WORDS - 1]
    for start in range(len(begun)):
        for end in range(len(begun) + 1, len(words) + 1):
            name = " ".join(words[start:end])
            if name in known.names:
                return name
    return ""


def normalize_text(text: str) -> str:
    """Return a text as the words are written: composed, small, with plain apostrophes, each number as 0."""
    plain = re.sub("[’ʼ`]", "'", unicodedata.normalize("NFC", text.lower()))
    return " ".join(re.sub(r"\d+", "0", plain).split())


@cache
def load_time_words() -> TimeWords:
    """The words of both tables."""
    folder = files(__package__)
    tables = [(folder / name).read_text("utf-8") for name in ("time_words.txt", "calendar_words.txt")]
    words = {
        word.replace("_", " ")
        for line in "\n".join(tables).splitlines()
        if not line.startswith("#")
        for word in line.split()[1:]
    }
    pieces = {word for word in words if not _SPACED.fullmatch(word)}
    return TimeWords(
        names=frozenset(" ".join(_WORD.findall(word)) for word in words - pieces if word[-1] not in "*…"),
        stems=frozenset(word[:-1] for word in words if word.endswith("*")),
        pieces=frozenset(pieces),
        prepositions=frozenset(word[:-1] for word in words if word.endswith("…")),
    )
