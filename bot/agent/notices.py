"""What the house itself says at the end of a turn, to the person and, where a call is refused, to the model.
Pure.
"""

import re
from collections.abc import Sequence

LAST_CALL = "(No tool can be used any more for this answer. Say what you found so far.)"
REPEATED_CALL = "This call was already made with the same arguments. Use its result, or do something else."
NO_RESULT = "The outcome of this call is unknown."

NOTHING = "The model gave no usable answer this time. Please try again, or put it another way."
NO_ROOM = "The answer did not fit the length limit of one reply. Please ask for a smaller piece of it."
OUT_OF_TIME = "The time for this answer was up before it was ready."
NO_MORE = "The length limit fell here, and the model had nothing to add."
STOPPED = "Stopped."
TIME_UP = "The time for this answer was up."

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")

SHOWN = 3  # findings that are told
LENGTH = 300  # characters of a finding that are told


def out_of_steps(steps: int) -> str:
    """Why a turn ended that used all its model calls."""
    return f"All {steps} steps allowed for one answer were used."


def with_note(text: str, note: str | None) -> str:
    """Markdown with a note in italics under it; a code block left open by a cut is closed before it."""
    if note is None:
        return text
    return f"{closed(text)}\n\n_{note}_"


def closed(text: str) -> str:
    """Markdown in which no code block stays open."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
    if fence:
        return f"{text}\n{fence}"
    return text


def with_findings(sentence: str, found: Sequence[tuple[str, str]]) -> str:
    """A sentence and the last results (tool, text) under it, as code so that nothing in them can be tapped."""
    if not found:
        return sentence
    lines = [f"- {tool}: `{_short(text)}`" for tool, text in found[-SHOWN:]]
    return "\n".join([sentence, "", "Found so far:", *lines])


def _short(text: str) -> str:
    flat = " ".join(text.replace("`", "'").split())
    if len(flat) <= LENGTH:
        return flat
    return f"{flat[:LENGTH]}…"
