"""Repairs arguments by their schema: to the values that are clearly meant. Pure.

The endpoint's parser writes texts wherever it was told no type: in maps, in choices between types, in free
objects, and in all that `use_tool` is given. The checked schema says there what is meant. Where it takes both
a text and something else, what is spelled as the other is the other. Where it says nothing at all, a text
becomes a number, true, false or null if it is spelled exactly as JSON spells that, with MAX_UNTYPED_DIGITS
digits at most: `5`, `2.5`, but neither `05`, `+49`, `1.10` nor a longer number. A text where only text may be
stays text.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from tools.schemas.kinds import list_allowed_values
from tools.schemas.options import (
    CLOSED,
    expand_nullable,
    find_nearest_option,
    find_option,
    find_type,
    list_options,
    match_choice,
    strip_quotes,
)

Schema = Mapping[str, Any]

MAX_TRIALS = 1000  # of options that a value is tried as, in one call: each has to be checked
MAX_UNTYPED_DIGITS = 15  # more are an identifier, and some readers of JSON would round them

_UNTYPED: Schema = {}
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
# Which option of a choice a text is tried as first: what is spelled most strictly.
_OPTION_ORDER = ("null", "integer", "number", "boolean", "array", "object", "string")


def repair_object(value: object, schema: Schema) -> Any:
    """The object with its names and values repaired, and with defaults; what is no object is unchanged.

    A default of our own fills in what is missing, one of a stranger only what is required.
    """
    return _Repairer().repair_object(value, schema)


class _Repairer:
    """Repairs the arguments of one call."""

    def __init__(self) -> None:
        self._trials_left = MAX_TRIALS
        self._options: dict[int, list[tuple[Schema, Draft202012Validator]]] = {}

    def repair_object(self, value: Any, schema: Schema) -> Any:
        value = _parse_json_text(value, dict)
        if not isinstance(value, Mapping):
            return value
        properties: Schema = schema.get("properties", {})
        required = schema.get("required", ())
        repaired = _list_defaults(properties, required)
        for key, raw_value in value.items():
            name = _match_name(key, properties)
            value_schema = properties[name] if name in properties else _find_open_schema(name, schema)
            repaired_value = self._repair_value(raw_value, value_schema)
            is_wanted = repaired_value is not None or name in required or name not in properties
            if is_wanted or properties[name].get("nullable") is True:
                repaired[name] = repaired_value
        return repaired

    def _repair_value(self, value: Any, schema: Schema) -> Any:
        """The value of the schema's type that is clearly meant, or the value unchanged."""
        # The endpoint's parser writes null as text where text is expected.
        if schema.get("nullable") is True and value == "null":
            return None
        if value is None or schema == CLOSED:
            return value
        options = self._list_options(schema)
        if options:
            return self._repair_choice(value, options)
        match find_type(schema):
            case "object":
                return self.repair_object(value, schema)
            case "array":
                return self._repair_array(value, schema)
            case kind:
                return _REPAIRS.get(kind, _repair_untyped)(value, schema)

    def _repair_array(self, value: Any, schema: Schema) -> Any:
        value = _parse_json_text(value, list)
        items = schema.get("items", {})
        if isinstance(value, list) and isinstance(items, Mapping):
            return [self._repair_value(item, items) for item in value]
        return value

    def _list_options(self, schema: Schema) -> list[tuple[Schema, Draft202012Validator]]:
        """The options of a choice, each with what checks it; made once for all entries of a list.

        Every schema that comes here outlives the call, so its id names it.
        """
        options = self._options.get(id(schema))
        if options is None:
            options = [
                (option, Draft202012Validator(expand_nullable(option))) for option in list_options(schema)
            ]
            self._options[id(schema)] = options
        return options

    def _repair_choice(self, value: Any, options: Sequence[tuple[Schema, Draft202012Validator]]) -> Any:
        schemas = [schema for schema, _ in options]
        place = find_option(value, schemas)
        if place is not None:
            return self._repair_value(value, schemas[place])
        is_typed = isinstance(value, bool | int | float)
        if is_typed and any(validator.is_valid(value) for _, validator in options):
            return value
        for schema, validator in sorted(options, key=_order_for_text):
            self._trials_left -= 1
            if self._trials_left < 0:
                return value
            repaired = self._repair_value(value, schema)
            if validator.is_valid(repaired):
                return repaired
        return self._repair_value(value, schemas[find_nearest_option(value, schemas)])


def _order_for_text(option: tuple[Schema, object]) -> tuple[int, int]:
    schema, _ = option
    items = schema.get("items")
    inner = _rank_type(items) if isinstance(items, Mapping) else 0
    return _rank_type(schema), inner


def _rank_type(schema: Schema) -> int:
    kind = find_type(schema)
    if kind in _OPTION_ORDER:
        return _OPTION_ORDER.index(kind)
    return len(_OPTION_ORDER)


def _list_defaults(properties: Schema, required: Collection[str]) -> dict[str, Any]:
    defaults = {name: spec["default"] for name, spec in properties.items() if "default" in spec}
    for name in required:
        if "x-default" in properties.get(name, {}):
            defaults.setdefault(name, properties[name]["x-default"])
    return defaults


def _find_open_schema(name: str, schema: Schema) -> Schema:
    """What values of a name must fit that is none of the properties."""
    for pattern, inner in schema.get("patternProperties", {}).items():
        if re.search(pattern, name):
            return inner  # type: ignore[no-any-return]
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        return others
    return _UNTYPED


def _match_name(key: Any, properties: Schema) -> str:
    name = strip_quotes(str(key)).strip()
    if name in properties:
        return name
    alike = [property_name for property_name in properties if property_name.strip().lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    return name


def _repair_string(value: Any, schema: Schema) -> Any:
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if not isinstance(value, str):
        return value
    choices = list_allowed_values(schema)
    if value in choices:
        return value
    return match_choice(strip_quotes(value), choices)


def _repair_enum(value: Any, schema: Schema) -> Any:
    return match_choice(value, list_allowed_values(schema))


def _repair_integer(value: Any, schema: Schema) -> Any:
    number = _repair_number(value, schema)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def _repair_number(value: Any, _: Schema) -> Any:
    number = value
    if isinstance(value, str):
        try:
            number = json.loads(strip_quotes(value))
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
    word = strip_quotes(value).strip().lower()
    return {"true": True, "false": False}.get(word, value)


def _repair_untyped(value: Any, _: Schema) -> Any:
    """A text that spells a number, true, false or null as JSON does becomes that, also inside."""
    if isinstance(value, list):
        return [_repair_untyped(item, {}) for item in value]
    if isinstance(value, Mapping):
        return {key: _repair_untyped(item, {}) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if value in ("true", "false", "null"):
        return json.loads(value)
    if len(value) > MAX_UNTYPED_DIGITS + 2 or not _PLAIN_NUMBER.fullmatch(value):
        return value
    if sum(character.isdigit() for character in value) > MAX_UNTYPED_DIGITS:
        return value
    return _read_exact_number(value)


def _read_exact_number(text: str) -> Any:
    try:
        number = json.loads(text)
    except ValueError:  # 05
        return text
    if json.dumps(number) == text:
        return number
    return text


_REPAIRS: Mapping[str, Callable[[Any, Schema], Any]] = {
    "string": _repair_string,
    "enum": _repair_enum,
    "integer": _repair_integer,
    "number": _repair_number,
    "boolean": _repair_boolean,
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
