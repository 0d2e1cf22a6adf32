"""A document's text, and the excerpt of it that goes into a prompt. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.domain import Attachment

_LINE = 200  # characters at most that are given up so that an excerpt ends where a line or a word does


@dataclass(frozen=True, slots=True)
class Document:
    """What was read of a file: the `texts` of its first pages, of which it has `pages`, or one text if it has
    none.

    `length` is that of the whole in characters, None where only pages are counted; `sure`: its letters are
    known.
    """

    name: str
    media_type: str
    texts: tuple[str, ...]
    pages: int | None = None
    length: int | None = None
    sure: bool = True

    @property
    def kept(self) -> Attachment:
        """All that was read, as it is stored."""
        return Attachment("document", self.name, self.media_type, text="\n\n".join(self._marked()))

    def excerpt(self, room: int) -> tuple[str, str]:
        """A text of about `room` bytes, and what of the document it is, such as `, pages 1-12 of 200`."""
        label, text = self._of_text(room) if self.pages is None else self._of_pages(self.pages, room)
        return label, text if self.sure else f"(some letters may be read wrongly)\n{text}"

    def _marked(self) -> Iterator[str]:
        """The texts; pages say which they are."""
        for number, text in enumerate(self.texts, start=1):
            yield text if self.pages is None else f"(page {number})\n{text}"

    def _of_text(self, room: int) -> tuple[str, str]:
        text = shortened(self.texts[0], room)
        if self.length is None or len(text) == self.length:
            return "", text
        return f", first {len(text):,} of {self.length:,} characters", f"{text}\n(the rest is left out)"

    def _of_pages(self, pages: int, room: int) -> tuple[str, str]:
        marked = list(self._marked())
        whole = _count(marked, room)
        if not whole:
            return (
                f", beginning of page 1 of {pages}",
                f"{shortened(marked[0], room)}\n(the rest is left out)",
            )
        text = "\n\n".join(marked[:whole])
        if whole == pages:
            return f", {pages} pages" if pages > 1 else "", text
        return (
            f", pages 1-{whole} of {pages}" if whole > 1 else f", page 1 of {pages}",
            f"{text}\n{_left(whole, pages)}",
        )


def shortened(text: str, room: int) -> str:
    """The beginning of a text in at most `room` bytes, up to the end of a line or a word where one is near."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= room:
        return text
    cut = raw[:room].decode("utf-8", "ignore")
    end = max(cut.rfind("\n", len(cut) - _LINE), cut.rfind(" ", len(cut) - _LINE))
    if end > 0:
        return cut[:end]
    return cut


def _count(texts: Sequence[str], room: int) -> int:
    """How many of these fit, from the first on."""
    for number, text in enumerate(texts):
        room -= len(text.encode("utf-8", "replace"))
        if room < 0:
            return number
    return len(texts)


def _left(whole: int, pages: int) -> str:
    if whole + 1 == pages:
        left = f"page {pages} is"
    else:
        left = f"pages {whole + 1}-{pages} are"
    return f"({left} left out)"
