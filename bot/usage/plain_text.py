"""Makes texts from outside harmless where they are shown: in terminals, in spreadsheets, in Markdown. Pure."""

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARKDOWN = "\\`*_[]<>|~#$"


def plain(text: str) -> str:
    """One line without anything a terminal obeys: control and direction signs are spelled out."""
    return "".join(_spelled(sign) if unicodedata.category(sign) in _HIDDEN else sign for sign in text)


def cell(text: str) -> str:
    """The same for a spreadsheet: a text that would be a formula there is marked as text."""
    marked = f"'{text}" if text.startswith(_BEGINS_FORMULA) else text
    return plain(marked)


def markdown(text: str) -> str:
    """The same for Markdown: every sign means itself."""
    return "".join(f"\\{sign}" if sign in _MARKDOWN else sign for sign in plain(text))


def _spelled(sign: str) -> str:
    if ord(sign) < 0xD800 or ord(sign) > 0xDFFF:
        return sign.encode("unicode_escape").decode()
    return f"\\u{ord(sign):x}"
