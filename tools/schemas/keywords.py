"""Which keywords of JSON Schema are kept when a stranger wrote it, and how their values must look. Pure.

A value that does not look so would break the check of arguments later, in the middle of a turn.
"""

import json
from collections.abc import Callable, Mapping

MAX_ENUM_VALUES = 1000  # entries of an enum
MAX_NUMBER = 1e300  # of a number; beyond, neither floats nor people follow
MAX_VALUE_CHARS = 20_000  # of an enum's or a constant's JSON
JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})

SCHEMA_MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas")
SCHEMA_KEYWORDS = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
SCHEMA_LIST_KEYWORDS = ("prefixItems", "anyOf", "oneOf", "allOf")
# Those that turn around or pick: a part that had to be loosened inside would make them refuse what fits.
STRICT_KEYWORDS = frozenset({"not", "if", "then", "else", "propertyNames", "contains", "dependentSchemas"})
IGNORED_KEYWORDS = frozenset(
    {
        *("$ref", "$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "id", "title"),
        *("externalDocs", "xml", "discriminator", "deprecated", "readOnly", "writeOnly", "nullable"),
        *("default", "example", "examples", "contentEncoding", "contentMediaType", "contentSchema"),
    }
)


def _is_type(value: object) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return 0 < len(kinds) <= len(JSON_TYPES) and all(
        isinstance(kind, str) and kind in JSON_TYPES for kind in kinds
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value >= 0 and float(value).is_integer()


def _is_enum(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_ENUM_VALUES and is_small_json(value)


def is_small_json(value: object) -> bool:
    """Whether a value is JSON, of a size that is worth keeping."""
    try:
        return len(json.dumps(value)) <= MAX_VALUE_CHARS
    except (TypeError, ValueError, RecursionError):  # what YAML knows and JSON does not, rings among it
        return False


def is_name_list(value: object) -> bool:
    """Whether it is a list of names, such as `required`."""
    return (
        isinstance(value, list)
        and len(value) <= MAX_ENUM_VALUES
        and all(isinstance(name, str) for name in value)
    )


def _is_exclusive_bound(value: object) -> bool:
    return isinstance(value, bool) or _is_number(
        value
    )  # OpenAPI 3.0 says only whether the minimum is left out


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
