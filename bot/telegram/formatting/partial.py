"""What of an unfinished answer may be shown: whole lines and words, no half table, no open fence.

Pure; works on the Markdown itself, so that what was shown before changes as rarely as possible when more
arrives.
"""

import re

from bot.telegram.formatting.markdown_events import blocks, parse
from bot.telegram.formatting.splitter import visible
from bot.telegram.formatting.tables import is_table

_SHORT_LINE = 80
_LONGEST_OPEN = 300  # characters; what stays open longer was never meant to be closed
_FENCE = re.compile(r"`{3,}|~{3,}")
_SIGNS = "*_`~#>|+-=[]()!$ \n"
_ROW = re.compile(r"^[ ]{0,3}\|", re.MULTILINE)
_HALF_LINK = re.compile(r"!?\[[^\]]*(?:\](?:\([^)]*)?)?$")


def snapshot(markdown: str) -> str:
    """The part of a text in progress that will stand, as Markdown that anything may be appended to after a
    blank line.

    Holds back an unfinished table and the unfinished end of the last line, closes an open code fence; empty
    while nothing is fit to be shown.
    """
    whole = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    fence = _open_fence(whole)
    if fence is not None:
        return _with_closed_fence(whole, fence)
    last = (blocks(whole) or [""])[-1]
    events = parse(last)
    if events and events[0].opens("CodeBlock"):
        return whole
    settled = _without_last_words(_without_table(whole, last, is_table(events)))
    if visible(settled.strip(_SIGNS)):
        return settled
    return ""


def _open_fence(markdown: str) -> int | None:
    """Where the fence begins that would swallow whatever is appended."""
    if _FENCE.search(markdown) is None:
        return None
    events = parse(markdown + "\n\n.")
    fences = [event.start for event in events if event.opens("CodeBlock")]
    if not fences or not events[-1].closes("CodeBlock"):
        return None
    return len(markdown.encode()[: fences[-1]].decode())


def _with_closed_fence(markdown: str, start: int) -> str:
    before = markdown[:start]
    code = markdown[start:]
    opening, _, body = code.partition("\n")
    finished, newline, _ = body.rpartition("\n")
    shown = finished if newline else body
    found = _FENCE.match(opening)
    if found is None or not visible(shown):
        if visible(before):
            return before
        return ""
    return f"{before}{opening}\n{shown}\n{found[0]}\n"


def _without_table(markdown: str, last: str, table: bool) -> str:
    """The text before a table that may still grow, or before what may become one; if there is none, its whole
    rows.
    """
    row = _ROW.search(last)
    if last.endswith("\n\n") or not (table or row):
        return markdown
    begun = 0 if table or row is None else row.start()
    before = markdown[: len(markdown) - len(last) + begun]
    if visible(before):
        return before
    return markdown[: markdown.rfind("\n") + 1]


def _without_last_words(markdown: str) -> str:
    lines, newline, line = markdown.rpartition("\n")
    if len(line) <= _SHORT_LINE and visible(lines):
        return lines + newline
    words = line[: max(line.rfind(" ") + 1, 0)] or line
    return lines + newline + words[: _half_open(words)]


def _half_open(words: str) -> int:
    """Where a code span, bold text or link begins that does not end; else the end."""
    link = _HALF_LINK.search(words)
    starts = [words.rfind(mark) for mark in ("`", "**") if words.count(mark) % 2]
    if link is not None:
        starts.append(link.start())
    return min((start for start in starts if start > max(0, len(words) - _LONGEST_OPEN)), default=len(words))
