"""The route `/v1/systemone`: typed questions by name, as vLLM had them before `/v1/decisions`. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from typing import Any

from bot.sim.vllm.errors import Json, VllmRefusal, invalid_body, missing_field
from bot.sim.vllm.typed_reads import (
    LABEL_MASS,
    TypedQuestion,
    build_question,
    check_question_count,
    extra_field,
)

_FIELDS = {"type", "instructions", "criteria"}


def parse_questions(body: Json) -> tuple[TypedQuestion, ...]:
    """The questions of `/v1/systemone`; raises VllmRefusal as the server does."""
    for name in ("state", "questions"):
        if body.get(name) is None:
            raise missing_field(f"body.{name}", body)
    if isinstance(body["state"], str):
        state = body["state"]
    else:
        state = json.dumps(body["state"], ensure_ascii=False)
    questions = body["questions"]
    if not isinstance(questions, dict) or not questions:
        raise invalid_body(
            {"type": "dict_type", "loc": "body.questions", "msg": "Input should be a valid dictionary"}
        )
    check_question_count(questions)
    return tuple(_parse_question(name, question, state) for name, question in questions.items())


def build_answer(question: TypedQuestion, probabilities: Sequence[float]) -> Json:
    """One answer of `/v1/systemone`."""
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    confidence = probabilities[best] * LABEL_MASS
    if question.kind == "noul":
        answer: Json = {
            "noul": probabilities[0],
            "probabilities": {"yes": probabilities[0], "no": probabilities[1]},
        }
    elif question.kind == "choice":
        answer = {
            "choice": question.options[best],
            "probabilities": dict(zip(question.options, probabilities, strict=True)),
        }
    else:
        places = [str(place) for place in range(len(probabilities))]
        answer = {
            "score": sum(place * chance for place, chance in enumerate(probabilities)),
            "legend": dict(zip(places, question.options, strict=True)),
            "probabilities": dict(zip(places, probabilities, strict=True)),
        }
    return {"type": question.kind, **answer, "confidence": confidence}


def build_diagnostics() -> Json:
    """The certainty of a reading, as `/v1/systemone` reports it."""
    return {"label_mass": LABEL_MASS, "argmax_is_label": True}


def _parse_question(name: str, question: Any, state: str) -> TypedQuestion:
    location = f"body.questions.{name}"
    if not isinstance(question, dict) or "type" not in question:
        raise missing_field(f"{location}.type", question)
    for field in question.keys() - _FIELDS:
        raise extra_field(f"{location}.{field}")
    if question["type"] not in _OPTION_PARSERS:
        raise VllmRefusal(
            400, f"unknown question type {question['type']!r}; supported: {sorted(_OPTION_PARSERS)}"
        )
    options = _OPTION_PARSERS[question["type"]](repr(name), question.get("criteria"))
    return build_question(name, question["type"], question.get("instructions"), options, state)


def _noul_options(name: str, criteria: object) -> list[tuple[str, str]]:
    if criteria is not None and not (isinstance(criteria, Mapping) and criteria.keys() <= {"true", "false"}):
        raise VllmRefusal(400, f"question {name}: noul criteria must be an object with true and false")
    criteria_texts = criteria or {}
    return [("yes", str(criteria_texts.get("true") or "")), ("no", str(criteria_texts.get("false") or ""))]


def _choice_options(name: str, criteria: object) -> list[tuple[str, str]]:
    if not isinstance(criteria, Mapping) or not criteria:
        raise VllmRefusal(
            400, f"question {name}: choice criteria must map option names to a description or null"
        )
    return list(starmap(lambda option, meaning: (str(option), str(meaning or "")), criteria.items()))


def _score_options(name: str, criteria: object) -> list[tuple[str, str]]:
    if not isinstance(criteria, list) or len(criteria) < 2:
        raise VllmRefusal(400, f"question {name}: score criteria must be an ordered list of levels")
    return [(str(level), "") for level in criteria]


_OPTION_PARSERS: Mapping[str, Callable[[str, object], list[tuple[str, str]]]] = {
    "noul": _noul_options,
    "choice": _choice_options,
    "score": _score_options,
}
