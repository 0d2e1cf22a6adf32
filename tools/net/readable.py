"""Extracts what a person would read of a page: its title and text.

Runs in a process that can be killed, never in the gateway's. trafilatura is imported only when there is HTML:
it takes a sixth of a second and 30 MiB.
"""

import re
from html.parser import HTMLParser
from typing import Any

HIDDEN_TAGS = frozenset({"head", "title", "script", "style", "template", "svg", "iframe", "object"})
BLOCK_TAGS = frozenset(
    {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "section", "article", "ul", "ol", "table"}
)
CELL_TAGS = frozenset({"td", "th"})
CELL_END_TAGS = CELL_TAGS | {"tr", "table"}
_HTML_START = re.compile(
    r"\s*(<\?xml[^>]{0,200}>\s*)?(?>(<!--.*?-->\s*)*)<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)


def is_html_start(text: str) -> bool:
    """Whether a text that begins so is a web page; comments may stand before it."""
    return _HTML_START.match(text) is not None


def extract_readable(
    body: bytes, kind: str, charset: str, characters: int, plainly: bool = False
) -> dict[str, Any]:
    """Title, text (at most `characters`) and full length of a page.

    `kind` is html, text, or empty when unknown. `plainly` leaves trafilatura out, for pages on which it
    fails.
    """
    text = decode_text(body, charset)
    title = ""
    if kind == "html" or (not kind and is_html_start(text)):
        if plainly:
            title, text = extract_all_text(text)
        else:
            # Without a charset from the server the bytes go in: the page may name its own.
            title, text = _extract_html(text if charset else body, text)
    text = text.replace("\x00", "").strip()
    return {"title": " ".join(title.split())[:200], "text": text[:characters], "length": len(text)}


def decode_text(body: bytes, charset: str) -> str:
    """The text of a body; what its charset does not know is replaced."""
    try:
        return body.decode(charset or "utf-8-sig", "replace")
    except (LookupError, ValueError):  # no such charset, or one that is no charset of text
        return body.decode("utf-8-sig", "replace")


def _extract_html(source: str | bytes, text: str) -> tuple[str, str]:
    import trafilatura  # late, see the module docstring

    tree = trafilatura.load_html(source)
    if tree is None:
        return extract_all_text(text)
    title = tree.findtext(".//title") or ""
    try:
        extracted = trafilatura.extract(tree, output_format="markdown", include_comments=False)
    except Exception:  # noqa: BLE001 - some page breaks every extractor; its plain text is still there
        extracted = None
    if extracted:
        return title, extracted
    return extract_all_text(text)


def extract_all_text(text: str) -> tuple[str, str]:
    """Title and all words of HTML that are not hidden; the cells of a table row stand side by side."""
    reader = _PlainTextParser()
    reader.feed(text)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.chunks).splitlines())
    return "".join(reader.title), "\n".join(line for line in lines if line)


class _PlainTextParser(HTMLParser):
    """Collects the title and all words outside of elements that are never shown."""

    def __init__(self) -> None:
        super().__init__()
        self.title: list[str] = []
        self.chunks: list[str] = []
        self._open_hidden_tags: list[str] = []
        self._cell_count = 0  # of the row so far
        self._is_in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._open_hidden_tags.clear()  # a head need not be closed
        elif tag in HIDDEN_TAGS:
            self._open_hidden_tags.append(tag)
        elif tag in CELL_TAGS:
            self.chunks.append(" | " if self._cell_count else "")
            self._cell_count += 1
            self._is_in_cell = True
        elif tag == "tr":
            self.chunks.append("\n")
            self._cell_count = 0
        elif tag in BLOCK_TAGS:
            self.chunks.append(" " if self._is_in_cell else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in CELL_END_TAGS:
            self._is_in_cell = False
        if tag in self._open_hidden_tags:
            del self._open_hidden_tags[self._open_hidden_tags.index(tag) :]

    def handle_data(self, data: str) -> None:
        if self._open_hidden_tags in (["title"], ["head", "title"]):
            self.title.append(data)
        elif not self._open_hidden_tags:
            self.chunks.append(data)
