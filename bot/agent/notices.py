"""Texts of the gateway itself: notes at the end of an answer, and refusals of calls for the model. Pure.

A note is translated where it is shown; the model reads it in English.
"""

import re
from collections.abc import Sequence

from bot.translations.translator import translatable

LAST_CALL = "(No tool can be used any more for this answer. Say what you found so far.)"
REPEATED_CALL = "This call was already made with the same arguments. Use its result, or do something else."
NO_RESULT = "The outcome of this call is unknown."

NO_USABLE_ANSWER = translatable(
    "I didn't get a usable answer this time. Please try again, or put it another way."
)
ANSWER_TOO_LONG = translatable("That answer got too long. Please ask for part of it.")
CALL_TOO_LONG = translatable(
    "This needed one very long tool call, so I stopped. Please ask for it in smaller parts, or ask an "
    "admin to raise the limit."
)
OUT_OF_TIME = translatable("I ran out of time before the answer was ready. Please ask for less at once.")
NOTHING_TO_ADD = translatable("I've reached the limit for one answer. Ask me to go on.")
STOPPED = translatable("Stopped.")
EDITED = translatable("↻ You edited your message.")
TIME_UP = translatable("I ran out of time here.")
OUT_OF_STEPS = translatable("I've used all {steps} steps allowed for one answer.")
FOUND_SO_FAR = translatable("What I found so far:")

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")

_MARKUP = str.maketrans(dict.fromkeys("\\`*_[]<>|~#$&", " "))
_MAX_PROGRESS_CHARS = 100

MAX_FINDINGS = 3  # findings listed when a turn gives up
MAX_FINDING_CHARS = 300  # characters shown of each


def format_tool_progress(tool: str, words: str) -> str:
    """One line of what a running tool reports: a stranger's words, without markup and addresses."""
    shown = ["…" if _is_address(word) else word for word in words[: 5 * _MAX_PROGRESS_CHARS].split()]
    printable = "".join(character if character.isprintable() else " " for character in " ".join(shown))
    line = " ".join(printable.translate(_MARKUP).split()) or "at work"
    if len(line) > _MAX_PROGRESS_CHARS:
        line = f"{line[: _MAX_PROGRESS_CHARS - 1]}…"
    return f"{tool}: {line}"


def _is_address(word: str) -> bool:
    return word.startswith(("/", "www.")) or "://" in word or "@" in word


def append_note(text: str, note: str | None) -> str:
    """Markdown with a note in italics below; a code block left open by a cut is closed first."""
    if note is None:
        return text
    return f"{close_code_block(text)}\n\n_{note}_"


def close_code_block(text: str) -> str:
    """Markdown in which no code block stays open."""
    fence = ""
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and match[1].startswith(fence) and not match[2].strip():
            fence = ""
    if fence:
        return f"{text}\n{fence}"
    return text


def append_findings(sentence: str, findings: Sequence[tuple[str, str]], heading: str) -> str:
    """A sentence and the last results (tool, text), as code so that nothing in them can be tapped."""
    if not findings:
        return sentence
    lines = [f"- {tool}: `{_shorten_finding(text)}`" for tool, text in findings[-MAX_FINDINGS:]]
    return "\n".join([sentence, "", heading, *lines])


def _shorten_finding(text: str) -> str:
    flat = " ".join(text.replace("`", "'").split())
    if len(flat) <= MAX_FINDING_CHARS:
        return flat
    return f"{flat[:MAX_FINDING_CHARS]}…"
