"""What the people of the bench write and what its model answers: prose of known length, each answer with its
number.

Pure, and the same in every run.
"""

import random
import re
from dataclasses import dataclass

from bot.sim.vllm.server import ChatRequest, count_tokens, format_thought

_TEXT = (
    "the river runs past old town walls and slow boats carry wood grain salt to market when winter comes early some "
    "people stay near fires tell long tales of storms at sea while others mend nets and wait for spring"
)
_WORDS = _TEXT.split()
_QUESTION_NUMBER = re.compile(r"Question (\d+)")


@dataclass(frozen=True, slots=True)
class ProseBrain:
    """A brain for the simulated endpoint: answers question n in `answer` tokens; `thinks` as many if it is
    told to.
    """

    answer_tokens: int = 150
    thought_tokens: int = 150

    def __call__(self, request: ChatRequest) -> str:
        number = question_number(request)
        said = write_reply(number, self.answer_tokens)
        if request.thinking:
            return format_thought(write_prose(self.thought_tokens, number), request) + said
        return said


def question_number(request: ChatRequest) -> int:
    """The number of the newest question in a prompt; 0 if there is none."""
    found = _QUESTION_NUMBER.findall("\n".join(request.user_texts))
    if found:
        return int(found[-1])
    return 0


def write_question(number: int, tokens: int = 50) -> str:
    """What a person writes, of so many tokens."""
    head = f"Question {number}:"
    return f"{head}{write_prose(tokens - count_tokens(head), number)}"


def write_reply(number: int, tokens: int) -> str:
    """The answer to question `number`, of so many tokens; it ends with `ending(number)`."""
    end = f" {reply_ending(number)}"
    return (write_prose(tokens - count_tokens(end), -number - 1) + end).strip()


def reply_ending(number: int) -> str:
    """How the answer to this question ends, and no other text does."""
    return f"This was answer {number}."


def reply_opening(number: int) -> str:
    """How the answer to this question begins."""
    return write_prose(4, -number - 1).lstrip()


def write_prose(tokens: int, seed: int) -> str:
    """Words of one token each, each behind a blank."""
    words = random.Random(seed)  # noqa: S311 - the same words in every run, no secret
    return "".join(f" {words.choice(_WORDS)}" for _ in range(max(0, tokens)))
