"""Puts into words what limits a value beyond its type, for a model that is told types only. Pure."""

import json
from collections.abc import Mapping
from typing import Any

NAMED = 12  # values of a choice that are told in words
SHOWN = 60  # characters of one value

KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
FORMATS = {
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
UNTOLD_FORMATS = frozenset({"int32", "int64", "float", "double", "password", "string", "textarea"})


def words_of(schema: Mapping[str, Any]) -> list[str]:
    """What is to be known about a value of this schema besides its type, a few words each."""
    return [
        words for words in (*_choices(schema), *_sizes(schema), *_forms(schema), *_hints(schema)) if words
    ]


def _choices(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("x-options")
    if kinds:
        return ["either " + ", or ".join(dict.fromkeys(_option(each) for each in kinds))[:200]]
    if isinstance(schema.get("type"), list):
        return ["either " + ", or ".join(KINDS[kind] for kind in schema["type"])]
    values = [value for value in _values(schema) if value is not None]
    if not values or (all(isinstance(value, str) for value in values) and len(values) <= 60):
        if _is_free(schema):
            return ["any value"]
        return []
    named = ", ".join(_shown(value) for value in values[:NAMED])
    if len(values) == 1:
        return [f"always {named}"]
    return [f"one of {named}" + (f" and {len(values) - NAMED} more" if len(values) > NAMED else "")]


def _option(schema: Mapping[str, Any]) -> str:
    words = words_of({keyword: value for keyword, value in schema.items() if keyword != "x-options"})
    kind = KINDS.get(str(schema.get("type")), "a value")
    if values := _values(schema):
        return " or ".join(json.dumps(value, ensure_ascii=False)[:SHOWN] for value in values[:NAMED])
    if words:
        return f"{kind} ({'; '.join(words)})"
    return kind


def _values(schema: Mapping[str, Any]) -> list[Any]:
    return schema.get("enum") or ([schema["const"]] if "const" in schema else [])


def _is_free(schema: Mapping[str, Any]) -> bool:
    return not set(schema) - {"description", "nullable", "x-default", "x-example"}


def _sizes(schema: Mapping[str, Any]) -> list[str]:
    low = schema.get("minimum")
    high = schema.get("maximum")
    return [
        _between(low, high, "", ""),
        f"more than {_shown(schema['exclusiveMinimum'])}" if "exclusiveMinimum" in schema else "",
        f"less than {_shown(schema['exclusiveMaximum'])}" if "exclusiveMaximum" in schema else "",
        f"a multiple of {_shown(schema['multipleOf'])}" if "multipleOf" in schema else "",
        _between(schema.get("minLength"), schema.get("maxLength"), " character", "s"),
        _between(schema.get("minItems"), schema.get("maxItems"), " entr", "ies", "y"),
        _between(schema.get("minProperties"), schema.get("maxProperties"), " name", "s"),
        "no two alike" if schema.get("uniqueItems") is True else "",
    ]


def _between(low: Any, high: Any, unit: str, many: str, one: str = "") -> str:
    if not low and unit:
        low = None  # at least none of something says nothing
    if low is None and high is None:
        return ""
    last = high if high is not None else low
    if unit:
        unit = unit + (one if last == 1 else many)
    else:
        unit = ""
    if low is None:
        return f"at most {_shown(high)}{unit}"
    if high is None:
        return f"at least {_shown(low)}{unit}"
    if low == high:
        return f"{_shown(low)}{unit}"
    return f"{_shown(low)} to {_shown(high)}{unit}"


def _forms(schema: Mapping[str, Any]) -> list[str]:
    form = schema.get("format", "")
    pattern = schema.get("pattern", schema.get("x-pattern", ""))
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        each = KINDS.get(str(values.get("type")), "a value")
    else:
        each = "a value"
    return [
        "" if form in UNTOLD_FORMATS else FORMATS.get(form, f"format {form[:30]}" if form else ""),
        f"fits {pattern}" if pattern and len(pattern) <= SHOWN else "",
        f"any names, each {each}" if values and not schema.get("properties") else "",
        f"in one of these forms: {schema['x-forms']}" if schema.get("x-forms") else "",
    ]


def _hints(schema: Mapping[str, Any]) -> list[str]:
    return [
        f"{word} {_shown(schema[keyword])}"
        for keyword, word in (("x-default", "default"), ("x-example", "for example"))
        if keyword in schema
    ]


def _shown(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}…"
