"""Cuts an unfinished answer to what may be shown: whole lines and words, no half table, no open fence.

Pure; works on the Markdown itself, so that what was shown before changes as rarely as possible when more
arrives.
"""

import re

from bot.telegram.formatting.markdown_events import MarkdownTooDense, parse_markdown, split_blocks
from bot.telegram.formatting.splitter import is_visible
from bot.telegram.formatting.tables import is_table

_SHORT_LINE_CHARS = 80
_MAX_OPEN_CHARS = 300  # markup that stays open longer was never meant to be closed
_FENCE = re.compile(r"`{3,}|~{3,}")
_MARKDOWN_SIGNS = "*_`~#>|+-=[]()!$ \n"
_TABLE_ROW = re.compile(r"^[ ]{0,3}\|", re.MULTILINE)
_HALF_LINK = re.compile(r"!?\[[^\]]*(?:\](?:\([^)]*)?)?$")


def cut_unfinished(markdown: str) -> str:
    """Return the part of a text in progress that will not change.

    It is Markdown to which anything may be appended after a blank line. An unfinished table and the
    unfinished end of the last line are held back, an open code fence is closed; empty while nothing can be
    shown. What is too dense to be formatted is shown as written, so nothing of it is held back.
    """
    text = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    try:
        return _cut_text(text)
    except MarkdownTooDense:
        return text


def _cut_text(text: str) -> str:
    fence_start = _find_open_fence(text)
    if fence_start is not None:
        return _close_fence(text, fence_start)
    last_block = (split_blocks(text) or [""])[-1]
    events = parse_markdown(last_block)
    if events and events[0].is_start_of("CodeBlock"):
        return text
    settled = _drop_last_words(_drop_open_table(text, last_block, is_table(events)))
    if is_visible(settled.strip(_MARKDOWN_SIGNS)):
        return settled
    return ""


def _find_open_fence(markdown: str) -> int | None:
    """Return where the fence begins that would swallow whatever is appended."""
    if _FENCE.search(markdown) is None:
        return None
    events = parse_markdown(markdown + "\n\n.")
    fences = [event.start for event in events if event.is_start_of("CodeBlock")]
    if not fences or not events[-1].is_end_of("CodeBlock"):
        return None
    return len(markdown.encode()[: fences[-1]].decode())


def _close_fence(markdown: str, start: int) -> str:
    before = markdown[:start]
    code = markdown[start:]
    opening, _, body = code.partition("\n")
    finished_lines, newline, _ = body.rpartition("\n")
    if newline:
        body = finished_lines
    fence = _FENCE.match(opening)
    if fence is not None and is_visible(body):
        return f"{before}{opening}\n{body}\n{fence[0]}\n"
    if is_visible(before):
        return before
    return ""


def _drop_open_table(markdown: str, last_block: str, is_whole_table: bool) -> str:
    """Return the text before a table that may still grow, or before what may become one.

    If there is no such text, return the table's whole rows.
    """
    row = _TABLE_ROW.search(last_block)
    if last_block.endswith("\n\n") or not (is_whole_table or row):
        return markdown
    table_start = 0 if is_whole_table or row is None else row.start()
    before = markdown[: len(markdown) - len(last_block) + table_start]
    if is_visible(before):
        return before
    return markdown[: markdown.rfind("\n") + 1]


def _drop_last_words(markdown: str) -> str:
    lines, newline, line = markdown.rpartition("\n")
    if len(line) <= _SHORT_LINE_CHARS and is_visible(lines):
        return lines + newline
    finished = line[: line.rfind(" ") + 1] or line
    return lines + newline + finished[: _find_open_markup(finished)]


def _find_open_markup(text: str) -> int:
    """Return where a code span, bold text or link begins that does not end; else the end."""
    link = _HALF_LINK.search(text, max(0, len(text) - _MAX_OPEN_CHARS))
    starts = [text.rfind(mark) for mark in ("`", "**") if text.count(mark) % 2]
    if link is not None:
        starts.append(link.start())
    return min((start for start in starts if start > max(0, len(text) - _MAX_OPEN_CHARS)), default=len(text))
