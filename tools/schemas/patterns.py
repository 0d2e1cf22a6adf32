"""Which patterns of a stranger may be matched here: so plain that no text can keep them busy. Pure.

Plain is a row of single characters and classes behind `^`, each repeated or not, in which at every place of a
text only one way on is possible; groups, choices and references are not plain.
"""

import re
from functools import cache

MAX_PATTERN_CHARS = 200
_ESCAPED = r"\\[dDwWsS.\-+*?()\[\]{}|^$/\\ ]"
_ATOM = rf"(?:{_ESCAPED}|\[\^?(?:[^\[\]\\]|{_ESCAPED})+\]|[^\\\[\](){{}}*+?|^$])"
_REPEAT = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?"
_NON_ASCII_SAMPLES = (
    "é一٣\u3000"  # a letter, a sign, a digit and a blank that stand for all that is not ASCII
)


def is_safe_pattern(pattern: object) -> bool:
    """Whether the pattern is plain; every other is told to the model, and checked by the service alone."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARS:
        return False
    row = _pattern_regex().fullmatch(pattern)
    return row is not None and _is_valid_regex(pattern) and _is_deterministic(_atom_regex().findall(row[1]))


def _is_deterministic(atoms: list[tuple[str, str]]) -> bool:
    """Whether after every repetition it is sure which character ends it."""
    open_: list[frozenset[str]] = []
    for atom, repeat in atoms:
        fits = _matching_characters(atom)
        apart = all(not fits & other for other in open_)
        fixed, needed = _parse_repeat(repeat)
        if not fixed and not apart:
            return False
        if apart and needed:
            open_ = []
        open_ += [] if fixed else [fits]
    return True


def _parse_repeat(repeat: str) -> tuple[bool, bool]:
    """Whether it stands a fixed number of times, and whether at least once."""
    if not repeat.startswith("{"):
        return not repeat, repeat in ("", "+")
    least, comma, most = repeat[1:-1].partition(",")
    return not comma or least == most, int(least) > 0


def _matching_characters(atom: str) -> frozenset[str]:
    pattern = re.compile(atom, re.DOTALL)
    given = [character for character in atom if not character.isascii()]
    found = {character for character in map(chr, range(128)) if pattern.fullmatch(character)}
    beyond = given or any(map(pattern.fullmatch, _NON_ASCII_SAMPLES))
    return frozenset({*found, *(["beyond"] if beyond else [])})


def _is_valid_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


@cache
def _pattern_regex() -> re.Pattern[str]:
    return re.compile(rf"\^((?:{_ATOM}{_REPEAT})*)\$?")


@cache
def _atom_regex() -> re.Pattern[str]:
    return re.compile(rf"({_ATOM})({_REPEAT})")
