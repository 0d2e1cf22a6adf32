"""The keywords of JSON Schema that are kept of a stranger's schema, and what their values must be. Pure.

Any other value would break the check of arguments later, in the middle of a turn.
"""

import json
from collections.abc import Callable, Mapping

MAX_ENUM_VALUES = 1000
MAX_NUMBER = 1e300  # larger ones overflow floats in calculations
MAX_VALUE_CHARS = 20_000  # of the JSON of an enum or a constant
JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})

SCHEMA_MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas")
SCHEMA_KEYWORDS = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
SCHEMA_LIST_KEYWORDS = ("prefixItems", "anyOf", "oneOf", "allOf")
# Keywords that negate or select: if a schema inside them is loosened, they refuse what fits.
STRICT_KEYWORDS = frozenset({"not", "if", "then", "else", "propertyNames", "contains", "dependentSchemas"})
IGNORED_KEYWORDS = frozenset(
    {
        *("$ref", "$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "id", "title"),
        *("externalDocs", "xml", "discriminator", "deprecated", "readOnly", "writeOnly", "nullable"),
        *("default", "example", "examples", "contentEncoding", "contentMediaType", "contentSchema"),
    }
)


def _is_type(value: object) -> bool:
    types = value if isinstance(value, list) else [value]
    if not 0 < len(types) <= len(JSON_TYPES):
        return False
    return all(isinstance(name, str) and name in JSON_TYPES for name in types)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value >= 0 and float(value).is_integer()


def _is_enum(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_ENUM_VALUES and is_small_json(value)


def is_small_json(value: object) -> bool:
    """Whether a value is JSON of at most MAX_VALUE_CHARS characters."""
    try:
        return len(json.dumps(value)) <= MAX_VALUE_CHARS
    except (TypeError, ValueError, RecursionError):  # YAML has values that JSON has not, cycles among them
        return False


def is_name_list(value: object) -> bool:
    """Whether it is a list of names, such as `required`."""
    return (
        isinstance(value, list)
        and len(value) <= MAX_ENUM_VALUES
        and all(isinstance(name, str) for name in value)
    )


def _is_exclusive_bound(value: object) -> bool:
    # OpenAPI 3.0 has a boolean here: whether `minimum` itself is excluded.
    return isinstance(value, bool) or _is_number(value)


VALUE_CHECKS: Mapping[str, Callable[[object], bool]] = {
    "type": _is_type,
    "enum": _is_enum,
    "const": is_small_json,
    "multipleOf": lambda value: _is_number(value) and value > 0,  # type: ignore[operator]
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _is_exclusive_bound),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count
    ),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    "uniqueItems": lambda value: isinstance(value, bool),
    "pattern": lambda value: isinstance(value, str),
    "format": lambda value: isinstance(value, str),
    "description": lambda value: isinstance(value, str),
    "required": is_name_list,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(is_name_list, value.values())),
}
