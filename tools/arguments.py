"""Judges the arguments of a call before anything runs: repairs what is surely meant, refuses the rest in one
sentence.

Pure. The endpoint checks neither names nor types, so whatever a model can write may arrive here.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from tools.base import Tool, ToolError

Schema = Mapping[str, Any]

SHOWN = 60  # characters of a wrong value that are told back to the model
QUOTED = re.compile(r"""(["'])((?:(?!\1).)*)\1""", re.DOTALL)
KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class ArgumentsRefused(ToolError):
    """The arguments do not fit; the text tells the model which, and what was expected."""


def check(tool: Tool, arguments: object) -> dict[str, Any]:
    """Arguments a tool may be run with: repaired, with defaults filled in. Raises ArgumentsRefused."""
    if not isinstance(arguments, Mapping):
        raise ArgumentsRefused(f"The arguments of {tool.name} must be an object, not {_shown(arguments)}.")
    schema = tool.input_schema
    if not schema.get("properties") and schema.get("additionalProperties") is None:
        return {}  # a tool that takes nothing cannot be misled by what is sent along
    repaired: dict[str, Any] = _object(arguments, schema)
    _refuse_unknown(tool, repaired)
    try:
        problem = best_match(Draft202012Validator(_with_null(schema)).iter_errors(repaired))
        refusal = _sentence(tool, problem) if problem is not None else ""
    except RecursionError:
        refusal = f"The arguments of {tool.name} are nested too deep."
    if refusal:
        raise ArgumentsRefused(refusal)
    return repaired


def _refuse_unknown(tool: Tool, arguments: Mapping[str, Any]) -> None:
    known = tool.input_schema.get("properties", {})
    unknown = [name for name in arguments if name not in known]
    if unknown and not tool.input_schema.get("additionalProperties"):
        raise ArgumentsRefused(
            f"{tool.name} has no argument {_shown(unknown[0])}; it takes {_listed(known)}."
        )


def _object(value: Any, schema: Schema) -> Any:
    value = _parsed(value, dict)
    if not isinstance(value, Mapping):
        return value
    properties: Schema = schema.get("properties", {})
    required = schema.get("required", ())
    repaired = {name: spec["default"] for name, spec in properties.items() if "default" in spec}
    for key, given in value.items():
        name = _name(key, properties)
        meant = _meant(given, properties.get(name, {}))
        if meant is not None or name in required or name not in properties:
            repaired[name] = meant
    return repaired


def _name(key: Any, properties: Schema) -> str:
    name = _unquoted(str(key)).strip()
    if name in properties:
        return name
    alike = [known for known in properties if known.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    return name


def _meant(value: Any, schema: Schema) -> Any:
    """The value of the schema's type that is surely meant, or the value as it came."""
    if (
        schema.get("nullable") and value == "null"
    ):  # the endpoint's parser writes null so, where text is expected
        return None
    repair = _REPAIRS.get(str(schema.get("type")))
    if repair is None or value is None:
        return value
    return repair(value, schema)


def _string(value: Any, schema: Schema) -> Any:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        return value
    text = _unquoted(value)
    choices = schema.get("enum", ())
    alike = [
        choice for choice in choices if isinstance(choice, str) and choice.lower() == text.strip().lower()
    ]
    if text in choices or len(alike) != 1:
        return text
    return alike[0]


def _integer(value: Any, schema: Schema) -> Any:
    number = _number(value, schema)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def _number(value: Any, _: Schema) -> Any:
    number = value
    if isinstance(value, str):
        try:
            number = json.loads(_unquoted(value))
        except (ValueError, RecursionError):
            return value
    if not isinstance(number, int | float) or isinstance(number, bool):
        return value
    if isinstance(number, float) and not math.isfinite(number):
        return str(value)  # a text is refused; NaN would pass for a number
    return number


def _boolean(value: Any, _: Schema) -> Any:
    word = _unquoted(value).strip().lower() if isinstance(value, str) else ""
    return {"true": True, "false": False}.get(word, value)


def _array(value: Any, schema: Schema) -> Any:
    value = _parsed(value, list)
    items = schema.get("items", {})
    if isinstance(value, list):
        return [_meant(item, items) for item in value]
    return value


_REPAIRS: Mapping[str, Callable[[Any, Schema], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
}


def _parsed(value: Any, kind: type) -> Any:
    """A list or an object that was sent as its JSON text."""
    if not isinstance(value, str):
        return value
    try:
        inner = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(inner, kind):
        return inner
    return value


def _unquoted(text: str) -> str:
    """Text without a second layer of quotes, which the model writes when it takes the call for JSON."""
    quoted = QUOTED.fullmatch(text.strip())
    if quoted:
        return quoted[2]
    return text


def _with_null(schema: Any) -> Any:
    """The same schema in JSON Schema's own words, which do not know `nullable`."""
    if isinstance(schema, list):
        return [_with_null(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    same = {key: _with_null(value) for key, value in schema.items()}
    if schema.get("nullable") is not True:
        return same
    return {"description": schema.get("description", ""), "anyOf": [same, {"type": "null"}]}


def _sentence(tool: Tool, problem: ValidationError) -> str:
    place = ".".join(str(step) for step in problem.absolute_path)
    owner = f"{place} of {tool.name}" if place else tool.name
    if problem.validator == "required":
        if isinstance(problem.schema, Mapping):
            properties = problem.schema.get("properties", {})
        else:
            properties = {}
        needed: Any = problem.validator_value
        given: Any = problem.instance
        missing = next(name for name in needed if name not in given)
        told = properties.get(missing, {}).get("description", "")
        return f"{owner} needs {missing}" + (f": {told.rstrip('.')}." if told else ".")
    if problem.validator == "enum":
        return f"{owner} must be one of {_listed(problem.validator_value)}, not {_shown(problem.instance)}."
    if problem.validator == "type":
        expected = KINDS.get(str(problem.validator_value), str(problem.validator_value))
        return f"{owner} must be {expected}, not {_shown(problem.instance)}."
    return f"{owner} does not fit: {problem.message[:200]}."


def _listed(names: Any) -> str:
    return ", ".join(str(name) for name in names)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}…"
