"""Ask: a question of the model to the person, put by the gateway; the turn waits for the answer."""

import re
from dataclasses import dataclass

from tools.base import ToolContext, ToolError, tool
from tools.safety.plain_text import to_plain_line

MAX_QUESTION_CHARS = 500
MAX_CHOICE_CHARS = 40  # a phone shows no more of a button
CHOICE_COUNTS = range(2, 6)

BAD_QUESTION = (
    f"This was not asked. The first line is the question, with at most {MAX_QUESTION_CHARS} characters. "
    f"Below it stand no choices, or {CHOICE_COUNTS[0]} to {CHOICE_COUNTS[-1]} different ones, one a line, "
    f"with at most {MAX_CHOICE_CHARS} characters each."
)
NOBODY_TO_ASK = "Nobody can answer now. Go on with what is most likely meant, and say what you assumed."

_BULLET = re.compile(r"[-*•–]\s+")


@dataclass(frozen=True, slots=True)
class PersonQuestion:
    """A question to a person; without `choices`, any words answer it."""

    text: str
    choices: tuple[str, ...] = ()


@tool(repeatable=True, thinking="never", timeout=10)
async def ask(context: ToolContext, question: str = "") -> str:
    """Ask one question, choices on lines below it; never where a guess will do."""
    if context.answer is None:
        raise ToolError(NOBODY_TO_ASK)
    return context.answer


def parse_question(text: str) -> PersonQuestion:
    """Split what the model asks into the question and its choices. Raises ToolError, saying what to do."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or len(lines) - 1 not in (0, *CHOICE_COUNTS):
        raise ToolError(BAD_QUESTION)
    question = to_plain_line(lines[0], MAX_QUESTION_CHARS + 1)
    choices = tuple(to_plain_line(_BULLET.sub("", line, 1), MAX_CHOICE_CHARS + 1) for line in lines[1:])
    is_too_long = len(question) > MAX_QUESTION_CHARS or any(len(c) > MAX_CHOICE_CHARS for c in choices)
    distinct = {choice.casefold() for choice in choices}
    if not question or "" in distinct or is_too_long or len(distinct) < len(choices):
        raise ToolError(BAD_QUESTION)
    return PersonQuestion(question, choices)
