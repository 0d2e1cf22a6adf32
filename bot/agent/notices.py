"""Texts of the gateway itself: notes at the end of an answer, and refusals of calls for the model. Pure."""

import re
from collections.abc import Sequence

LAST_CALL = "(No tool can be used any more for this answer. Say what you found so far.)"
REPEATED_CALL = "This call was already made with the same arguments. Use its result, or do something else."
NO_RESULT = "The outcome of this call is unknown."

NO_USABLE_ANSWER = "The model gave no usable answer this time. Please try again, or put it another way."
ANSWER_TOO_LONG = (
    "The answer did not fit the length limit of one reply. Please ask for a smaller piece of it."
)
CALL_TOO_LONG = (
    "What a tool was to be given was too long to write at once, so it was not run. Please ask for it in "
    "smaller pieces. An admin can allow more with MODEL_MAX_TOKENS."
)
OUT_OF_TIME = "The time for this answer was up before it was ready."
NOTHING_TO_ADD = "The length limit fell here, and the model had nothing to add."
STOPPED = "Stopped."
TIME_UP = "The time for this answer was up."

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")

_MARKUP = str.maketrans(dict.fromkeys("\\`*_[]<>|~#$&", " "))
_MAX_PROGRESS_CHARS = 100

MAX_FINDINGS = 3  # findings listed when a turn gives up
MAX_FINDING_CHARS = 300  # characters shown of each


def format_out_of_steps(steps: int) -> str:
    """The note of a turn that used all its model calls."""
    return f"All {steps} steps allowed for one answer were used."


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


def append_findings(sentence: str, findings: Sequence[tuple[str, str]]) -> str:
    """A sentence and the last results (tool, text), as code so that nothing in them can be tapped."""
    if not findings:
        return sentence
    lines = [f"- {tool}: `{_shorten_finding(text)}`" for tool, text in findings[-MAX_FINDINGS:]]
    return "\n".join([sentence, "", "Found so far:", *lines])


def _shorten_finding(text: str) -> str:
    flat = " ".join(text.replace("`", "'").split())
    if len(flat) <= MAX_FINDING_CHARS:
        return flat
    return f"{flat[:MAX_FINDING_CHARS]}…"
