"""Puts into words what limits a value beyond its type, for a model that is told types only. Pure."""

import json
from collections.abc import Mapping
from typing import Any

MAX_SHOWN_VALUES = 12  # values of a choice that are told in words
MAX_VALUE_CHARS = 60  # characters of one value

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
    """What is to be known about a value of this schema besides its type, a few words each."""
    return [
        words
        for words in (
            *_describe_choices(schema),
            *_describe_sizes(schema),
            *_describe_forms(schema),
            *_describe_hints(schema),
        )
        if words
    ]


def _describe_choices(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("x-options")
    if kinds:
        return ["either " + ", or ".join(dict.fromkeys(_describe_option(each) for each in kinds))[:200]]
    if isinstance(schema.get("type"), list):
        return ["either " + ", or ".join(TYPE_WORDS[kind] for kind in schema["type"])]
    values = [value for value in _list_allowed_values(schema) if value is not None]
    if not values or (all(isinstance(value, str) for value in values) and len(values) <= 60):
        if _is_unrestricted(schema):
            return ["any value"]
        return []
    named = ", ".join(_format_value(value) for value in values[:MAX_SHOWN_VALUES])
    if len(values) == 1:
        return [f"always {named}"]
    return [
        f"one of {named}"
        + (f" and {len(values) - MAX_SHOWN_VALUES} more" if len(values) > MAX_SHOWN_VALUES else "")
    ]


def _describe_option(schema: Mapping[str, Any]) -> str:
    words = describe_limits({keyword: value for keyword, value in schema.items() if keyword != "x-options"})
    kind = TYPE_WORDS.get(str(schema.get("type")), "a value")
    if values := _list_allowed_values(schema):
        return " or ".join(
            json.dumps(value, ensure_ascii=False)[:MAX_VALUE_CHARS] for value in values[:MAX_SHOWN_VALUES]
        )
    if words:
        return f"{kind} ({'; '.join(words)})"
    return kind


def _list_allowed_values(schema: Mapping[str, Any]) -> list[Any]:
    return schema.get("enum") or ([schema["const"]] if "const" in schema else [])


def _is_unrestricted(schema: Mapping[str, Any]) -> bool:
    return not set(schema) - {"description", "nullable", "x-default", "x-example"}


def _describe_sizes(schema: Mapping[str, Any]) -> list[str]:
    low = schema.get("minimum")
    high = schema.get("maximum")
    return [
        _describe_range(low, high, "", ""),
        f"more than {_format_value(schema['exclusiveMinimum'])}" if "exclusiveMinimum" in schema else "",
        f"less than {_format_value(schema['exclusiveMaximum'])}" if "exclusiveMaximum" in schema else "",
        f"a multiple of {_format_value(schema['multipleOf'])}" if "multipleOf" in schema else "",
        _describe_range(schema.get("minLength"), schema.get("maxLength"), " character", "s"),
        _describe_range(schema.get("minItems"), schema.get("maxItems"), " entr", "ies", "y"),
        _describe_range(schema.get("minProperties"), schema.get("maxProperties"), " name", "s"),
        "no two alike" if schema.get("uniqueItems") is True else "",
    ]


def _describe_range(low: Any, high: Any, unit: str, plural_ending: str, singular_ending: str = "") -> str:
    if not low and unit:
        low = None  # at least none of something says nothing
    if low is None and high is None:
        return ""
    last = high if high is not None else low
    if unit:
        unit = unit + (singular_ending if last == 1 else plural_ending)
    else:
        unit = ""
    if low is None:
        return f"at most {_format_value(high)}{unit}"
    if high is None:
        return f"at least {_format_value(low)}{unit}"
    if low == high:
        return f"{_format_value(low)}{unit}"
    return f"{_format_value(low)} to {_format_value(high)}{unit}"


def _describe_forms(schema: Mapping[str, Any]) -> list[str]:
    form = schema.get("format", "")
    pattern = schema.get("pattern", schema.get("x-pattern", ""))
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        each = TYPE_WORDS.get(str(values.get("type")), "a value")
    else:
        each = "a value"
    return [
        "" if form in UNDESCRIBED_FORMATS else FORMAT_WORDS.get(form, f"format {form[:30]}" if form else ""),
        f"fits {pattern}" if pattern and len(pattern) <= MAX_VALUE_CHARS else "",
        f"any names, each {each}" if values and not schema.get("properties") else "",
        f"in one of these forms: {schema['x-forms']}" if schema.get("x-forms") else "",
    ]


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
