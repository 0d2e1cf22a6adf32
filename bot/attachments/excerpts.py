"""A document's text, and the excerpt of it that goes into a prompt. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.domain import Attachment

_MAX_TRIMMED_CHARS = 200  # given up at most so that an excerpt ends where a line or a word does


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """What was read of a file.

    texts: those of its first pages, or one text if it has no pages.
    page_count: pages of the file; None if it has none.
    char_count: characters of the whole text; None where only pages are counted.
    is_encoding_known: False if some letters may be wrong.
    """

    name: str
    media_type: str
    texts: tuple[str, ...]
    page_count: int | None = None
    char_count: int | None = None
    is_encoding_known: bool = True

    @property
    def stored_attachment(self) -> Attachment:
        """All that was read, as an attachment to store."""
        return Attachment("document", self.name, self.media_type, text="\n\n".join(self._mark_pages()))

    def build_excerpt(self, max_bytes: int) -> tuple[str, str]:
        """What part of the document it is, such as `, pages 1-12 of 200`, and a text of about `max_bytes`."""
        if self.page_count is None:
            label, text = self._excerpt_text(max_bytes)
        else:
            label, text = self._excerpt_pages(self.page_count, max_bytes)
        if not self.is_encoding_known:
            text = f"(some letters may be read wrongly)\n{text}"
        return label, text

    def _mark_pages(self) -> Iterator[str]:
        """The texts, each page with its number."""
        if self.page_count is None:
            yield from self.texts
            return
        for number, text in enumerate(self.texts, start=1):
            yield f"(page {number})\n{text}"

    def _excerpt_text(self, max_bytes: int) -> tuple[str, str]:
        text = shorten_text(self.texts[0], max_bytes)
        if self.char_count is None or len(text) == self.char_count:
            return "", text
        return f", first {len(text):,} of {self.char_count:,} characters", f"{text}\n(the rest is left out)"

    def _excerpt_pages(self, page_count: int, max_bytes: int) -> tuple[str, str]:
        pages = list(self._mark_pages())
        shown_count = _count_fitting(pages, max_bytes)
        text = "\n\n".join(pages[:shown_count])
        if shown_count == page_count == 1:
            return "", text
        if shown_count == page_count:
            return f", {page_count} pages", text
        if shown_count == 0:
            beginning = shorten_text(pages[0], max_bytes)
            return f", beginning of page 1 of {page_count}", f"{beginning}\n(the rest is left out)"
        text = f"{text}\n{_describe_left_out(shown_count, page_count)}"
        if shown_count == 1:
            return f", page 1 of {page_count}", text
        return f", pages 1-{shown_count} of {page_count}", text


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


def _describe_left_out(shown_pages: int, page_count: int) -> str:
    if shown_pages + 1 == page_count:
        return f"(page {page_count} is left out)"
    return f"(pages {shown_pages + 1}-{page_count} are left out)"
