"""Shorter and plainer forms of a text that a stranger or a model wrote. Pure."""

import unicodedata


def cut_text(text: str, max_chars: int) -> str:
    """The text, or its first `max_chars` characters and `…`."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def to_plain_line(text: str, max_chars: int) -> str:
    """The text as one line, without characters that hide, or that turn the direction of writing; cut."""
    plain = "".join(map(_show_character, text[: 2 * max_chars]))
    shown = " ".join(plain.split())
    return shown if len(shown) <= max_chars else f"{shown[: max_chars - 1]}…"


def _show_character(character: str) -> str:
    match unicodedata.category(character):
        case "Cc" | "Zl" | "Zp":
            return " "
        case "Cf" | "Cs" | "Co" | "Cn":
            return ""
    return character
