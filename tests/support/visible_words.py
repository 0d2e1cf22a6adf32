"""The words of a text that must survive rendering: all but Markdown syntax, by rules of our own."""

import re

from bot.telegram.formatting.splitter import Piece

_SYNTAX = re.compile(
    r"""
      ^[ \t>]*\d{1,9}[.)](?=\s)        # the number of a list item
    | (?:`{3,}|~{3,})[ ]?[\w+#.-]+     # the language of a fence
    | \]\([^\s)]*                      # the URL of a link
    | &[A-Za-z]+;                      # a character reference
    | \[[xX]\][ ]                      # a task's mark
    | <br>                             # a line's end in a table
    """,
    re.MULTILINE | re.VERBOSE,
)
_FORMULA = re.compile(
    r"\$\$.+?\$\$|\$(?=\S)[^$\n]*\\[^$\n]*\$|\\\(.+?\\\)|\\\[.+?\\\]|\|\|x\|\|_2", re.DOTALL
)
_WORD = re.compile(r"[^\W_]+")


def extract_words(markdown: str) -> list[str]:
    """Return the words that a person must be able to read, in order, except those of formulas."""
    return _WORD.findall(_SYNTAX.sub(" ", _FORMULA.sub(" ", markdown)))


def find_missing(expected: list[str], pieces: tuple[Piece, ...]) -> str | None:
    """Return the first expected word that the pieces lack after the words before it; None: all are there."""
    text = "\n".join(piece.text for piece in pieces)
    position = 0
    for word in expected:
        start = text.find(word, position)
        if start < 0:
            return f"{word!r} after {text[max(0, position - 80) : position]!r}"
        position = start + len(word)
    return None
