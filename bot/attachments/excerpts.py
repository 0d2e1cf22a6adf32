"""A document's text with its pages, and the excerpt of it that goes into a prompt. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from bot.domain import Attachment, FilePage
from bot.translations.translator import Translator, translatable

_SHOWN = "(you see it as a picture)"
_MAX_TRIMMED_CHARS = 200  # given up at most so that an excerpt ends where a line or a word does


PageNoun = Literal["page", "slide", "sheet"]
_PAGE_NAMES = {
    "page": translatable("{name}, p. {number}"),
    "slide": translatable("{name}, slide {number}"),
    "sheet": translatable("{name}, sheet {number}"),
}
# A line by itself: to look for `^` at every character takes ten times as long.
_PAGE_MARK = re.compile(r"\((?<![^\n].)(page|slide|sheet) ([1-9]\d{0,4})\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExcerptExtent:
    """How much of a text an excerpt shows: the first `shown` of `total` characters, or of its pages.

    noun: what its pages are called; None: characters are counted.
    is_cut: the last page is not shown to its end; if none is `shown`, that is the first one.
    """

    shown: int
    total: int
    noun: PageNoun | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What of a text goes into a prompt.

    extent: which part of it that is; None for a short text that is whole.
    is_whole: nothing was left out.
    textless_pages: pages of it that hold no text, as where they are scanned; of a PDF.
    """

    text: str
    extent: ExcerptExtent | None = None
    is_whole: bool = True
    textless_pages: int = 0

    @property
    def part(self) -> str:
        """The extent as the model reads it, such as `pages 1-12 of 200`; "" for a short text."""
        if self.extent is None:
            return ""
        return _describe_extent(self.extent)


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """What was read of a file.

    texts: those of its first pages, or one text if it has no pages.
    page_count: pages of the file; None if it has none.
    char_count: characters of the whole text; None where only pages are counted.
    is_encoding_known: False if some letters may be wrong.
    page_noun: what its pages are called, such as slide.
    is_cut: one of its pages is not read to its end.
    drawn_pages: numbers of the pages that have to be looked at, since they hold no text.
    pictures: of the first of these.
    """

    name: str
    media_type: str
    texts: tuple[str, ...]
    page_count: int | None = None
    char_count: int | None = None
    is_encoding_known: bool = True
    page_noun: PageNoun = "page"
    is_cut: bool = False
    drawn_pages: tuple[int, ...] = ()
    pictures: tuple[Attachment, ...] = ()

    @property
    def is_scanned(self) -> bool:
        """Whether none of its pages holds a text."""
        return not any(self.texts)

    @property
    def stored_attachment(self) -> Attachment:
        """All that was read, as an attachment to store."""
        return Attachment("document", self.name, self.media_type, text="\n\n".join(self._mark_pages()))

    def build_excerpt(self, max_bytes: int) -> Excerpt:
        """The part of the document that fits in about `max_bytes`."""
        if self.page_count is None:
            excerpt = self._excerpt_text(max_bytes)
        else:
            excerpt = self._excerpt_pages(self.page_count, max_bytes)
        if self.is_encoding_known:
            return excerpt
        return replace(excerpt, text=f"(some letters may be read wrongly)\n{excerpt.text}")

    def _mark_pages(self) -> Iterator[str]:
        """The texts, each page with its number."""
        if self.page_count is None:
            yield from self.texts
            return
        shown_pages = self.drawn_pages[: len(self.pictures)]
        for number, text in enumerate(self.texts, start=1):
            text = _PAGE_MARK.sub(r" \g<0>", text)
            if number in shown_pages:
                text = f"{_SHOWN}\n{text}".rstrip()
            elif self.is_scanned and number in self.drawn_pages:
                return  # what follows has not been looked at
            yield f"({self.page_noun} {number})\n{text}"

    def _excerpt_text(self, max_bytes: int) -> Excerpt:
        excerpt = excerpt_text(self.texts[0], max_bytes, self.char_count)
        if excerpt.is_whole:
            return excerpt
        return replace(excerpt, text=f"{excerpt.text}\n(the rest is left out)")

    def _excerpt_pages(self, page_count: int, max_bytes: int) -> Excerpt:
        pages = list(self._mark_pages())
        shown_count = _count_fitting(pages, max_bytes)
        text = "\n\n".join(pages[:shown_count])
        shown_pages = self.drawn_pages[: len(self.pictures)]
        textless_pages = sum(
            not page_text.strip() and number not in shown_pages
            for number, page_text in enumerate(self.texts[:shown_count], start=1)
        )
        if shown_count == page_count and self.is_cut:
            extent = ExcerptExtent(page_count, page_count, self.page_noun, is_cut=True)
            return Excerpt(text, extent, is_whole=False, textless_pages=textless_pages)
        if shown_count == page_count == 1:
            return Excerpt(text)
        extent = ExcerptExtent(shown_count, page_count, self.page_noun, is_cut=not shown_count)
        if shown_count == page_count:
            return Excerpt(text, extent, textless_pages=textless_pages)
        if shown_count == 0:
            beginning = f"{shorten_text(pages[0], max_bytes)}\n(the rest is left out)"
            return Excerpt(beginning, extent, is_whole=False)
        text = f"{text}\n{_describe_left_out(self.page_noun, shown_count, page_count)}"
        return Excerpt(text, extent, is_whole=False, textless_pages=textless_pages)


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page of a stored text; `noun` is what its pages are called, None where the text has none."""

    noun: PageNoun | None
    number: int
    text: str


def describe_page(translate: Translator, page: FilePage) -> str:
    """A page for people, such as `contract.pdf, p. 4`."""
    if page.noun is None:
        return page.name
    return translate(_PAGE_NAMES[page.noun], name=page.name, number=page.number)


def split_pages(text: str) -> list[StoredPage]:
    """The pages of a text that is stored as `stored_attachment` has it; all of it where it has none."""
    marks = list[re.Match[str]]()
    for mark in _PAGE_MARK.finditer(text):
        is_first = mark.start() == 0 and not marks
        continues = bool(marks) and mark[1] == marks[0][1]
        if int(mark[2]) == len(marks) + 1 and (is_first or continues):
            marks.append(mark)
    if not marks:
        return [StoredPage(None, 1, text)]
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [
        StoredPage(cast("PageNoun", mark[1]), number, text[mark.end() : end].strip())
        for number, (mark, end) in enumerate(zip(marks, ends, strict=True), start=1)
    ]


def excerpt_text(text: str, max_bytes: int, char_count: int | None = None) -> Excerpt:
    """The beginning of a text that has `char_count` characters in all, where `text` is not all of it."""
    beginning = shorten_text(text, max_bytes)
    all_chars = char_count or len(text)
    if len(beginning) == all_chars:
        return Excerpt(beginning)
    return Excerpt(beginning, ExcerptExtent(len(beginning), all_chars), is_whole=False)


def shorten_text(text: str, max_bytes: int) -> str:
    """The beginning of a text in at most `max_bytes`, up to the end of a line or a word if one is near."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= max_bytes:
        return text
    beginning = raw[:max_bytes].decode("utf-8", "ignore")
    search_from = len(beginning) - _MAX_TRIMMED_CHARS
    end = max(beginning.rfind("\n", search_from), beginning.rfind(" ", search_from))
    if end > 0:
        return beginning[:end]
    return beginning


def _count_fitting(texts: Sequence[str], bytes_left: int) -> int:
    """How many of these fit into `bytes_left`, from the first on."""
    for number, text in enumerate(texts):
        bytes_left -= len(text.encode("utf-8", "replace"))
        if bytes_left < 0:
            return number
    return len(texts)


def _describe_extent(extent: ExcerptExtent) -> str:
    noun, shown, total = extent.noun, extent.shown, extent.total
    if noun is None:
        return f"first {shown:,} of {total:,} characters"
    if not shown:
        return f"beginning of {noun} 1 of {total}"
    if shown == total:
        pages = f"{total} {noun}" + "s" * (total > 1)
        return f"{pages}, not to the end" if extent.is_cut else pages
    numbers = f"s 1-{shown}" if shown > 1 else " 1"
    return f"{noun}{numbers} of {total}"


def _describe_left_out(noun: str, shown_pages: int, page_count: int) -> str:
    if shown_pages + 1 == page_count:
        return f"({noun} {page_count} is left out)"
    return f"({noun}s {shown_pages + 1}-{page_count} are left out)"
