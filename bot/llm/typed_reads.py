"""Typed questions about a text that an endpoint answers in one step, where it has a route for them.

`/v1/decisions` is OpenAI's, and vLLM's since 0.33; `/v1/systemone` is asked where only that exists. Owns what
is known of the endpoint: a route that it lacks is asked once after each start. Stores nothing; the caller
records the usage.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bot.agent.sanitize import break_control_tokens, to_sendable
from bot.llm.client import QUICK_SECONDS, ModelClient
from bot.llm.stream import parse_count

MAX_QUESTIONS = 64  # of a read, and options of a choice: DiffusionGemma's at vLLM
MAX_OPTIONS = 26
YES: Final = "yes"
_MISSING_STATUSES = {404, 405, 501}
_REFUSED_STATUSES = {400, 422}  # the model cannot; once it has answered, only not this


@dataclass(frozen=True, slots=True)
class YesNoQuestion:
    """A question about a text: what yes and no mean, and the role in which it is answered."""

    name: str
    instructions: str
    yes: str
    no: str
    role: str

    @property
    def options(self) -> tuple[str, ...]:
        """The option whose chance is read."""
        return (YES,)


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A question that one of several options answers; each has its meaning."""

    name: str
    instructions: str
    options: Mapping[str, str]
    role: str


TypedQuestion = YesNoQuestion | ChoiceQuestion
TypedQuestions = Sequence[TypedQuestion]


@dataclass(frozen=True, slots=True)
class TypedReading:
    """The answers, and the tokens that they took.

    `chances`: of each option, 0 to 1, by question; one that the endpoint did not answer is left out.
    `model` answered; empty if it did not tell its name.
    """

    chances: Mapping[str, Mapping[str, float]]
    input_tokens: int | None
    output_tokens: int | None
    model: str = ""

    def find_chance(self, question: YesNoQuestion) -> float | None:
        """The chance that the answer is yes; None: that was not answered."""
        return self.chances.get(question.name, {}).get(YES)


class TypedReader:
    """Asks the endpoint of `client`."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self._routes = dict(BODY_BUILDERS)  # those that it may have, the one to ask first
        self._has_answered = False

    @property
    def is_supported(self) -> bool | None:
        """Whether the endpoint has such a route, for this model; None: it was not asked yet."""
        if not self._routes:
            return False
        return self._has_answered or None

    async def read(
        self, questions: TypedQuestions, state: str, *, timeout_seconds: float = QUICK_SECONDS
    ) -> TypedReading | None:
        """Ask all questions about `state` in one request; None if the endpoint gives no answer."""
        if len(questions) > MAX_QUESTIONS or any(len(each.options) > MAX_OPTIONS for each in questions):
            return None
        for route, build_body in list(self._routes.items()):
            body = build_body(questions, state)
            answer = await self._client.ask(route, body, timeout_seconds=timeout_seconds, with_model=True)
            if answer.body:
                self._has_answered = True
                return _parse_reading(answer.body, questions)
            is_refused = answer.refusal in _REFUSED_STATUSES and not self._has_answered
            if answer.refusal not in _MISSING_STATUSES and not is_refused:
                return None
            self._routes.pop(route, None)
        return None


def shorten_middle(text: str, max_chars: int) -> str:
    """Make a text sendable, and leave out its middle if it is longer than that."""
    text = break_control_tokens(to_sendable(text))
    half = max_chars // 2
    if len(text) <= max_chars:
        return text
    return f"{text[:half]} … {text[-half:]}"


def _build_decisions_body(questions: TypedQuestions, state: str) -> dict[str, Any]:
    return {"input": state, "questions": [_write_decision(question) for question in questions]}


def _write_decision(question: TypedQuestion) -> dict[str, Any]:
    """One question; this route has no role and no meanings of yes and no: the instructions say them."""
    instructions = f"{question.role}\n{question.instructions}"
    if isinstance(question, YesNoQuestion):
        instructions += f"\nYes: {question.yes}.\nNo: {question.no}."
        return {"type": "predicate", "name": question.name, "instructions": instructions}
    choices = [{"value": value, "description": meaning} for value, meaning in question.options.items()]
    return {"type": "choice", "name": question.name, "instructions": instructions, "choices": choices}


def _build_systemone_body(questions: TypedQuestions, state: str) -> dict[str, Any]:
    return {
        "state": state,
        "questions": {question.name: _write_systemone(question) for question in questions},
        "instructions": questions[0].role,
    }


def _write_systemone(question: TypedQuestion) -> dict[str, Any]:
    if isinstance(question, YesNoQuestion):
        criteria = {"true": question.yes, "false": question.no}
        return {"type": "noul", "instructions": question.instructions, "criteria": criteria}
    return {"type": "choice", "instructions": question.instructions, "criteria": question.options}


BODY_BUILDERS: Final[Mapping[str, Callable[[TypedQuestions, str], dict[str, Any]]]] = {
    "/decisions": _build_decisions_body,
    "/systemone": _build_systemone_body,
}


def _parse_reading(body: Mapping[str, Any], questions: TypedQuestions) -> TypedReading | None:
    answers = body.get("answers")
    if isinstance(answers, list):
        answers = {question.name: answer for question, answer in zip(questions, answers, strict=False)}
    if not isinstance(answers, Mapping):
        return None
    chances = {question.name: _parse_answer(answers.get(question.name), question) for question in questions}
    usage = body.get("usage")
    model = body.get("model")
    if not isinstance(model, str):
        model = ""
    known_chances = {name: known for name, known in chances.items() if known}
    if not known_chances:
        return None
    tokens = parse_count(usage, "input_tokens"), parse_count(usage, "output_tokens")
    return TypedReading(known_chances, *tokens, model)


def _parse_answer(answer: Any, question: TypedQuestion) -> dict[str, float]:
    """The chance of each option; empty where one is missing or is no chance."""
    try:
        if isinstance(question, YesNoQuestion):
            listed = {YES: answer["probability"] if "probability" in answer else answer["noul"]}
        elif isinstance(answer["probabilities"], list):
            listed = {row["value"]: row["probability"] for row in answer["probabilities"]}
        else:
            listed = answer["probabilities"]
        chances = {option: listed[option] for option in question.options}
    except (LookupError, TypeError):
        return {}
    is_whole = all(isinstance(chance, int | float) and 0 <= chance <= 1 for chance in chances.values())
    return chances if is_whole else {}
