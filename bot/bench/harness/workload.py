"""What the people of the bench write and its model answers: prose of known length, numbered answers.

Pure, and the same in every run.
"""

import random
import re
from dataclasses import dataclass

from bot.sim.vllm.server import ChatRequest, count_tokens, format_thought

_TEXT = (
    "the river runs past old town walls and slow boats carry wood grain salt to market when winter comes "
    "early some people stay near fires tell long tales of storms at sea while others mend nets and wait for "
    "spring"
)
_WORDS = _TEXT.split()
_QUESTION_NUMBER = re.compile(r"Question (\d+)")


@dataclass(frozen=True, slots=True)
class ProseBrain:
    """A brain for the simulated endpoint: it answers question n in `answer_tokens`.

    With thinking on, it thinks for `thought_tokens` before that.
    """

    answer_tokens: int = 150
    thought_tokens: int = 150

    def __call__(self, request: ChatRequest) -> str:
        number = question_number(request)
        reply = write_reply(number, self.answer_tokens)
        if request.thinking:
            return format_thought(write_prose(self.thought_tokens, number), request) + reply
        return reply


def question_number(request: ChatRequest) -> int:
    """The number of the newest question in a prompt; 0 if there is none."""
    numbers = _QUESTION_NUMBER.findall("\n".join(request.user_texts))
    if numbers:
        return int(numbers[-1])
    return 0


def write_question(number: int, tokens: int = 50) -> str:
    """The text a person writes, of so many tokens."""
    head = f"Question {number}:"
    return f"{head}{write_prose(tokens - count_tokens(head), number)}"


def write_reply(number: int, tokens: int) -> str:
    """The answer to question `number`, of so many tokens; it ends with `reply_ending(number)`."""
    end = f" {reply_ending(number)}"
    return (write_prose(tokens - count_tokens(end), -number - 1) + end).strip()


def reply_ending(number: int) -> str:
    """The end of the answer to this question, which no other text has."""
    return f"This was answer {number}."


def reply_opening(number: int) -> str:
    """The beginning of the answer to this question."""
    return write_prose(4, -number - 1).lstrip()


def write_prose(tokens: int, seed: int) -> str:
    """Words of one token each, each after a blank."""
    generator = random.Random(seed)  # noqa: S311 - the same words in every run, no secret
    return "".join(f" {generator.choice(_WORDS)}" for _ in range(max(0, tokens)))
