"""How a value of several kinds becomes one that the model's template can render, with the rest in words.
Pure.
"""

from collections.abc import Mapping
from typing import Any

from tools.safety.injection import neutralize

MAX_SHOWN_NAMES = 60  # of an enum that are told

Schema = dict[str, Any]


def merge_options(rest: Schema, options: list[Schema]) -> Schema:
    """A schema without a choice for one that has this choice beside its other keywords."""
    if all("properties" in each for each in options):
        return _merge_object_options(rest, options)
    return _merge_simple_options(rest, options)


def _merge_object_options(rest: Schema, options: list[Schema]) -> Schema:
    """All properties of all options; needed is what every option needs."""
    properties = {
        name: inner
        for each in (*reversed(options), rest)
        for name, inner in each.get("properties", {}).items()
    }
    always = set.intersection(*(set(each.get("required", ())) for each in options))
    forms = " or ".join(", ".join(each.get("required") or each["properties"]) for each in options)
    return {
        **rest,
        "properties": properties,
        "required": [*rest.get("required", ()), *sorted(always)],
        "x-forms": forms[:200],
    }


def _merge_simple_options(rest: Schema, options: list[Schema]) -> Schema:
    """One type for all that can be written as it, and the options in words; names of all options together."""
    names = [name for each in options for name in list_enum_names(each)]
    if names and all(list_enum_names(each) for each in options):
        return {**rest, "type": "string", "enum": list(dict.fromkeys(names))}
    kinds = list(dict.fromkeys(infer_type(each) for each in options))
    shape = next((each for each in options if infer_type(each) in ("object", "array")), options[0])
    told = {**{k: v for k, v in shape.items() if k in ("items", "properties", "required")}, **rest}
    return {**told, "type": kinds, "x-options": [{"type": infer_type(each), **each} for each in options]}


def infer_type(schema: Mapping[str, Any]) -> str:
    """The one type that is rendered: the schema's own, the widest of several, or what its keywords speak of."""
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


def _infer_type_of_values(schema: Mapping[str, Any]) -> str:
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if values and all(isinstance(value, bool) for value in values):
        return "boolean"
    if values and all(isinstance(value, int) for value in values):
        return "integer"
    if "minimum" in schema or "maximum" in schema or "multipleOf" in schema:
        return "number"
    return "string"


def list_enum_names(schema: Mapping[str, Any]) -> list[str]:
    """The choices of a value when all of them are strings that can be told, else none."""
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    values = [value for value in values if value is not None]
    if len(values) > MAX_SHOWN_NAMES or not all(
        isinstance(value, str) and neutralize(value) == value for value in values
    ):
        return []
    return values
