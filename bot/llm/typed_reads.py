"""Typed questions about a text that the endpoint answers in one step, where it has such a route.

Owns what is known of the endpoint: one that cannot answer is asked once after each start. Stores nothing; the
caller records the usage.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.agent.sanitize import break_control_tokens, to_sendable
from bot.llm.client import ModelClient


@dataclass(frozen=True, slots=True)
class YesNoQuestion:
    """A question about a text: what yes and no mean, and the role in which it is answered."""

    name: str
    instructions: str
    yes: str
    no: str
    role: str


@dataclass(frozen=True, slots=True)
class TypedReading:
    """The chance, 0 to 1, that the answer is yes; and the tokens that the question took.

    `model` answered; empty if it did not tell its name.
    """

    chance: float
    input_tokens: int | None
    output_tokens: int | None
    model: str = ""


class TypedReader:
    """Asks the endpoint of `client`. `model` is the one to ask; None: the first it serves."""

    def __init__(self, client: ModelClient, model: str | None) -> None:
        self._client = client
        self._model = model
        self._is_supported: bool | None = None

    @property
    def is_supported(self) -> bool | None:
        """Whether the endpoint has such a route, for this model; None: it was not asked yet."""
        return self._is_supported

    async def read(self, question: YesNoQuestion, state: str) -> TypedReading | None:
        """Ask a question about `state`; None if the endpoint gives no answer."""
        if self._is_supported is False:
            return None
        answer = await self._client.ask_typed_questions(self._build_body(question, state))
        if answer.is_unsupported:
            self._is_supported = False
        if not answer.body:
            return None
        self._is_supported = True
        return _parse_reading(answer.body, question.name)

    def _build_body(self, question: YesNoQuestion, state: str) -> dict[str, Any]:
        criteria = {"true": question.yes, "false": question.no}
        typed_question = {"type": "noul", "instructions": question.instructions, "criteria": criteria}
        body = {
            "state": state,
            "questions": {question.name: typed_question},
            "instructions": question.role,
        }
        if self._model is None:
            return body
        return {"model": self._model, **body}


def shorten_middle(text: str, max_chars: int) -> str:
    """Make a text sendable, and leave out its middle if it is longer than that."""
    text = break_control_tokens(to_sendable(text))
    half = max_chars // 2
    if len(text) <= max_chars:
        return text
    return f"{text[:half]} … {text[-half:]}"


def _parse_reading(answer: Mapping[str, Any], question: str) -> TypedReading | None:
    try:
        chance = answer["answers"][question]["noul"]
    except (LookupError, TypeError):
        return None
    if not isinstance(chance, int | float) or not 0 <= chance <= 1:
        return None
    usage = answer.get("usage")
    model = answer.get("model")
    if not isinstance(model, str):
        model = ""
    if not isinstance(usage, Mapping):
        return TypedReading(float(chance), None, None, model)
    input_tokens = _parse_count(usage.get("input_tokens"))
    output_tokens = _parse_count(usage.get("output_tokens"))
    return TypedReading(float(chance), input_tokens, output_tokens, model)


def _parse_count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
