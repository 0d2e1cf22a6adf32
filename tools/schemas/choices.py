"""Turns a choice between schemas into one schema that the model's template can render. Pure.

What is lost is kept under `x-forms` and `x-options`, which `describe_limits` puts into words.
"""

from collections.abc import Mapping
from typing import Any

from tools.safety.injection import neutralize

MAX_SHOWN_NAMES = 60  # of an enum, shown to the model

Schema = dict[str, Any]


def merge_options(rest: Schema, options: list[Schema]) -> Schema:
    """One schema for `rest`, the other keywords, together with this choice of options."""
    if all("properties" in option for option in options):
        return _merge_object_options(rest, options)
    return _merge_simple_options(rest, options)


def _merge_object_options(rest: Schema, options: list[Schema]) -> Schema:
    """All properties of all options; required is what every option requires."""
    properties = {
        name: inner
        for option in (*reversed(options), rest)
        for name, inner in option.get("properties", {}).items()
    }
    always = set.intersection(*(set(option.get("required", ())) for option in options))
    forms = " or ".join(", ".join(option.get("required") or option["properties"]) for option in options)
    return {
        **rest,
        "properties": properties,
        "required": [*rest.get("required", ()), *sorted(always)],
        "x-forms": forms[:200],
    }


def _merge_simple_options(rest: Schema, options: list[Schema]) -> Schema:
    """One type for everything that can be written as it, and the options in words.

    Options that are all names become one enum.
    """
    names = [name for option in options for name in list_enum_names(option)]
    if names and all(list_enum_names(option) for option in options):
        return {**rest, "type": "string", "enum": list(dict.fromkeys(names))}
    kinds = list(dict.fromkeys(infer_type(option) for option in options))
    container = next((option for option in options if infer_type(option) in ("object", "array")), options[0])
    structure = {k: v for k, v in container.items() if k in ("items", "properties", "required")}
    typed_options = [{"type": infer_type(option), **option} for option in options]
    return {**structure, **rest, "type": kinds, "x-options": typed_options}


def infer_type(schema: Mapping[str, Any]) -> str:
    """The one type that is rendered: the schema's own, the widest of several, or what its keywords imply."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        if kinds == "null":
            return "string"
        return kinds
    if kinds:
        return next(
            kind for kind in ("object", "array", "string", "number", "integer", "boolean") if kind in kinds
        )
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    return _infer_type_of_values(schema)


def list_allowed_values(schema: Mapping[str, Any]) -> list[Any]:
    """The values of an enum or a constant; none when the schema has neither."""
    if schema.get("enum"):
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    return []


def _infer_type_of_values(schema: Mapping[str, Any]) -> str:
    values = list_allowed_values(schema)
    if values and all(isinstance(value, bool) for value in values):
        return "boolean"
    if values and all(isinstance(value, int) for value in values):
        return "integer"
    if "minimum" in schema or "maximum" in schema or "multipleOf" in schema:
        return "number"
    return "string"


def list_enum_names(schema: Mapping[str, Any]) -> list[str]:
    """The choices of a value when all of them are strings that can be shown, else none."""
    values = [value for value in list_allowed_values(schema) if value is not None]
    if len(values) > MAX_SHOWN_NAMES:
        return []
    if not all(isinstance(value, str) and neutralize(value) == value for value in values):
        return []
    return values
