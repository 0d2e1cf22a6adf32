"""What must survive rendering: the words of a text that are no Markdown syntax, found by rules of our own."""

import re

from bot.telegram.formatting.splitter import Piece

_SYNTAX = re.compile(
    r"""
      ^[ \t>]*\d{1,9}[.)](?=\s)        # the number of a list item
    | (?:`{3,}|~{3,})[ ]?[\w+#.-]+     # the language of a fence
    | \]\([^\s)]*                      # the address of a link
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
    """The words a person must be able to read, in order; formulas, which are translated, left out."""
    return _WORD.findall(_SYNTAX.sub(" ", _FORMULA.sub(" ", markdown)))


def find_missing(expected: list[str], pieces: tuple[Piece, ...]) -> str | None:
    """The first wanted word that the pieces do not hold after the words before it."""
    text = "\n".join(piece.text for piece in pieces)
    at = 0
    for word in expected:
        found = text.find(word, at)
        if found < 0:
            return f"{word!r} after {text[max(0, at - 80) : at]!r}"
        at = found + len(word)
    return None
