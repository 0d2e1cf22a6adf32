"""Typed questions about a text, and the answers' probabilities: what `/v1/systemone` and `/v1/decisions` take
and give.

Pure. A judge is any callable from a `Question` to one weight an option; nothing is generated.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from bot.sim.gemma.template import Conversation, render
from bot.sim.vllm.errors import Json, Refusal, invalid, missing

READ_CANVAS = 16  # positions denoised in one step
SLOTS = 2  # positions of an answer, and the tokens it is counted as
_QUESTIONS = 64
_OPTIONS = 26
_LEVELS = 10
_LABEL_MASS = 0.98  # what a model that means to answer puts on the labels; the rest is other words
_WORDS = re.compile(r"\w{3,}")
_SYSTEMONE_FIELDS = {"type", "instructions", "criteria"}
_DECISIONS_FIELDS = {"model", "input", "questions", "joint", "cache_salt", "safety_identifier"}


@dataclass(frozen=True, slots=True)
class Question:
    """One question about `state`. `kind` is noul (options yes and no), choice or score; each option has its
    meaning.
    """

    name: str | None
    kind: str
    instructions: str
    options: tuple[str, ...]
    meanings: tuple[str, ...]
    state: str


Judge = Callable[[Question], Sequence[float]]


def by_words(question: Question) -> tuple[float, ...]:
    """The judge without a will of its own: an option weighs what it shares in words with the state."""
    state = _words(question.state)
    if question.kind == "noul":
        asked = _words(question.instructions) or {""}
        yes = len(asked & state) / len(asked)
        return (0.05 + 0.9 * yes, 0.95 - 0.9 * yes)
    told = (
        _words(f"{name} {meaning}") for name, meaning in zip(question.options, question.meanings, strict=True)
    )
    return tuple(1.0 + 8.0 * len(words & state) for words in told)


def systemone_questions(body: Json) -> tuple[Question, ...]:
    """The questions of `/v1/systemone`; raises Refusal as the server does."""
    for name in ("state", "questions"):
        if body.get(name) is None:
            raise missing(f"body.{name}", body)
    if isinstance(body["state"], str):
        state = body["state"]
    else:
        state = json.dumps(body["state"], ensure_ascii=False)
    asked = body["questions"]
    if not isinstance(asked, dict) or not asked:
        raise invalid(
            {"type": "dict_type", "loc": "body.questions", "msg": "Input should be a valid dictionary"}
        )
    _check_count(asked)
    return tuple(_systemone(name, question, state) for name, question in asked.items())


def decisions_questions(body: Json) -> tuple[Question, ...]:
    """The questions of `/v1/decisions`, which takes no field it does not know; raises Refusal as the server
    does.
    """
    for name in ("model", "input", "questions"):
        if body.get(name) is None:
            raise missing(f"body.{name}", body)
    for name in body.keys() - _DECISIONS_FIELDS:
        raise _extra(f"body.{name}")
    if isinstance(body["input"], str):
        state = body["input"]
    else:
        state = _message_text(body["input"])
    _check_count(body["questions"])
    return tuple(_decision(place, question, state) for place, question in enumerate(body["questions"]))


def read_prompt(questions: Sequence[Question], instructions: str | None) -> str:
    """What the model sees: the state, then every question with its options."""
    lines = [questions[0].state]
    for question in questions:
        lines += ["", f"Question: {question.instructions}", *map(": ".join, _labelled(question))]
    messages = [{"role": "user", "content": "\n".join(lines)}]
    if instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    return render(Conversation(messages))


def reads(questions: Sequence[Question]) -> int:
    """How many canvases hold the answers."""
    return -(-len(questions) * SLOTS // READ_CANVAS)


def shares(question: Question, judge: Judge) -> tuple[float, ...]:
    """The judge's weights as probabilities."""
    weights = [max(0.0, float(weight)) for weight in judge(question)]
    total = sum(weights) or 1.0
    return tuple(weight / total for weight in weights)


def systemone_answer(question: Question, chances: Sequence[float]) -> Json:
    """One answer of `/v1/systemone`."""
    best = max(range(len(chances)), key=chances.__getitem__)
    confidence = chances[best] * _LABEL_MASS
    if question.kind == "noul":
        told: Json = {"noul": chances[0], "probabilities": {"yes": chances[0], "no": chances[1]}}
    elif question.kind == "choice":
        told = {
            "choice": question.options[best],
            "probabilities": dict(zip(question.options, chances, strict=True)),
        }
    else:
        places = [str(place) for place in range(len(chances))]
        told = {
            "score": sum(place * chance for place, chance in enumerate(chances)),
            "legend": dict(zip(places, question.options, strict=True)),
            "probabilities": dict(zip(places, chances, strict=True)),
        }
    return {"type": question.kind, **told, "confidence": confidence}


def decisions_answer(question: Question, chances: Sequence[float]) -> Json:
    """One answer of `/v1/decisions`."""
    if question.kind == "noul":
        return {"type": "predicate", "name": question.name, "probability": chances[0]}
    told = systemone_answer(question, chances)
    options = list(zip(question.options, chances, strict=True))
    if question.kind == "choice":
        told["probabilities"] = [{"value": value, "probability": chance} for value, chance in options]
    else:
        del told["legend"]
        told["probabilities"] = [
            {"value": place, "label": label, "probability": chance}
            for place, (label, chance) in enumerate(options)
        ]
    return {**told, "name": question.name}


def diagnostics() -> Json:
    """What `/v1/systemone` says of how sure a reading is."""
    return {"label_mass": _LABEL_MASS, "argmax_is_label": True}


def _words(text: str) -> set[str]:
    return set(_WORDS.findall(text.casefold()))


def _labelled(question: Question) -> list[tuple[str, ...]]:
    return [tuple(filter(None, pair)) for pair in zip(question.options, question.meanings, strict=True)]


def _check_count(questions: Any) -> None:
    if not questions:
        raise invalid(
            {"type": "too_short", "loc": "body.questions", "msg": "List should have at least 1 item"}
        )
    if len(questions) > _QUESTIONS:
        raise Refusal(400, f"questions: at most {_QUESTIONS} for this model")


def _extra(place: str) -> Refusal:
    return invalid({"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"})


def _systemone(name: str, question: Any, state: str) -> Question:
    where = f"body.questions.{name}"
    if not isinstance(question, dict) or "type" not in question:
        raise missing(f"{where}.type", question)
    for field in question.keys() - _SYSTEMONE_FIELDS:
        raise _extra(f"{where}.{field}")
    if question["type"] not in _CRITERIA:
        raise Refusal(400, f"unknown question type {question['type']!r}; supported: {sorted(_CRITERIA)}")
    options = _CRITERIA[question["type"]](repr(name), question.get("criteria"))
    return _question(name, question["type"], question.get("instructions"), options, state)


def _decision(place: int, question: Any, state: str) -> Question:
    where = f"body.questions.{place}"
    for field in ("type", "instructions"):
        if not isinstance(question, dict) or field not in question:
            raise missing(f"{where}.{field}", question)
    kinds = {"predicate": ("noul", "criteria"), "choice": ("choice", "choices"), "score": ("score", "levels")}
    if question["type"] not in kinds:
        raise invalid(
            {"type": "union_tag_invalid", "loc": where, "msg": f"Input tag {question['type']!r} is unknown"}
        )
    kind, listed = kinds[question["type"]]
    for field in question.keys() - {"type", "instructions", "name", listed}:
        raise _extra(f"{where}.{field}")
    key = "value" if kind == "choice" else "label"
    options = [(str(one[key]), str(one.get("description") or "")) for one in question.get(listed) or ()]
    if kind != "noul" and len(options) < 2:
        raise invalid(
            {"type": "too_short", "loc": f"{where}.{listed}", "msg": "List should have at least 2 items"}
        )
    return _question(question.get("name"), kind, question["instructions"], options or _noul("", None), state)


def _question(
    name: str | None, kind: str, instructions: object, options: Sequence[tuple[str, str]], state: str
) -> Question:
    most = {"choice": _OPTIONS, "score": _LEVELS, "noul": 2}[kind]
    if len(options) > most:
        raise Refusal(400, f"question {name!r}: at most {most} options for this model")
    names, meanings = zip(*options, strict=True)
    return Question(name, kind, str(instructions or ""), names, meanings, state)


def _noul(name: str, criteria: object) -> list[tuple[str, str]]:
    if criteria is not None and not (isinstance(criteria, Mapping) and criteria.keys() <= {"true", "false"}):
        raise Refusal(400, f"question {name}: noul criteria must be an object with true and false")
    told = criteria or {}
    return [("yes", str(told.get("true") or "")), ("no", str(told.get("false") or ""))]


def _choice(name: str, criteria: object) -> list[tuple[str, str]]:
    if not isinstance(criteria, Mapping) or not criteria:
        raise Refusal(400, f"question {name}: choice criteria must map option names to a description or null")
    return list(starmap(lambda option, meaning: (str(option), str(meaning or "")), criteria.items()))


def _score(name: str, criteria: object) -> list[tuple[str, str]]:
    if not isinstance(criteria, list) or len(criteria) < 2:
        raise Refusal(400, f"question {name}: score criteria must be an ordered list of levels")
    return [(str(level), "") for level in criteria]


_CRITERIA: Mapping[str, Callable[[str, object], list[tuple[str, str]]]] = {
    "noul": _noul,
    "choice": _choice,
    "score": _score,
}


def _message_text(messages: Any) -> str:
    texts = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, str):
            parts = [{"type": "input_text", "text": content}]
        else:
            parts = content
        if any(part.get("type") == "input_image" for part in parts):
            raise invalid(
                {"type": "value_error", "loc": "body.input", "msg": "Decisions supports text input only"}
            )
        texts += [str(part.get("text", "")) for part in parts]
    return "\n".join(texts)
