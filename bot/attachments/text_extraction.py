"""Extracts the text of a web page or a text file. Runs in a killable process, never in the gateway's."""

import codecs
import re
from typing import Any

from tools.net.readable import extract_all_text

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_NON_TEXT_CHARS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_CHARSET_BYTES = 4096  # of a web page, where it names its charset
_CHARS_PER_STRAY = 500  # of a text, for each control character that is tolerated as a mistake


def extract_plain_text(body: bytes, characters: int) -> dict[str, Any]:
    """The first `characters` of a file as `text`, its `length`, and whether its encoding is `sure`.

    Or `refused`: `unknown`, since it is no text.
    """
    text, is_encoding_known = _decode_text(body)
    if len(_NON_TEXT_CHARS.findall(text)) * _CHARS_PER_STRAY > len(text):
        return {"refused": "unknown"}
    text = clean_text(text)
    return {"text": text[:characters], "length": len(text), "sure": is_encoding_known}


def extract_html_text(body: bytes, characters: int) -> dict[str, Any]:
    """All words of a saved web page, its title first, as `extract_plain_text` gives them."""
    named = _CHARSET.search(body[:_CHARSET_BYTES])
    try:
        html, is_encoding_known = body.decode(named[1].decode() if named else "utf-8"), True
    except (LookupError, ValueError):  # no such charset, or it is another one
        html, is_encoding_known = _decode_text(body)
    title, text = extract_all_text(html.removeprefix("\ufeff"))
    text = clean_text(f"{title}\n{text}").strip()
    return {"text": text[:characters], "length": len(text), "sure": is_encoding_known}


def _decode_text(body: bytes) -> tuple[str, bool]:
    """The text, and whether its encoding is known."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if body.startswith(mark)), "utf-8")
    try:
        return body.decode(encoding), True
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace"), False


def clean_text(text: str) -> str:
    """The text with one kind of line end, without control characters and lone surrogates."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _NON_TEXT_CHARS.sub("", lines).encode("utf-8", "replace").decode()
