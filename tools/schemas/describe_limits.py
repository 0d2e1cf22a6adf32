"""Puts into words what limits a value beyond its type, for a model that is shown types only. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from tools.schemas.choices import MAX_SHOWN_NAMES, list_allowed_values

MAX_SHOWN_VALUES = 12  # of a choice
MAX_VALUE_CHARS = 60

TYPE_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
FORMAT_WORDS = {
    "date": "YYYY-MM-DD",
    "date-time": "as 2026-11-20T10:30:00Z",
    "time": "as 10:30:00Z",
    "duration": "as P1DT2H",
    "email": "an e-mail address",
    "uri": "a whole web address",
    "url": "a whole web address",
    "uuid": "a UUID",
    "hostname": "a host's name",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
    "byte": "base64",
    "binary": "base64",
}
UNDESCRIBED_FORMATS = frozenset({"int32", "int64", "float", "double", "password", "string", "textarea"})


def describe_limits(schema: Mapping[str, Any]) -> list[str]:
    """What limits a value of this schema beyond its type, a few words each."""
    return [
        *_describe_choices(schema),
        *_describe_sizes(schema),
        *_describe_forms(schema),
        *_describe_hints(schema),
    ]


def _describe_choices(schema: Mapping[str, Any]) -> list[str]:
    options = schema.get("x-options")
    if options:
        descriptions = dict.fromkeys(_describe_option(option) for option in options)
        return ["either " + ", or ".join(descriptions)[:200]]
    if isinstance(schema.get("type"), list):
        return ["either " + ", or ".join(TYPE_WORDS[kind] for kind in schema["type"])]
    values = [value for value in list_allowed_values(schema) if value is not None]
    is_rendered = all(isinstance(value, str) for value in values) and len(values) <= MAX_SHOWN_NAMES
    if not values or is_rendered:
        return ["any value"] if _is_unrestricted(schema) else []
    shown = ", ".join(_format_value(value) for value in values[:MAX_SHOWN_VALUES])
    if len(values) == 1:
        return [f"always {shown}"]
    if len(values) > MAX_SHOWN_VALUES:
        return [f"one of {shown} and {len(values) - MAX_SHOWN_VALUES} more"]
    return [f"one of {shown}"]


def _describe_option(schema: Mapping[str, Any]) -> str:
    limits = describe_limits({keyword: value for keyword, value in schema.items() if keyword != "x-options"})
    kind = TYPE_WORDS.get(str(schema.get("type")), "a value")
    if values := list_allowed_values(schema):
        return " or ".join(
            json.dumps(value, ensure_ascii=False)[:MAX_VALUE_CHARS] for value in values[:MAX_SHOWN_VALUES]
        )
    if limits:
        return f"{kind} ({'; '.join(limits)})"
    return kind


def _is_unrestricted(schema: Mapping[str, Any]) -> bool:
    return not set(schema) - {"description", "nullable", "x-default", "x-example"}


def _describe_sizes(schema: Mapping[str, Any]) -> list[str]:
    limits = [_describe_range(schema.get("minimum"), schema.get("maximum"))]
    for keyword, words in (
        ("exclusiveMinimum", "more than"),
        ("exclusiveMaximum", "less than"),
        ("multipleOf", "a multiple of"),
    ):
        if keyword in schema:
            limits.append(f"{words} {_format_value(schema[keyword])}")
    limits += [
        _describe_count(schema.get("minLength"), schema.get("maxLength"), "character", "characters"),
        _describe_count(schema.get("minItems"), schema.get("maxItems"), "entry", "entries"),
        _describe_count(schema.get("minProperties"), schema.get("maxProperties"), "name", "names"),
    ]
    if schema.get("uniqueItems") is True:
        limits.append("no two alike")
    return [limit for limit in limits if limit]


def _describe_count(low: Any, high: Any, singular: str, plural: str) -> str:
    count_range = _describe_range(low or None, high)  # a minimum of zero limits nothing
    if not count_range:
        return ""
    last = high if high is not None else low
    unit = singular if last == 1 else plural
    return f"{count_range} {unit}"


def _describe_range(low: Any, high: Any) -> str:
    if low is None and high is None:
        return ""
    if low is None:
        return f"at most {_format_value(high)}"
    if high is None:
        return f"at least {_format_value(low)}"
    if low == high:
        return _format_value(low)
    return f"{_format_value(low)} to {_format_value(high)}"


def _describe_forms(schema: Mapping[str, Any]) -> list[str]:
    forms = []
    value_format = schema.get("format", "")
    if value_format and value_format not in UNDESCRIBED_FORMATS:
        forms.append(FORMAT_WORDS.get(value_format, f"format {value_format[:30]}"))
    pattern = schema.get("pattern", schema.get("x-pattern", ""))
    if pattern and len(pattern) <= MAX_VALUE_CHARS:
        forms.append(f"fits {pattern}")
    values = schema.get("additionalProperties")
    if values and not schema.get("properties"):
        forms.append(f"any names, each {_describe_type(values)}")
    if schema.get("x-forms"):
        forms.append(f"in one of these forms: {schema['x-forms']}")
    return forms


def _describe_type(schema: Any) -> str:
    if isinstance(schema, Mapping):
        return TYPE_WORDS.get(str(schema.get("type")), "a value")
    return "a value"


def _describe_hints(schema: Mapping[str, Any]) -> list[str]:
    return [
        f"{word} {_format_value(schema[keyword])}"
        for keyword, word in (("x-default", "default"), ("x-example", "for example"))
        if keyword in schema
    ]


def _format_value(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) <= MAX_VALUE_CHARS:
        return text
    return f"{text[:MAX_VALUE_CHARS]}…"
