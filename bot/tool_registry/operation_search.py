"""Searches the operations of a document by words. Pure."""

import re
from collections.abc import Sequence
from typing import Protocol

_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NAME_WEIGHT = 3  # of a word in the name or the path, against one in the summary


class SearchableOperation(Protocol):
    """What a search looks at."""

    @property
    def operation(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def summary(self) -> str: ...


def search_operations(operations: Sequence[SearchableOperation], text: str) -> list[int]:
    """The places of the operations that have these words, the best first.

    A word may be the beginning of one: `issue` finds `issues`. If none has all the words, those with most.
    """
    words = _split_words(text)
    scores: dict[int, tuple[int, int]] = {}
    for index, operation in enumerate(operations):
        names = _split_words(f"{operation.operation} {operation.method} {operation.path}")
        others = _split_words(operation.summary)
        in_names = sum(_has_word(names, word) for word in words)
        in_others = sum(_has_word(others, word) and not _has_word(names, word) for word in words)
        if in_names + in_others:
            scores[index] = (in_names + in_others, NAME_WEIGHT * in_names + in_others)
    most = max((count for count, _ in scores.values()), default=0)
    best = [index for index, (count, _) in scores.items() if count == most]
    return sorted(best, key=lambda index: -scores[index][1])


def _split_words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(_CAMEL_CASE_BOUNDARY.sub(" ", text))}


def _has_word(words: set[str], word: str) -> bool:
    return word in words or any(each.startswith(word) for each in words)
