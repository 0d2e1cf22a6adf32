"""What the people of the bench write and its model answers: plain messages, numbered answers of known length.

Pure, and the same in every run.
"""

import re
from dataclasses import dataclass

from bot.bench.harness.prose import write_prose
from bot.sim.vllm.server import ChatRequest, count_tokens, format_thought

_QUESTION_NUMBER = re.compile(r"Question (\d+)")
_ANSWER_NUMBER = re.compile(r"This was answer (\d+)\.$")

# A message is one of each. Their counts have no common divisor, so 504 messages differ.
_SITUATIONS = (
    "We are having a few old friends over for the first time in years.",
    "My sister and her two children live close to us now.",
    "We have moved to a small town by the sea.",
    "My neighbour has given me a big basket of apples from her garden.",
    "It has been raining here for days, and everybody is a bit bored.",
    "I started to bake my own bread this winter.",
    "Our son has just turned six and is mad about dinosaurs.",
    "My parents have been married for forty years now.",
    "I have not slept very well lately.",
)
_REMARKS = (
    "I am fond of doing such things by hand, however long they take me.",
    "We don't have a lot of room, and I am not very good at this.",
    "It went rather wrong the first time, and I still laugh about it.",
    "I have heard that a little patience is all it takes.",
    "To be honest, I don't really know what people like these days.",
    "There is no hurry, I am just a little curious.",
    "Some say that I worry far too much about it.",
)
_REQUESTS = (
    "What would you say to that?",
    "How do other people usually go about it?",
    "Why do you think that is so?",
    "Is there a simple way to begin with it?",
    "What do you think about that?",
    "Why is it so hard for some people?",
    "How would you explain that to a child?",
    "Do you have a nice idea?",
)


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
    return find_question_number("\n".join(request.user_texts))


def find_question_number(text: str) -> int:
    """The number of the last question in a text; 0 if there is none."""
    numbers = _QUESTION_NUMBER.findall(text)
    if numbers:
        return int(numbers[-1])
    return 0


def find_answer_number(text: str) -> int | None:
    """The number of the answer that this text ends; None if it ends none."""
    match = _ANSWER_NUMBER.search(text)
    return int(match[1]) if match else None


def write_question(number: int) -> str:
    """A message as people write it, of about 50 tokens; it asks for no work that needs thinking."""
    situation = _SITUATIONS[number % len(_SITUATIONS)]
    remark = _REMARKS[number % len(_REMARKS)]
    request = _REQUESTS[number % len(_REQUESTS)]
    return f"Question {number}: {situation} {remark} {request}"


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
