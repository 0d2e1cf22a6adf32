"""Reads the words of tools that strangers wrote: finds what should make an admin look twice, takes its power
away.

Pure. Precision comes before recall: a flag is a question to an admin, and whoever is asked too often stops
reading.
"""

import re
import unicodedata

from tools.safety.control_tokens import CONTROL_TOKEN, break_control_tokens
from tools.safety.injection_phrases import compile_injection_patterns

# Characters of a text that are looked at; definitions are shorter, what is longer is flagged for that
MAX_SCANNED_CHARS = 20_000

_BIDIRECTIONAL = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Joiners belong between letters of some scripts and between emoji; anywhere else they are there to hide
# something.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
    "|(?<![^\x00-\u02ff])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u02ff])"
)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def find_injection_warnings(text: str) -> tuple[str, ...]:
    """What is wrong with the words of a tool (its name, description, schema's texts), a short phrase each;
    often none.

    Control tokens of the model's template, characters nobody sees, and phrases that instruct the model
    instead of saying what the tool does.
    """
    found = []
    if len(text) > MAX_SCANNED_CHARS:
        found.append(f"longer than {MAX_SCANNED_CHARS} characters; the rest was not looked at")
    text = text[:MAX_SCANNED_CHARS]
    if CONTROL_TOKEN.search(text) or CONTROL_TOKEN.search(strip_invisible(text)):
        found.append("control tokens of the model's template")
    if _BIDIRECTIONAL.search(text):
        found.append("characters that turn the direction of writing")
    if _INVISIBLE.search(text) or _UNPRINTABLE.search(text.replace("\r\n", "\n")):
        found.append("invisible characters")
    spoken = _normalize(text)
    found += [
        f"{why}: “{said[0].strip()[:60]}”"
        for why, phrase in compile_injection_patterns()
        if (said := phrase.search(spoken))
    ]
    return tuple(found)


def strip_invisible(text: str) -> str:
    """The text without characters that nobody sees or that turn the direction of writing."""
    return _UNPRINTABLE.sub(" ", _INVISIBLE.sub("", _BIDIRECTIONAL.sub("", text)))


def neutralize(text: str) -> str:
    """The text as it may enter a prompt: all of it visible, no control token left in it, blanks collapsed."""
    return break_control_tokens(" ".join(strip_invisible(text).split()))


def _normalize(text: str) -> str:
    """The words as a reader takes them: one form a letter, small, single blanks, straight apostrophes."""
    return " ".join(unicodedata.normalize("NFKC", strip_invisible(text)).replace("’", "'").lower().split())
