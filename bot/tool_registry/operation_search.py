"""The operations of a document, and a search in them by words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_QUERY_CHARS = 200
MAX_SUMMARY_CHARS = 200
MAX_NAME_CHARS = 400
NAME_WEIGHT = 3  # of a word in the name or the path, against one in the summary


@dataclass(frozen=True, slots=True)
class DocumentOperation:
    """One operation of a document, as a list to pick from shows it; `host` is where its calls go."""

    operation: str
    method: str
    path: str
    name: str
    summary: str
    host: str


def search_operations(operations: Sequence[DocumentOperation], text: str) -> list[int]:
    """The places of the operations that have these words, the best first.

    `issue` finds `createIssues`, too. If none has all the words, those with most.
    """
    words = set(text[:MAX_QUERY_CHARS].casefold().split())
    ranks: dict[int, tuple[int, int]] = {}
    for index, operation in enumerate(operations):
        rank = _rank(operation, words)
        if rank[0]:
            ranks[index] = rank
    most = max((count for count, _ in ranks.values()), default=0)
    best = [index for index, (count, _) in ranks.items() if count == most]
    return sorted(best, key=lambda index: -ranks[index][1])


def _rank(operation: DocumentOperation, words: set[str]) -> tuple[int, int]:
    """How many words an operation has, and how well they fit it."""
    names = f"{operation.operation} {operation.method} {operation.path}"[:MAX_NAME_CHARS].casefold()
    summary = operation.summary[:MAX_SUMMARY_CHARS].casefold()
    in_names = sum(word in names for word in words)
    in_summary = sum(word in summary for word in words if word not in names)
    return in_names + in_summary, NAME_WEIGHT * in_names + in_summary
