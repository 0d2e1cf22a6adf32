"""Typed questions about a text and the probabilities of answers, for `/v1/decisions`.

Pure. A judge is any callable from a `TypedQuestion` to one weight an option; nothing is generated.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bot.sim.gemma.template import TemplateInput, render_prompt
from bot.sim.vllm.errors import Json, VllmRefusal, invalid_body, missing_field

READ_CANVAS_POSITIONS = 16  # positions denoised in one step
ANSWER_POSITIONS = 2  # positions of an answer, and the tokens it is counted as
_MAX_QUESTIONS = 64
_MAX_OPTIONS = 26
_MAX_LEVELS = 10
LABEL_MASS = 0.98  # what a model that means to answer puts on the labels; the rest is other words
_YES_OR_NO = (("yes", ""), ("no", ""))
_WORD_PATTERN = re.compile(r"\w{3,}")
_FIELDS = {"model", "input", "questions", "joint", "cache_salt", "safety_identifier"}


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """One question about `state`.

    `kind` is noul (options yes and no), choice or score; each option has its meaning.
    """

    name: str | None
    kind: str
    instructions: str
    options: tuple[str, ...]
    meanings: tuple[str, ...]
    state: str


Judge = Callable[[TypedQuestion], Sequence[float]]


def judge_by_words(question: TypedQuestion) -> tuple[float, ...]:
    """The default judge: an option weighs the words that it shares with the state."""
    state = _split_words(question.state)
    if question.kind == "noul":
        wanted_words = _split_words(question.instructions) or {""}
        yes = len(wanted_words & state) / len(wanted_words)
        return (0.05 + 0.9 * yes, 0.95 - 0.9 * yes)
    option_words = (
        _split_words(f"{name} {meaning}")
        for name, meaning in zip(question.options, question.meanings, strict=True)
    )
    return tuple(1.0 + 8.0 * len(words & state) for words in option_words)


def parse_questions(body: Json) -> tuple[TypedQuestion, ...]:
    """The questions of a body without unknown fields; raises VllmRefusal as the server does."""
    for name in ("model", "input", "questions"):
        if body.get(name) is None:
            raise missing_field(f"body.{name}", body)
    for name in body.keys() - _FIELDS:
        raise extra_field(f"body.{name}")
    if isinstance(body["input"], str):
        state = body["input"]
    else:
        state = _message_text(body["input"])
    check_question_count(body["questions"])
    return tuple(_parse_question(place, question, state) for place, question in enumerate(body["questions"]))


def build_read_prompt(questions: Sequence[TypedQuestion], instructions: str | None) -> str:
    """The prompt that the model sees: the state, then every question with its options."""
    lines = [questions[0].state]
    for question in questions:
        lines += ["", f"Question: {question.instructions}", *map(": ".join, _option_labels(question))]
    messages = [{"role": "user", "content": "\n".join(lines)}]
    if instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    return render_prompt(TemplateInput(messages))


def count_read_canvases(questions: Sequence[TypedQuestion]) -> int:
    """The number of canvases that hold the answers."""
    return -(-len(questions) * ANSWER_POSITIONS // READ_CANVAS_POSITIONS)


def compute_probabilities(question: TypedQuestion, judge: Judge) -> tuple[float, ...]:
    """The judge's weights as probabilities."""
    weights = [max(0.0, float(weight)) for weight in judge(question)]
    total = sum(weights) or 1.0
    return tuple(weight / total for weight in weights)


def build_answer(question: TypedQuestion, probabilities: Sequence[float]) -> Json:
    """The answer to one question."""
    if question.kind == "noul":
        return {"type": "predicate", "name": question.name, "probability": probabilities[0]}
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    options = list(zip(question.options, probabilities, strict=True))
    if question.kind == "choice":
        answer: Json = {
            "choice": question.options[best],
            "probabilities": [{"value": value, "probability": chance} for value, chance in options],
        }
    else:
        answer = {
            "score": sum(place * chance for place, chance in enumerate(probabilities)),
            "probabilities": [
                {"value": place, "label": label, "probability": chance}
                for place, (label, chance) in enumerate(options)
            ],
        }
    confidence = probabilities[best] * LABEL_MASS
    return {"type": question.kind, **answer, "confidence": confidence, "name": question.name}


def _split_words(text: str) -> set[str]:
    return set(_WORD_PATTERN.findall(text.casefold()))


def _option_labels(question: TypedQuestion) -> list[tuple[str, ...]]:
    return [tuple(filter(None, pair)) for pair in zip(question.options, question.meanings, strict=True)]


def check_question_count(questions: Any) -> None:
    """Refuse none at all, and too many."""
    if not questions:
        raise invalid_body(
            {"type": "too_short", "loc": "body.questions", "msg": "List should have at least 1 item"}
        )
    if len(questions) > _MAX_QUESTIONS:
        raise VllmRefusal(400, f"questions: at most {_MAX_QUESTIONS} for this model")


def extra_field(location: str) -> VllmRefusal:
    """A field that is not known."""
    return invalid_body({"type": "extra_forbidden", "loc": location, "msg": "Extra inputs are not permitted"})


def _parse_question(index: int, question: Any, state: str) -> TypedQuestion:
    location = f"body.questions.{index}"
    for field in ("type", "instructions"):
        if not isinstance(question, dict) or field not in question:
            raise missing_field(f"{location}.{field}", question)
    kinds = {"predicate": ("noul", "criteria"), "choice": ("choice", "choices"), "score": ("score", "levels")}
    if question["type"] not in kinds:
        raise invalid_body(
            {
                "type": "union_tag_invalid",
                "loc": location,
                "msg": f"Input tag {question['type']!r} is unknown",
            }
        )
    kind, listed = kinds[question["type"]]
    for field in question.keys() - {"type", "instructions", "name", listed}:
        raise extra_field(f"{location}.{field}")
    key = "value" if kind == "choice" else "label"
    options = [
        (str(option[key]), str(option.get("description") or "")) for option in question.get(listed) or ()
    ]
    if kind != "noul" and len(options) < 2:
        raise invalid_body(
            {"type": "too_short", "loc": f"{location}.{listed}", "msg": "List should have at least 2 items"}
        )
    return build_question(question.get("name"), kind, question["instructions"], options or _YES_OR_NO, state)


def build_question(
    name: str | None, kind: str, instructions: object, options: Sequence[tuple[str, str]], state: str
) -> TypedQuestion:
    """A question with its options and their meanings; raises VllmRefusal if there are too many."""
    limit = {"choice": _MAX_OPTIONS, "score": _MAX_LEVELS, "noul": 2}[kind]
    if len(options) > limit:
        raise VllmRefusal(400, f"question {name!r}: at most {limit} options for this model")
    names, meanings = zip(*options, strict=True)
    return TypedQuestion(name, kind, str(instructions or ""), names, meanings, state)


def _message_text(messages: Any) -> str:
    texts = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, str):
            parts = [{"type": "input_text", "text": content}]
        else:
            parts = content
        if any(part.get("type") == "input_image" for part in parts):
            raise invalid_body(
                {"type": "value_error", "loc": "body.input", "msg": "Decisions supports text input only"}
            )
        texts += [str(part.get("text", "")) for part in parts]
    return "\n".join(texts)
