"""Escapes texts from outside for terminals and spreadsheets. Pure."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace

from bot.tables import Line, TextTable

_ESCAPED_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def escape_for_terminal(text: str) -> str:
    """One line that no terminal obeys: control and direction characters are spelled out."""
    return "".join(map(_escape_character, text))


def escape_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """The same for lines and the rows of tables, whose titles are words of ours."""
    for line in lines:
        if isinstance(line, TextTable):
            rows = [[escape_for_terminal(text) for text in row] for row in line.rows]
            yield replace(line, rows=rows)
        else:
            yield escape_for_terminal(line)


def escape_for_spreadsheet(text: str) -> str:
    """The same for a spreadsheet: a text that would be a formula there is marked as text."""
    if text.startswith(_FORMULA_PREFIXES):
        text = f"'{text}"
    return escape_for_terminal(text)


def _escape_character(character: str) -> str:
    if unicodedata.category(character) not in _ESCAPED_CATEGORIES:
        return character
    if ord(character) < 0xD800 or ord(character) > 0xDFFF:
        return character.encode("unicode_escape").decode()
    return f"\\u{ord(character):x}"
