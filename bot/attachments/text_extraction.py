"""The text of a PDF or a text file. Runs apart, in a killable process, never in the gateway's.

pypdf is imported only there; what it is given may be built never to end.
"""

import codecs
import io
import re
import time
from typing import Any

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_NON_TEXT_CHARS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_CHARS_PER_STRAY = 500  # one sign that no text has, in so many, may be there by mistake


def extract_pdf_text(body: bytes, pages: int, characters: int, within: float) -> dict[str, Any]:
    """The `texts` of a PDF's first pages, as far as `pages`, `characters` and seconds reach, and `of` how
    many.

    Or what is wrong with it: `refused` is `locked`, or `empty` where no page has a text.
    """
    import pypdf

    until = time.monotonic() + within
    found = pypdf.PdfReader(io.BytesIO(body))
    if found.is_encrypted and not found.decrypt(""):
        return {"refused": "locked"}
    texts: list[str] = []
    for page in found.pages[:pages]:
        texts.append(_extract_page_text(page)[:characters])
        characters -= len(texts[-1])
        if characters <= 0 or time.monotonic() > until:
            break
    if any(texts):
        return {"texts": texts, "of": len(found.pages)}
    return {"refused": "empty"}


def _extract_page_text(page: Any) -> str:
    """A page's text; one that cannot be read is empty, for the others can."""
    try:
        return _clean_text(str(page.extract_text())).strip()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - some page somewhere breaks any reader
        return ""


def extract_plain_text(body: bytes, characters: int) -> dict[str, Any]:
    """The first `characters` of a text file, its `length`, and whether it is `sure` how its letters are
    written.

    Or `refused`: `unknown`, for it is no text.
    """
    text, sure = _decode_text(body)
    if len(_NON_TEXT_CHARS.findall(text)) * _CHARS_PER_STRAY > len(text):
        return {"refused": "unknown"}
    text = _clean_text(text)
    return {"text": text[:characters], "length": len(text), "sure": sure}


def _decode_text(body: bytes) -> tuple[str, bool]:
    named = next((name for mark, name in _BYTE_ORDER_MARKS if body.startswith(mark)), "utf-8")
    try:
        return body.decode(named), True
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace"), False


def _clean_text(text: str) -> str:
    """The text with one kind of line end, without signs that no text has and halves of characters."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _NON_TEXT_CHARS.sub("", lines).encode("utf-8", "replace").decode()
