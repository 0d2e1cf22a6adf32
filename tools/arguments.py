"""Checks the arguments of a call before anything runs: repairs what is clearly meant, refuses the rest.

Pure. The endpoint checks neither names nor types, so anything a model can write may arrive here. A refusal is
one sentence for the model.
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

MAX_SHOWN_CHARS = 60  # of a wrong value, quoted back to the model
QUOTED_TEXT = re.compile(r"""(["'])((?:(?!\1).)*)\1""", re.DOTALL)
TYPE_WORDS = {
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


def check_arguments(tool: Tool, arguments: object) -> dict[str, Any]:
    """Arguments a tool may be run with: repaired, with defaults filled in. Raises ArgumentsRefused."""
    if not isinstance(arguments, Mapping):
        raise ArgumentsRefused(
            f"The arguments of {tool.name} must be an object, not {_format_value(arguments)}."
        )
    schema = tool.input_schema
    if not schema.get("properties") and schema.get("additionalProperties") is None:
        return {}  # a tool without arguments ignores what is sent along
    repaired: dict[str, Any] = _repair_object(arguments, schema)
    _refuse_unknown(tool, repaired)
    problem = _find_problem(tool, repaired)
    if problem is not None:
        raise ArgumentsRefused(problem)
    return repaired


def _find_problem(tool: Tool, arguments: dict[str, Any]) -> str | None:
    try:
        validator = Draft202012Validator(_expand_nullable(tool.input_schema))
        error = best_match(validator.iter_errors(arguments))
        if error is None:
            return None
        return _describe_problem(tool, error)
    except RecursionError:
        return f"The arguments of {tool.name} are nested too deep."


def _refuse_unknown(tool: Tool, arguments: Mapping[str, Any]) -> None:
    properties = tool.input_schema.get("properties", {})
    unknown = [name for name in arguments if name not in properties]
    if unknown and not tool.input_schema.get("additionalProperties"):
        raise ArgumentsRefused(
            f"{tool.name} has no argument {_format_value(unknown[0])}; it takes {_join_names(properties)}."
        )


def _repair_object(value: Any, schema: Schema) -> Any:
    value = _parse_json_text(value, dict)
    if not isinstance(value, Mapping):
        return value
    properties: Schema = schema.get("properties", {})
    required = schema.get("required", ())
    repaired = {name: spec["default"] for name, spec in properties.items() if "default" in spec}
    for key, raw_value in value.items():
        name = _match_name(key, properties)
        repaired_value = _repair_value(raw_value, properties.get(name, {}))
        if repaired_value is not None or name in required or name not in properties:
            repaired[name] = repaired_value
    return repaired


def _match_name(key: Any, properties: Schema) -> str:
    name = _strip_quotes(str(key)).strip()
    if name in properties:
        return name
    alike = [property_name for property_name in properties if property_name.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    return name


def _repair_value(value: Any, schema: Schema) -> Any:
    """The value of the schema's type that is clearly meant, or the value unchanged."""
    # The endpoint's parser writes null as text where text is expected.
    if schema.get("nullable") and value == "null":
        return None
    repair = _REPAIRS.get(str(schema.get("type")))
    if repair is None or value is None:
        return value
    return repair(value, schema)


def _repair_string(value: Any, schema: Schema) -> Any:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        return value
    text = _strip_quotes(value)
    choices = schema.get("enum", ())
    alike = [
        choice for choice in choices if isinstance(choice, str) and choice.lower() == text.strip().lower()
    ]
    if text in choices or len(alike) != 1:
        return text
    return alike[0]


def _repair_integer(value: Any, schema: Schema) -> Any:
    number = _repair_number(value, schema)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def _repair_number(value: Any, _: Schema) -> Any:
    number = value
    if isinstance(value, str):
        try:
            number = json.loads(_strip_quotes(value))
        except (ValueError, RecursionError):
            return value
    if not isinstance(number, int | float) or isinstance(number, bool):
        return value
    if isinstance(number, float) and not math.isfinite(number):
        return str(value)  # text is refused; NaN would pass for a number
    return number


def _repair_boolean(value: Any, _: Schema) -> Any:
    if not isinstance(value, str):
        return value
    word = _strip_quotes(value).strip().lower()
    return {"true": True, "false": False}.get(word, value)


def _repair_array(value: Any, schema: Schema) -> Any:
    value = _parse_json_text(value, list)
    items = schema.get("items", {})
    if isinstance(value, list):
        return [_repair_value(item, items) for item in value]
    return value


_REPAIRS: Mapping[str, Callable[[Any, Schema], Any]] = {
    "string": _repair_string,
    "integer": _repair_integer,
    "number": _repair_number,
    "boolean": _repair_boolean,
    "array": _repair_array,
    "object": _repair_object,
}


def _parse_json_text(value: Any, expected_type: type) -> Any:
    """The list or object that was sent as its JSON text; other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        inner = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(inner, expected_type):
        return inner
    return value


def _strip_quotes(text: str) -> str:
    """Text without a second layer of quotes, which the model writes when it takes the call for JSON."""
    quoted = QUOTED_TEXT.fullmatch(text.strip())
    if quoted:
        return quoted[2]
    return text


def _expand_nullable(schema: Any) -> Any:
    """The same schema in standard JSON Schema, which has no `nullable`."""
    if isinstance(schema, list):
        return [_expand_nullable(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    expanded = {key: _expand_nullable(value) for key, value in schema.items()}
    if schema.get("nullable") is not True:
        return expanded
    return {"description": schema.get("description", ""), "anyOf": [expanded, {"type": "null"}]}


def _describe_problem(tool: Tool, problem: ValidationError) -> str:
    path = ".".join(str(step) for step in problem.absolute_path)
    owner = f"{path} of {tool.name}" if path else tool.name
    match problem.validator:
        case "required":
            return _describe_missing(owner, problem)
        case "enum":
            choices = _join_names(problem.validator_value)
            return f"{owner} must be one of {choices}, not {_format_value(problem.instance)}."
        case "type":
            expected = TYPE_WORDS.get(str(problem.validator_value), str(problem.validator_value))
            return f"{owner} must be {expected}, not {_format_value(problem.instance)}."
    return f"{owner} does not fit: {problem.message[:200]}."


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


def _join_names(names: Any) -> str:
    return ", ".join(str(name) for name in names)


def _format_value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]}…"
