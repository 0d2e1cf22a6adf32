"""Reads a PDF: the text of its pages, and pictures of those without one. Runs in a killable process.

pypdfium2 is imported only there; a file may be made so that reading it never ends. Its PDFium is built
without an engine for JavaScript, so scripts in a PDF never run.
"""

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bot.attachments.images import MAX_SIDE, encode_image
from bot.attachments.text_extraction import clean_text

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

_STAMP_CHARS = (
    50  # a page of pictures with fewer characters is a scan with a stamp, as scanners' programs put it
)


def extract_pdf_text(body: bytes, pages: int, characters: int, within: float) -> dict[str, Any]:
    """The `texts` of a PDF's first pages, `of` how many, and the numbers of those `drawn`, not written.

    At most `pages` and `characters` are read; no page is begun after `within` seconds. Or what is wrong with
    it: `refused` is `locked`, or `empty` where no page has a text or shows anything.
    """
    from pypdfium2 import PdfDocument, PdfiumError, raw

    deadline = time.monotonic() + within
    try:
        pdf = PdfDocument(body)
    except PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            return {"refused": "locked"}
        raise
    texts: list[str] = []
    drawn: list[int] = []
    for number in range(1, min(len(pdf), pages) + 1):
        text, is_drawn = _read_page(pdf, number)
        texts.append(text[:characters])
        if is_drawn:
            drawn.append(number)
        characters -= len(texts[-1])
        if characters <= 0 or time.monotonic() > deadline:
            break
    if any(texts) or drawn:
        return {"texts": texts, "of": len(pdf), "drawn": drawn}
    return {"refused": "empty"}


def _read_page(pdf: "PdfDocument", number: int) -> tuple[str, bool]:
    """A page's text, and whether it has to be looked at; nothing if it cannot be read: other pages may be."""
    try:
        page = pdf[number - 1]
        text = clean_text(page.get_textpage().get_text_range()).strip()
        return text, len(text) < _STAMP_CHARS and _is_drawn(page, bool(text))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - some page somewhere breaks any reader
        return "", False


def _is_drawn(page: "PdfPage", has_text: bool) -> bool:
    """Whether the page shows something; a picture, where it has a text, too."""
    from pypdfium2 import raw

    kinds = [raw.FPDF_PAGEOBJ_IMAGE] if has_text else None
    return next(page.get_objects(kinds), None) is not None


def render_pdf_pages(body: bytes, numbers: Sequence[int], max_area: int, within: float) -> dict[str, Any]:
    """These pages in their order as `pictures`, as `shrink_image` gives them; `max_area`: points of each.

    No page is begun after `within` seconds.
    """
    from pypdfium2 import PdfDocument

    deadline = time.monotonic() + within
    pdf = PdfDocument(body)
    pictures: list[dict[str, Any]] = []
    for number in numbers:
        page = pdf[number - 1]
        width, height = page.get_size()
        scale = min(math.sqrt(max_area / (width * height)), MAX_SIDE / max(width, height))
        pictures.append(encode_image(page.render(scale).to_pil().convert("RGB")))
        if time.monotonic() > deadline:
            break
    return {"pictures": pictures}
