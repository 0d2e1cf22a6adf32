"""A document's text, and the excerpt of it that goes into a prompt. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.domain import Attachment

_MAX_TRIMMED_CHARS = (
    200  # characters at most that are given up so that an excerpt ends where a line or a word does
)


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """What was read of a file: the `texts` of its first pages, of which it has `pages`, or one text if it has
    none.

    `length` is that of the whole in characters, None where only pages are counted; `sure`: its letters are
    known.
    """

    name: str
    media_type: str
    texts: tuple[str, ...]
    page_count: int | None = None
    char_count: int | None = None
    is_encoding_known: bool = True

    @property
    def stored_attachment(self) -> Attachment:
        """All that was read, as it is stored."""
        return Attachment("document", self.name, self.media_type, text="\n\n".join(self._mark_pages()))

    def build_excerpt(self, max_bytes: int) -> tuple[str, str]:
        """A text of about `room` bytes, and what of the document it is, such as `, pages 1-12 of 200`."""
        label, text = (
            self._excerpt_text(max_bytes)
            if self.page_count is None
            else self._excerpt_pages(self.page_count, max_bytes)
        )
        return label, text if self.is_encoding_known else f"(some letters may be read wrongly)\n{text}"

    def _mark_pages(self) -> Iterator[str]:
        """The texts; pages say which they are."""
        for number, text in enumerate(self.texts, start=1):
            yield text if self.page_count is None else f"(page {number})\n{text}"

    def _excerpt_text(self, max_bytes: int) -> tuple[str, str]:
        text = shorten_text(self.texts[0], max_bytes)
        if self.char_count is None or len(text) == self.char_count:
            return "", text
        return f", first {len(text):,} of {self.char_count:,} characters", f"{text}\n(the rest is left out)"

    def _excerpt_pages(self, page_count: int, max_bytes: int) -> tuple[str, str]:
        marked = list(self._mark_pages())
        whole = _count_fitting(marked, max_bytes)
        if not whole:
            return (
                f", beginning of page 1 of {page_count}",
                f"{shorten_text(marked[0], max_bytes)}\n(the rest is left out)",
            )
        text = "\n\n".join(marked[:whole])
        if whole == page_count:
            return f", {page_count} pages" if page_count > 1 else "", text
        return (
            f", pages 1-{whole} of {page_count}" if whole > 1 else f", page 1 of {page_count}",
            f"{text}\n{_describe_left_out(whole, page_count)}",
        )


def shorten_text(text: str, max_bytes: int) -> str:
    """The beginning of a text in at most `room` bytes, up to the end of a line or a word where one is near."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= max_bytes:
        return text
    cut = raw[:max_bytes].decode("utf-8", "ignore")
    end = max(cut.rfind("\n", len(cut) - _MAX_TRIMMED_CHARS), cut.rfind(" ", len(cut) - _MAX_TRIMMED_CHARS))
    if end > 0:
        return cut[:end]
    return cut


def _count_fitting(texts: Sequence[str], bytes_left: int) -> int:
    """How many of these fit, from the first on."""
    for number, text in enumerate(texts):
        bytes_left -= len(text.encode("utf-8", "replace"))
        if bytes_left < 0:
            return number
    return len(texts)


def _describe_left_out(shown_pages: int, page_count: int) -> str:
    if shown_pages + 1 == page_count:
        left = f"page {page_count} is"
    else:
        left = f"pages {shown_pages + 1}-{page_count} are"
    return f"({left} left out)"
