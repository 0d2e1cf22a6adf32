"""Makes texts from outside harmless where they are shown: in terminals, in spreadsheets, in Markdown. Pure."""

import unicodedata

_ESCAPED_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARKDOWN_SPECIALS = "\\`*_[]<>|~#$"


def escape_for_terminal(text: str) -> str:
    """One line without anything a terminal obeys: control and direction signs are spelled out."""
    return "".join(
        _escape_character(sign) if unicodedata.category(sign) in _ESCAPED_CATEGORIES else sign
        for sign in text
    )


def escape_for_spreadsheet(text: str) -> str:
    """The same for a spreadsheet: a text that would be a formula there is marked as text."""
    marked = f"'{text}" if text.startswith(_FORMULA_PREFIXES) else text
    return escape_for_terminal(marked)


def escape_for_markdown(text: str) -> str:
    """The same for Markdown: every sign means itself."""
    return "".join(f"\\{sign}" if sign in _MARKDOWN_SPECIALS else sign for sign in escape_for_terminal(text))


def _escape_character(character: str) -> str:
    if ord(character) < 0xD800 or ord(character) > 0xDFFF:
        return character.encode("unicode_escape").decode()
    return f"\\u{ord(character):x}"
