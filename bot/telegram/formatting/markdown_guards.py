"""Guards before telegramify-markdown: rewrite Markdown so that nothing vanishes and Telegram refuses nothing.

Pure: source in, source out. Each guard answers a loss or a refusal that was measured.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from string import ascii_letters, digits

from bot.telegram.formatting.links import build_link_edits, is_fake_link, is_web_url
from bot.telegram.formatting.markdown_events import (
    MAX_EVENTS,
    Edit,
    MarkdownEvent,
    MarkdownTooDense,
    apply_edits,
    find_gaps,
    find_verbatim_ranges,
    parse_markdown,
)

_MAX_PASSES = 12
_MAX_FORMULA_CHARS = 1000
_LATEX_OPENING = re.compile(r"\\[\[(]")
_LATEX_CLOSINGS = {"\\[": "\\]", "\\(": "\\)"}
_EMPTY_LINE = re.compile(r"\n[ \t]*\n")
_FORMULA_SIGN = re.compile(r"\\[A-Za-z]|[_^=]")
_MAYBE_CODE = re.compile(rb"`|~~~|^\s*$")
_VANISHING = re.compile(rb"\]:|\|\|")
_OPERANDS = (ascii_letters + digits + ")]/\\.+-=^").encode()
_DUNDER = re.compile(rb"__\w+__")
_MAX_HEADING_BYTES = 100
_MAX_BLANK_CODES = 100


class GuardPassesExceeded(Exception):
    """The text nests constructs so deeply that rewriting it did not come to an end."""


def convert_latex(source: str) -> str:
    r"""Put LaTeX in `\(…\)` and `\[…\]` between dollars on one line, except in code.

    The library would not spare code.
    """
    if "\\(" not in source and "\\[" not in source:
        return source
    try:
        events = parse_markdown(source)
    except MarkdownTooDense:
        return source
    raw = source.encode()
    parts: list[str] = []
    position = 0
    for start, end in find_gaps(len(raw), find_verbatim_ranges(events)):
        parts += (raw[position:start].decode(), *_replace_latex(raw[start:end].decode()))
        position = end
    return "".join((*parts, raw[position:].decode()))


def _replace_latex(text: str) -> Iterator[str]:
    """Yield the parts of the text, with its formulas between dollars.

    One expression for whole formulas would read a thousand characters after each opening.
    """
    position = 0
    for opening in _LATEX_OPENING.finditer(text):
        start = opening.end()
        end = text.find(_LATEX_CLOSINGS[opening[0]], start + 1, start + _MAX_FORMULA_CHARS + 2)
        if start < position or end < 0 or _EMPTY_LINE.search(text, start, end):
            continue
        yield text[position : opening.start()]
        yield _format_formula(opening[0], text[start:end])
        position = end + 2
    yield text[position:]


def _format_formula(opening: str, body: str) -> str:
    if "$" in body or not body.strip() or not _FORMULA_SIGN.search(body):
        return opening + body + _LATEX_CLOSINGS[opening]
    fence = "$$" if opening == "\\[" else "$"
    return fence + " ".join(body.split()) + fence


def guard_markdown(source: str, events: tuple[MarkdownEvent, ...]) -> tuple[str, tuple[MarkdownEvent, ...]]:
    """Return the document written so that the library shows all of it, and its events.

    Raises MarkdownTooDense, and GuardPassesExceeded when rewriting does not settle; then only plain text is
    safe.
    """
    if _count_blank_codes(events) > _MAX_BLANK_CODES:
        raise MarkdownTooDense
    # Many events are read again less often; ordinary text needs one or two passes.
    for _ in range(min(_MAX_PASSES, 4 * MAX_EVENTS // max(1, len(events)))):
        edits = _build_escapes(source, events)
        if not edits:
            break
        source = apply_edits(source, edits)
        events = parse_markdown(source)
    else:
        raise GuardPassesExceeded
    edits = list(build_link_edits(events))
    if not edits:
        return source, events
    source = apply_edits(source, edits)
    return source, parse_markdown(source)


def _count_blank_codes(events: tuple[MarkdownEvent, ...]) -> int:
    """Count code that begins without text: the library reads all such code before each block again."""
    return sum(
        event.is_start_of("CodeBlock") and not (following.name == "Text" and following.value.strip())
        for event, following in pairwise(events)
    )


def _build_escapes(source: str, events: tuple[MarkdownEvent, ...]) -> list[Edit]:
    """Build backslashes and character references for what would vanish; one pass may uncover more."""
    raw = source.encode()
    edits: list[Edit] = []
    table_end = 0
    for event in events:
        if event.is_start_of("Table"):
            table_end = event.end
        guard = _GUARDS.get(event.kind if event.name == "Start" else event.name)
        if event.start < table_end and event.name in ("InlineMath", "DisplayMath"):
            # The library would write a formula before the table it stands in.
            guard = _escape_marks
        if guard is not None:
            edits += guard(raw, event)
    if _VANISHING.search(raw) is not None:
        for start, end in find_gaps(len(raw), find_verbatim_ranges(events)):
            for match in _VANISHING.finditer(raw, start, end):
                inside = match.start() + 1
                edits.append(Edit(inside, inside, "\\"))
    return edits


def _guard_html(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Escape the `<` of HTML, all of which the library drops."""
    yield Edit(event.start, event.start + 1, "&lt;")


def _guard_html_block(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Escape the first `<` of each line.

    What may be code once this is no longer an HTML block is left to the next pass.
    """
    line_start = event.start
    for line in raw[event.start : event.end].splitlines(keepends=True):
        if line_start > event.start and _MAYBE_CODE.search(line):
            return
        if b"<" in line:
            bracket = line_start + line.index(b"<")
            yield Edit(bracket, bracket + 1, "&lt;")
        line_start += len(line)


def _guard_fake_link(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Escape what looks like a link and is not: `<std::vector>`, `table[key](value)`."""
    if is_fake_link(event.value):
        yield Edit(event.start, event.start + 1, "&lt;")
    elif not is_web_url(event.value["dest_url"]) and _is_after_operand(raw, event):
        yield Edit(event.start, event.start, "\\")


def _guard_inline_formula(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Escape dollars next to a letter or digit: they are prices or shell variables."""
    if raw[event.start - 1 : event.start].isalnum() or raw[event.end : event.end + 1].isalnum():
        return _escape_marks(raw, event)
    return _guard_formula(raw, event)


def _guard_emphasis(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Escape stars behind a letter, digit or operator (`2*3*4`, `a**2`), and names such as `__init__`."""
    if _is_after_operand(raw, event) or _DUNDER.fullmatch(raw, event.start, event.end):
        yield from _escape_marks(raw, event)


def _is_after_operand(raw: bytes, event: MarkdownEvent) -> bool:
    return event.start > 0 and raw[event.start - 1] in _OPERANDS


def _guard_heading(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Undo underlining that was not meant as a heading.

    One or two dashes are no underline, and below a long text dashes are a rule.
    """
    text, _, line = raw[event.start : event.end].rstrip().rpartition(b"\n")
    mark = line.lstrip(b" \t>")
    if not text or mark.strip(b"=-"):
        return
    mark_start = event.start + len(text) + 1 + len(line) - len(mark)
    if len(mark) < 3:
        yield Edit(mark_start, mark_start, "\\")
    elif mark.startswith(b"-") and (b"\n" in text or len(text) > _MAX_HEADING_BYTES):
        yield Edit(mark_start, mark_start, "\n")


def _escape_marks(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    width = 2 if event.kind == "Strong" or event.name == "DisplayMath" else 1
    ends = range(event.end - width, event.end)
    if event.kind == "" and b"`" in raw[event.start : event.end]:
        # The closing dollar may be in a code span once the opening one is escaped.
        ends = range(0)
    for position in (*range(event.start, event.start + width), *ends):
        yield Edit(position, position, "\\")


def _guard_formula(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Replace `||` in a formula, which is a norm there, not the library's spoiler.

    The library would take quadratic time for formulas without text and for endless ones.
    """
    if not event.value.strip() or len(event.value) > _MAX_FORMULA_CHARS:
        yield from _escape_marks(raw, event)
        return
    for match in re.finditer(rb"\|\|", raw[event.start : event.end]):
        yield Edit(event.start + match.start(), event.start + match.end(), "‖")


def _guard_fence(raw: bytes, event: MarkdownEvent) -> Iterator[Edit]:
    """Replace commas behind a fence: the library drops what follows the first one."""
    if isinstance(event.value, dict) and "," in event.value["Fenced"]:
        line = raw[event.start : event.end].split(b"\n", 1)[0]
        for position, byte in enumerate(line, start=event.start):
            if byte == ord(","):
                yield Edit(position, position + 1, " ")


_GUARDS = {
    "InlineHtml": _guard_html,
    "HtmlBlock": _guard_html_block,
    "Link": _guard_fake_link,
    "InlineMath": _guard_inline_formula,
    "DisplayMath": _guard_formula,
    "Emphasis": _guard_emphasis,
    "Strong": _guard_emphasis,
    "Heading": _guard_heading,
    "CodeBlock": _guard_fence,
}
