"""Checks that a rendered text still holds every word of its Markdown, in order.

Pure; relies on neither the guards nor the library.
"""

import re
from collections.abc import Iterator

from bot.telegram.formatting.markdown_events import MarkdownEvent, is_line_break

_WORD = re.compile(r"[^\W_]+")
_LIST_NUMBER = re.compile(r"\d{1,9}[.)]")
_WORDLESS_EVENTS = ("InlineMath", "DisplayMath", "TaskListMarker")


def has_lost_words(source: str, events: tuple[MarkdownEvent, ...], rendered: str) -> bool:
    """Whether a word of the source that is neither syntax nor formula is missing in what is shown.

    Syntax: link addresses and titles, the words behind a fence that holds code, list numbers. Formulas are
    translated, so their words change.
    """
    position = 0
    for word in _find_expected_words(source, events):
        start = rendered.find(word, position)
        if start < 0:
            return True
        position = start + len(word)
    return False


def _find_expected_words(source: str, events: tuple[MarkdownEvent, ...]) -> Iterator[str]:
    raw = source.encode()
    position = 0
    for start, end, value in (*_find_meaningful_ranges(events), (len(raw), len(raw), "")):
        if start > position:
            # What the parser skipped must be punctuation or the number of a list item.
            yield from _WORD.findall(_LIST_NUMBER.sub("", raw[position:start].decode(errors="ignore")))
        yield from _WORD.findall(value)
        position = max(position, end)


def _find_meaningful_ranges(events: tuple[MarkdownEvent, ...]) -> Iterator[tuple[int, int, str]]:
    """Yield the ranges to which the parser gave a meaning, in order, with the text that must be shown."""
    fence_start: int | None = None
    for event in events:
        if event.name in ("Text", "Code"):
            if fence_start is None:
                yield event.start, event.end, event.value
            elif event.value.strip():
                yield fence_start, event.end, event.value
                fence_start = None
        elif event.kind == "CodeBlock":
            fence_start = event.start if event.name == "Start" else None
        elif event.name in _WORDLESS_EVENTS or event.is_end_of("Link", "Image") or is_line_break(event):
            yield event.start, event.end, ""
