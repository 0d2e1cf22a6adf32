"""Checks text of tools that strangers wrote: finds what an admin should look at twice, and disarms it.

Pure. Precision comes before recall: a flag is a question to an admin, and admins who are asked too often
stop reading.
"""

import re
import unicodedata
from collections.abc import Iterator

from tools.safety.control_tokens import CONTROL_TOKEN, break_control_tokens
from tools.safety.injection_phrases import compile_injection_patterns

_PIECE_CHARS = 20_000  # of a text in which phrases are looked for at once
_OVERLAP_CHARS = 500  # of two pieces, for a phrase where one ends

_BIDIRECTIONAL = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Joiners belong between letters of some scripts and between emoji; elsewhere they hide something.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
    "|(?<![^\x00-\u02ff])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u02ff])"
)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def find_injection_warnings(text: str) -> tuple[str, ...]:
    """What is suspicious in the texts of a tool (name, description, schema texts), a short phrase each.

    Often nothing. Looks for control tokens of the model's template, characters nobody sees, and phrases that
    instruct the model instead of saying what the tool does.
    """
    warnings = []
    if CONTROL_TOKEN.search(text) or CONTROL_TOKEN.search(strip_invisible(text)):
        warnings.append("control tokens of the model's template")
    if _BIDIRECTIONAL.search(text):
        warnings.append("characters that turn the direction of writing")
    if _INVISIBLE.search(text) or _UNPRINTABLE.search(text.replace("\r\n", "\n")):
        warnings.append("invisible characters")
    return (*warnings, *_find_phrases(text))


def _find_phrases(text: str) -> Iterator[str]:
    """The first phrase of each kind, of a long text piece by piece."""
    pieces = [
        _normalize(text[begin : begin + _PIECE_CHARS])
        for begin in range(0, len(text), _PIECE_CHARS - _OVERLAP_CHARS)
    ]
    for warning, phrase in compile_injection_patterns():
        match = next(filter(None, map(phrase.search, pieces)), None)
        if match is not None:
            yield f"{warning}: “{match[0].strip()[:60]}”"


def strip_invisible(text: str) -> str:
    """The text without characters that nobody sees or that turn the direction of writing."""
    return _UNPRINTABLE.sub(" ", _INVISIBLE.sub("", _BIDIRECTIONAL.sub("", text)))


def neutralize(text: str) -> str:
    """The text as it may enter a prompt: all of it visible, without control tokens, blanks collapsed."""
    if not (text.isascii() and text.isprintable()):  # else nothing is invisible: a start reads thousands
        text = strip_invisible(text)
    return break_control_tokens(" ".join(text.split()))


def _normalize(text: str) -> str:
    """The text as a reader takes it: one form a letter, lower case, single blanks, straight apostrophes."""
    return " ".join(unicodedata.normalize("NFKC", strip_invisible(text)).replace("’", "'").lower().split())
