"""Guards put around telegramify-markdown: rewrite Markdown so that nothing of it vanishes and Telegram
refuses nothing.

Pure: source in, source out. Each guard answers a loss or a refusal that was measured.
"""

import re
from collections.abc import Iterator
from string import ascii_letters, digits

from bot.telegram.formatting.links import is_sham, is_web, shown_addresses
from bot.telegram.formatting.markdown_events import Edit, Event, edited, outside, parse, verbatim

_PASSES = 12
_INNER = r"(?:(?!\n[ \t]*\n).){1,1000}?"
_LATEX = re.compile(rf"\\\[(?P<block>{_INNER})\\\]|\\\((?P<line>{_INNER})\\\)", re.DOTALL)
_TELLTALE = re.compile(r"\\[A-Za-z]|[_^=]")
_MAYBE_CODE = re.compile(rb"`|~~~|^\s*$")
_VANISHING = re.compile(rb"\]:|\|\|")
_OPERANDS = (ascii_letters + digits + ")]/\\.+-=^").encode()
_DUNDER = re.compile(rb"__\w+__")
_LONGEST_HEADING = 100


class Unguarded(Exception):
    """The text hides constructs in one another so deeply that rewriting it did not come to an end."""


def with_dollars(source: str) -> str:
    r"""LaTeX in `\(…\)` and `\[…\]` outside code, put between dollars on one line; the library would not spare code."""
    if "\\(" not in source and "\\[" not in source:
        return source
    raw = source.encode()
    parts: list[str] = []
    at = 0
    for start, end in outside(len(raw), verbatim(parse(source))):
        parts += (raw[at:start].decode(), _LATEX.sub(_dollars, raw[start:end].decode()))
        at = end
    return "".join((*parts, raw[at:].decode()))


def _dollars(found: re.Match[str]) -> str:
    inner = found["block"] or found["line"]
    if "$" in inner or not inner.strip() or not _TELLTALE.search(inner):
        return found[0]
    fence = "$$" if found["block"] else "$"
    return fence + " ".join(inner.split()) + fence


def guarded(source: str, events: tuple[Event, ...]) -> tuple[str, tuple[Event, ...]]:
    """The same document, written so that the library shows all of it, and its events.

    Raises Unguarded when rewriting does not settle; then only plain text is safe.
    """
    for _ in range(_PASSES):
        edits = _escapes(source, events)
        if not edits:
            break
        source = edited(source, edits)
        events = parse(source)
    else:
        raise Unguarded
    edits = list(shown_addresses(events))
    if not edits:
        return source, events
    source = edited(source, edits)
    return source, parse(source)


def _escapes(source: str, events: tuple[Event, ...]) -> list[Edit]:
    """Backslashes and character references for what would vanish; one pass may uncover more."""
    raw = source.encode()
    edits: list[Edit] = []
    table_end = 0
    for event in events:
        if event.opens("Table"):
            table_end = event.end
        guard = _GUARDS.get(event.kind if event.name == "Start" else event.name)
        if event.start < table_end and event.name in ("InlineMath", "DisplayMath"):
            # the library would write a formula before the table it stands in
            guard = _marks_shown
        edits += guard(raw, event) if guard is not None else ()
    if _VANISHING.search(raw) is not None:
        for start, end in outside(len(raw), verbatim(events)):
            edits += (
                Edit(at.start() + 1, at.start() + 1, "\\") for at in _VANISHING.finditer(raw, start, end)
            )
    return edits


def _html(raw: bytes, event: Event) -> Iterator[Edit]:
    """`<` of HTML, all of which the library drops."""
    yield Edit(event.start, event.start + 1, "&lt;")


def _html_block(raw: bytes, event: Event) -> Iterator[Edit]:
    """The first `<` of its lines; what may be code once the block is none is left to the next pass."""
    at = event.start
    for line in raw[event.start : event.end].splitlines(keepends=True):
        if at > event.start and _MAYBE_CODE.search(line):
            return
        if b"<" in line:
            first = at + line.index(b"<")
            yield Edit(first, first + 1, "&lt;")
        at += len(line)


def _sham_link(raw: bytes, event: Event) -> Iterator[Edit]:
    """What looks like a link and is none: `<std::vector>`, `table[key](value)`."""
    if is_sham(event.value):
        yield Edit(event.start, event.start + 1, "&lt;")
    elif not is_web(event.value["dest_url"]) and _follows_operand(raw, event):
        yield Edit(event.start, event.start, "\\")


def _inline_formula(raw: bytes, event: Event) -> Iterator[Edit]:
    """Dollars that stand against a letter or digit are prices or shell variables."""
    if raw[event.start - 1 : event.start].isalnum() or raw[event.end : event.end + 1].isalnum():
        return _marks_shown(raw, event)
    return _formula(raw, event)


def _emphasis(raw: bytes, event: Event) -> Iterator[Edit]:
    """Stars behind a letter, digit or operator multiply or name files: `2*3*4`, `a**2`; and `__init__` is a
    name.
    """
    if _follows_operand(raw, event) or _DUNDER.fullmatch(raw, event.start, event.end):
        yield from _marks_shown(raw, event)


def _follows_operand(raw: bytes, event: Event) -> bool:
    return event.start > 0 and raw[event.start - 1] in _OPERANDS


def _heading(raw: bytes, event: Event) -> Iterator[Edit]:
    """Lines underlined with dashes: one or two dashes are no underline, and below a long text they are a
    rule.
    """
    text, _, line = raw[event.start : event.end].rstrip().rpartition(b"\n")
    mark = line.lstrip(b" \t>")
    if not text or mark.strip(b"=-"):
        return
    at = event.start + len(text) + 1 + len(line) - len(mark)
    if len(mark) < 3:
        yield Edit(at, at, "\\")
    elif mark.startswith(b"-") and (b"\n" in text or len(text) > _LONGEST_HEADING):
        yield Edit(at, at, "\n")


def _marks_shown(raw: bytes, event: Event) -> Iterator[Edit]:
    width = 2 if event.kind == "Strong" or event.name == "DisplayMath" else 1
    ends = range(event.end - width, event.end)
    if event.kind == "" and b"`" in raw[event.start : event.end]:
        # the closing dollar may stand in a code span once the opening one is none
        ends = range(0)
    for at in (*range(event.start, event.start + width), *ends):
        yield Edit(at, at, "\\")


def _formula(raw: bytes, event: Event) -> Iterator[Edit]:
    """`||` in a formula is a norm, not the library's spoiler."""
    for found in re.finditer(rb"\|\|", raw[event.start : event.end]):
        yield Edit(event.start + found.start(), event.start + found.end(), "‖")


def _fence(raw: bytes, event: Event) -> Iterator[Edit]:
    """Commas behind a fence: the library forgets what follows the first one."""
    if isinstance(event.value, dict) and "," in event.value["Fenced"]:
        line = raw[event.start : event.end].split(b"\n", 1)[0]
        yield from (
            Edit(event.start + at, event.start + at + 1, " ") for at, byte in enumerate(line) if byte == 0x2C
        )


_GUARDS = {
    "InlineHtml": _html,
    "HtmlBlock": _html_block,
    "Link": _sham_link,
    "InlineMath": _inline_formula,
    "DisplayMath": _formula,
    "Emphasis": _emphasis,
    "Strong": _emphasis,
    "Heading": _heading,
    "CodeBlock": _fence,
}
