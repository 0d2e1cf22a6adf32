"""Says in one sentence for the model why arguments do not fit their schema. Pure."""

import difflib
import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jsonschema.exceptions import ValidationError, relevance

from tools.safety.plain_text import cut_text
from tools.schemas.choices import flatten_choice
from tools.schemas.describe_limits import TYPE_WORDS, describe_choices
from tools.schemas.options import find_nearest_option, find_object_kinds, find_option

MAX_SHOWN_CHARS = 60  # of a wrong value, quoted back to the model
MAX_NAMED_CHOICES = 12  # of more, only the nearest are named
MAX_NEAR_CHOICES = 3
MAX_COMPARED_CHOICES = 30
MIN_LIKENESS = 0.4

_CHOICES = ("anyOf", "oneOf")


def describe_problem(tool_name: str, errors: Iterable[ValidationError]) -> str | None:
    """The reason that helps most, of all that does not fit; None: everything does."""
    first = max(errors, key=relevance, default=None)
    if first is None:
        return None
    problem = _find_cause(first)
    steps = [str(step) for step in problem.absolute_path]
    owner = _format_owner(steps, tool_name)
    match problem.validator:
        case "required":
            return _describe_missing(owner, problem)
        case "enum":
            return _describe_wrong_choice(owner, problem.validator_value, problem.instance)
        case "const":
            return _describe_wrong_choice(owner, [problem.validator_value], problem.instance)
        case "type":
            expected = _join_types(problem.validator_value)
            return f"{owner} must be {expected}, not {format_value(problem.instance)}."
        case "additionalProperties":
            return _describe_unknown(owner, problem)
        case "anyOf" | "oneOf":
            return _describe_wrong_kind(steps, tool_name, problem) or _describe_no_option(owner, problem)
    return f"{owner} does not fit: {problem.message[:200]}."


def _format_owner(steps: Sequence[str], tool_name: str) -> str:
    if not steps:
        return tool_name
    return f"{'.'.join(steps)} of {tool_name}"


def _find_cause(problem: ValidationError) -> ValidationError:
    """What is wrong within the option that was meant, where a choice does not fit."""
    while problem.validator in _CHOICES and problem.context:
        options: Any = problem.validator_value
        place = _find_meant_option(problem.instance, options)
        causes = [error for error in problem.context if error.schema_path[0] == place]
        if not causes:
            return problem
        problem = max(causes, key=relevance)
    return problem


def _find_meant_option(value: object, options: Sequence[Mapping[str, Any]]) -> int | None:
    """The option of this kind; else the only one that is not null, or the nearest of several objects."""
    place = find_option(value, options)
    if place is not None:
        return place
    others = [place for place, option in enumerate(options) if option != {"type": "null"}]
    if len(others) == 1:
        return others[0]
    if isinstance(value, Mapping) and find_object_kinds(options) is None:
        return find_nearest_option(value, options)
    return None


def _describe_missing(owner: str, problem: ValidationError) -> str:
    properties: Any = {}
    if isinstance(problem.schema, Mapping):
        properties = problem.schema.get("properties", {})
    required: Any = problem.validator_value
    arguments: Any = problem.instance
    missing = next(name for name in required if name not in arguments)
    description = properties.get(missing, {}).get("description", "")
    if description:
        return f"{owner} needs {missing}: {description.rstrip('.')}."
    return f"{owner} needs {missing}."


def _describe_wrong_choice(owner: str, choices: Any, value: object) -> str:
    shown_value = format_value(value)
    names = [_spell(choice) for choice in choices]
    if len(names) <= MAX_NAMED_CHOICES:
        return f"{owner} must be one of {', '.join(names)}, not {shown_value}."
    near = _find_near(str(value), names)
    if near:
        return f"{owner} must be one of {len(names)} choices, not {shown_value}; near it: {', '.join(near)}."
    some = ", ".join(names[:MAX_NEAR_CHOICES])
    return f"{owner} must be one of {len(names)} choices, such as {some}, not {shown_value}."


def _find_near(word: str, names: Sequence[str]) -> list[str]:
    """The names that a word is most like."""
    word = word[:MAX_SHOWN_CHARS]
    pieces = {word[place : place + 3] for place in range(len(word))}
    # Comparing a word with a thousand names letter by letter takes 25 ms.
    candidates = heapq.nlargest(
        MAX_COMPARED_CHOICES, names, key=lambda name: sum(piece in name[:MAX_SHOWN_CHARS] for piece in pieces)
    )
    return difflib.get_close_matches(word, candidates, MAX_NEAR_CHOICES, MIN_LIKENESS)


def _describe_unknown(owner: str, problem: ValidationError) -> str:
    schema: Any = problem.schema
    arguments: Any = problem.instance
    properties = schema.get("properties", {})
    unknown = next((name for name in arguments if name not in properties), "")
    return format_unknown_name(owner, unknown, properties)


def format_unknown_name(owner: str, name: str, known_names: Iterable[str]) -> str:
    """The sentence about a name that is not known."""
    names = list(known_names)
    if not names:
        return f"{owner} has no argument {format_value(name)}; it takes none."
    rest = ""
    if len(names) > MAX_NAMED_CHOICES:
        shown = _find_near(name, names) or names[:MAX_NEAR_CHOICES]
        rest = f" and {len(names) - len(shown)} more"
        names = shown
    return f"{owner} has no argument {format_value(name)}; it takes {', '.join(names)}{rest}."


def _describe_wrong_kind(steps: Sequence[str], tool_name: str, problem: ValidationError) -> str | None:
    """What is wrong with the kind of an object that is one of several kinds."""
    options: Any = problem.validator_value
    kinds = find_object_kinds(options)
    if kinds is None or not isinstance(problem.instance, Mapping):
        return None
    values = kinds.list_values()
    if kinds.name in problem.instance:
        owner = _format_owner([*steps, kinds.name], tool_name)
        return _describe_wrong_choice(owner, values, problem.instance[kinds.name])
    some = ", ".join(map(_spell, values[:MAX_NAMED_CHOICES]))
    return f"{_format_owner(steps, tool_name)} needs {kinds.name}: one of {some}."


def _describe_no_option(owner: str, problem: ValidationError) -> str:
    schema: Any = problem.schema
    words = describe_choices(flatten_choice(schema), MAX_NAMED_CHOICES)
    value = format_value(problem.instance)
    if words:
        return f"{owner} must be {words[0]}, not {value}."
    return f"{owner} fits none of its forms: {value}."


def _join_types(types: Any) -> str:
    names = types if isinstance(types, list) else [types]
    return " or ".join(TYPE_WORDS.get(str(name), str(name)) for name in names)


def _spell(choice: object) -> str:
    if isinstance(choice, str) and choice:
        return choice
    return json.dumps(choice, ensure_ascii=False, default=str)


def format_value(value: object) -> str:
    """A value as a refusal quotes it: as JSON, cut."""
    return cut_text(json.dumps(value, ensure_ascii=False, default=str), MAX_SHOWN_CHARS)
