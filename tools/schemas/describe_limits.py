"""Puts into words what limits a value beyond its type, for a model that is shown types only. Pure."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tools.safety.plain_text import cut_text
from tools.schemas.choices import flatten_choice, infer_type
from tools.schemas.kinds import list_allowed_values

MAX_VALUE_CHARS = 60
MAX_OPTIONS_CHARS = 400  # of the options of a choice
MAX_MEANING_CHARS = 30  # of what one value of a choice means
MAX_MAP_NAMES = 12  # of an object under any name
MAX_FORMS_CHARS = 400  # of which names go together

TYPE_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
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


def describe_choices(schema: Mapping[str, Any], max_values: int) -> list[str]:
    """What may be chosen, a few words each, where the template does not render it."""
    options = schema.get("x-options")
    if options:
        descriptions = dict.fromkeys(_describe_option(option, max_values) for option in options)
        return ["either " + _cut(", or ".join(descriptions), MAX_OPTIONS_CHARS)]
    if isinstance(schema.get("type"), list):
        return ["either " + ", or ".join(TYPE_WORDS[kind] for kind in schema["type"])]
    values = [value for value in list_allowed_values(schema) if value is not None]
    values = list(dict.fromkeys(map(_format_value, values)))
    if not values:
        return ["any value"] if _is_unrestricted(schema) else []
    if len(values) == 1:
        return [f"always {values[0]}"]
    return [f"one of {', '.join(values[:max_values])}{_count_rest(values, max_values)}"]


def describe_limits(schema: Mapping[str, Any]) -> list[str]:
    """What else limits a value of this schema beyond its type, a few words each."""
    return [*_describe_sizes(schema), *_describe_forms(schema), *_describe_hints(schema)]


def describe_names(properties: Iterable[str], required: Collection[str], max_names: int) -> str:
    """The names of an object in words: all that are required, and as many others."""
    needed = [name for name in properties if name in required]
    others = [name for name in properties if name not in required]
    parts = [f"needs {', '.join(needed)}"] if needed else []
    shown = others[:max_names]
    if shown:
        more = f" and {len(others) - len(shown)} more" if len(others) > len(shown) else ""
        parts.append(f"takes {', '.join(shown)}{more}")
    elif others and not needed:
        parts.append(f"takes {len(others)} names")
    return " and ".join(parts)


def _describe_option(schema: Mapping[str, Any], max_values: int) -> str:
    if values := list_allowed_values(schema):
        meaning = _cut(schema.get("description", ""), MAX_MEANING_CHARS)
        return (
            " or ".join(
                json.dumps(value, ensure_ascii=False)[:MAX_VALUE_CHARS] for value in values[:max_values]
            )
            + _count_rest(values, max_values)
            + (f" ({meaning})" if meaning else "")
        )
    limits = describe_limits({keyword: value for keyword, value in schema.items() if keyword != "x-options"})
    kind = TYPE_WORDS.get(str(schema.get("type")), "a value")
    if limits:
        return f"{kind} ({'; '.join(limits)})"
    return kind


def _count_rest(values: Sequence[Any], max_values: int) -> str:
    if len(values) <= max_values:
        return ""
    return f" and {len(values) - max_values} more"


def _cut(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars].rstrip()}…"


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
        forms.append(f"any names, each {describe_type(values, MAX_MAP_NAMES)}")
    if schema.get("x-forms"):
        forms.append(_cut(schema["x-forms"], MAX_FORMS_CHARS))
    return forms


def describe_type(schema: Any, max_names: int) -> str:
    """What a value of this schema is, with the names of objects in it."""
    if not isinstance(schema, Mapping) or not schema:
        return "a value"
    schema = flatten_choice(schema)
    kind = infer_type(schema)
    names = schema.get("properties")
    if kind == "object" and names:
        return f"an object that {describe_names(names, schema.get('required', ()), max_names)}"
    if kind == "array" and schema.get("items"):
        return f"a list, each {describe_type(schema['items'], max_names)}"
    return TYPE_WORDS[kind]


def _describe_hints(schema: Mapping[str, Any]) -> list[str]:
    return [
        f"{word} {_format_value(schema[keyword])}"
        for keyword, word in (("x-default", "default"), ("x-example", "for example"))
        if keyword in schema
    ]


def _format_value(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut_text(text, MAX_VALUE_CHARS)
