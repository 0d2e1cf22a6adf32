"""The words by which an answer is recognised; each is unique in a run and belongs to one message. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

DUE_TEXT = "⏰ tea R"
_MARK = re.compile(r"\b(?:[BEDR]\d{5}|M\d{5}-\d{3})\b|/c\d{5}\b")


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark and its place in a text, in characters."""

    word: str
    offset: int

    @property
    def number(self) -> int:
        """The number of the message it belongs to."""
        return read_number(self.word)


def read_number(word: str) -> int:
    """The number of the message that a mark belongs to."""
    return int(word.lstrip("/")[1:6])


@lru_cache(maxsize=50_000)  # people read what their chat shows at each change of it
def read_marks(text: str) -> tuple[Mark, ...]:
    """The marks in a text, in order; a reminder that is due has another one than its confirmation."""
    marks = tuple(Mark(match[0], match.start()) for match in _MARK.finditer(text))
    if text.startswith(DUE_TEXT):
        return tuple(Mark(due_word(mark.number), mark.offset) for mark in marks)
    return marks


def due_word(number: int) -> str:
    """The mark of what comes later: a reminder, or the answer of a task."""
    return f"D{number:05}"


def answer_words(kind: str, number: int) -> tuple[str, ...]:
    """The marks that the answer to a message shows, in order; none if it is recognised by its row alone."""
    match kind:
        case "command":
            return (f"/c{number:05}",)
        case "remind":
            return (f"R{number:05}",)
        case "long" | "stopped":
            middle = (f"M{number:05}-{place:03}" for place in range(count_long_words(number)))
            return (f"B{number:05}", *middle, f"E{number:05}")
        case "sticker" | "video note" | "bare command" | "slip":
            return ()
    return (f"B{number:05}", f"E{number:05}")


def count_long_words(number: int) -> int:
    """The length of a long answer: two to twenty canvases, one or two messages."""
    return 60 + number * 37 % 500
