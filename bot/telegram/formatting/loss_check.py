"""The auditor of rendering: does a rendered text still hold every word of its Markdown, in order?

Pure; trusts neither the guards nor the library.
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
    at = 0
    for word in _find_expected_words(source, events):
        found = rendered.find(word, at)
        if found < 0:
            return True
        at = found + len(word)
    return False


def _find_expected_words(source: str, events: tuple[MarkdownEvent, ...]) -> Iterator[str]:
    raw = source.encode()
    at = 0
    for start, end, value in (*_find_meaningful_ranges(events), (len(raw), len(raw), "")):
        if start > at:
            # what the parser skipped must be punctuation or the number of a list item
            yield from _WORD.findall(_LIST_NUMBER.sub("", raw[at:start].decode(errors="ignore")))
        yield from _WORD.findall(value)
        at = max(at, end)


def _find_meaningful_ranges(events: tuple[MarkdownEvent, ...]) -> Iterator[tuple[int, int, str]]:
    """Ranges the parser gave a meaning to, in order, with the text that must be shown for them."""
    fence: int | None = None
    for event in events:
        if event.name in ("Text", "Code"):
            if fence is None or event.value.strip():
                yield event.start if fence is None else fence, event.end, event.value
                fence = None
        elif event.kind == "CodeBlock":
            fence = event.start if event.name == "Start" else None
        elif event.name in _WORDLESS_EVENTS or event.is_end_of("Link", "Image") or is_line_break(event):
            yield event.start, event.end, ""
