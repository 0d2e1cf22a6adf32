"""Decides which patterns of strangers may be matched: those so simple that no text keeps them busy. Pure.

Simple is a sequence of single characters and classes after `^`, each repeated or not, in which at every
position of a text only one continuation is possible; groups, choices and references are not simple.
"""

import re
from functools import cache

MAX_PATTERN_CHARS = 200
_ESCAPED = r"\\[dDwWsS.\-+*?()\[\]{}|^$/\\ ]"
_ATOM = rf"(?:{_ESCAPED}|\[\^?(?:[^\[\]\\]|{_ESCAPED})+\]|[^\\\[\](){{}}*+?|^$])"
_REPEAT = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?"
# A letter, an ideograph, a digit and a blank that stand for everything that is not ASCII.
_NON_ASCII_SAMPLES = "é一٣\u3000"


def is_safe_pattern(pattern: object) -> bool:
    """Whether the pattern is simple; others are shown to the model, and checked by the service alone."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARS:
        return False
    sequence = _pattern_regex().fullmatch(pattern)
    return (
        sequence is not None
        and _is_valid_regex(pattern)
        and _is_deterministic(_atom_regex().findall(sequence[1]))
    )


def _is_deterministic(atoms: list[tuple[str, str]]) -> bool:
    """Whether after every repetition it is certain which character ends it."""
    open_sets: list[frozenset[str]] = []
    for atom, repeat in atoms:
        matching = _matching_characters(atom)
        is_disjoint = all(not matching & open_set for open_set in open_sets)
        is_fixed, is_required = _parse_repeat(repeat)
        if not is_fixed and not is_disjoint:
            return False
        if is_disjoint and is_required:
            open_sets = []
        if not is_fixed:
            open_sets.append(matching)
    return True


def _parse_repeat(repeat: str) -> tuple[bool, bool]:
    """Whether the atom is repeated a fixed number of times, and whether at least once."""
    if not repeat.startswith("{"):
        return not repeat, repeat in ("", "+")
    min_count, comma, max_count = repeat[1:-1].partition(",")
    return not comma or min_count == max_count, int(min_count) > 0


def _matching_characters(atom: str) -> frozenset[str]:
    """The ASCII characters an atom matches; `beyond` stands for all other characters."""
    pattern = re.compile(atom, re.DOTALL)
    non_ascii = [character for character in atom if not character.isascii()]
    matching = {character for character in map(chr, range(128)) if pattern.fullmatch(character)}
    matches_beyond = non_ascii or any(map(pattern.fullmatch, _NON_ASCII_SAMPLES))
    if matches_beyond:
        matching.add("beyond")
    return frozenset(matching)


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
