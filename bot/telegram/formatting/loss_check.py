"""The auditor of rendering: does a rendered text still hold every word of its Markdown, in order?

Pure; trusts neither the guards nor the library.
"""

import re
from collections.abc import Iterator

from bot.telegram.formatting.markdown_events import Event, is_line_break

_WORD = re.compile(r"[^\W_]+")
_NUMBERED = re.compile(r"\d{1,9}[.)]")
_UNSPOKEN = ("InlineMath", "DisplayMath", "TaskListMarker")


def lost(source: str, events: tuple[Event, ...], shown: str) -> bool:
    """Whether a word of the source that is neither syntax nor formula is missing in what is shown.

    Syntax: link addresses and titles, the words behind a fence that holds code, list numbers. Formulas are
    translated, so their words change.
    """
    at = 0
    for word in _words(source, events):
        found = shown.find(word, at)
        if found < 0:
            return True
        at = found + len(word)
    return False


def _words(source: str, events: tuple[Event, ...]) -> Iterator[str]:
    raw = source.encode()
    at = 0
    for start, end, value in (*_read(events), (len(raw), len(raw), "")):
        if start > at:
            # what the parser skipped must be punctuation or the number of a list item
            yield from _WORD.findall(_NUMBERED.sub("", raw[at:start].decode(errors="ignore")))
        yield from _WORD.findall(value)
        at = max(at, end)


def _read(events: tuple[Event, ...]) -> Iterator[tuple[int, int, str]]:
    """Ranges the parser gave a meaning to, in order, with the text that must be shown for them."""
    fence: int | None = None
    for event in events:
        if event.name in ("Text", "Code"):
            if fence is None or event.value.strip():
                yield event.start if fence is None else fence, event.end, event.value
                fence = None
        elif event.kind == "CodeBlock":
            fence = event.start if event.name == "Start" else None
        elif event.name in _UNSPOKEN or event.closes("Link", "Image") or is_line_break(event):
            yield event.start, event.end, ""
