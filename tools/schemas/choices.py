"""Turns a choice between schemas into one schema that the model's template can render. Pure.

What is lost is kept under `x-forms` and `x-options`, which `describe_limits` puts into words; `x-kind` marks
the property that tells options apart.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tools.safety.injection import neutralize
from tools.schemas.kinds import Kinds, find_kinds, list_allowed_values

Schema = dict[str, Any]

_STRUCTURE = ("items", "properties", "required", "additionalProperties")


def flatten_choice(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with one schema instead of its `anyOf` or `oneOf`, if it has one."""
    options = schema.get("anyOf") or schema.get("oneOf")
    if not options:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
    flat_options = [dict(flatten_choice(option)) for option in options]
    if _is_object(rest) or all(map(_is_object, flat_options)):
        return _merge_object_options(rest, flat_options)
    objects = [option for option in flat_options if _is_object(option)]
    if len(objects) > 1:
        others = [option for option in flat_options if not _is_object(option)]
        flat_options = [_merge_object_options({}, objects), *others]
    return _merge_simple_options(rest, flat_options)


def _is_object(schema: Mapping[str, Any]) -> bool:
    return ("type" in schema and schema["type"] == "object") or "properties" in schema


def _merge_object_options(rest: Schema, options: list[Schema]) -> Schema:
    """All properties of all options; required is what every option requires."""
    names = dict.fromkeys(name for part in (rest, *options) for name in part.get("properties", {}))
    properties = {}
    for name in names:
        alternatives = [part["properties"][name] for part in options if name in part.get("properties", {})]
        own = rest.get("properties", {}).get(name)
        properties[name] = own or merge_alternatives(alternatives or [{}])
    always = set.intersection(*(set(option.get("required", ())) for option in options))
    kinds = find_kinds(options)
    if kinds is not None:
        properties[kinds.name] = {**properties[kinds.name], "x-kind": True}
    merged = {**rest, "type": "object", "properties": properties}
    merged["required"] = [*rest.get("required", ()), *sorted(always)]
    forms = _describe_forms(kinds, options)
    if forms:
        merged["x-forms"] = forms
    open_option = next((option for option in options if option.get("additionalProperties")), None)
    if open_option is not None:
        merged.setdefault("additionalProperties", open_option["additionalProperties"])
    return merged


def merge_alternatives(alternatives: Sequence[Schema]) -> Schema:
    """One schema of what a property is in several options."""
    unique = list({json.dumps(schema, sort_keys=True): schema for schema in alternatives}.values())
    first = unique[0]
    if len(unique) == 1:
        return first
    if all(map(list_allowed_values, unique)):
        values = [value for schema in unique for value in list_allowed_values(schema)]
        plain = {keyword: value for keyword, value in first.items() if keyword not in ("const", "enum")}
        if len({json.dumps(schema.get("type")) for schema in unique}) > 1:
            plain.pop("type", None)
        return {**plain, "enum": _drop_repeats(values)}
    described = {"description": first["description"]} if first.get("description") else {}
    return {**described, "anyOf": unique}


def _describe_forms(kinds: Kinds | None, options: Sequence[Schema]) -> str:
    """Which names go together, in words; nothing where all options have the same."""
    if kinds is not None:
        return _describe_kinds(kinds.name, kinds.values, options)
    forms = [", ".join(option.get("required") or option.get("properties", ())) for option in options]
    forms = [form for form in dict.fromkeys(forms) if form]
    if len(forms) < 2:
        return ""
    return f"in one of these forms: {' or '.join(forms)}"


def _describe_kinds(name: str, values: Sequence[Sequence[Any]], options: Sequence[Schema]) -> str:
    shared = set.intersection(*(set(option["properties"]) for option in options))
    shared_required = set.intersection(*(set(option.get("required", ())) for option in options))
    parts = []
    for option_values, option in zip(values, options, strict=True):
        needs = [other for other in option.get("required", ()) if other not in shared_required]
        takes = [other for other in option["properties"] if other not in shared and other not in needs]
        words = [f"needs {', '.join(needs)}"] if needs else []
        if takes:
            words.append(f"takes {', '.join(takes)}")
        if words:
            parts.append(f"{' or '.join(map(str, option_values))} {' and '.join(words)}")
    if not parts:
        return ""
    return f"by {name}: {'; '.join(parts)}"


def _merge_simple_options(rest: Schema, options: list[Schema]) -> Schema:
    """One type for everything that can be written as it, and the options in words.

    Options that are all names become one enum. What the rest does not allow is no option.
    """
    allowed = list_allowed_values(rest)
    if allowed:
        options = [option for option in options if _is_allowed(option, allowed)] or options
    if all(map(list_enum_names, options)):
        names = [name for option in options for name in list_enum_names(option)]
        return {**rest, "type": "string", "enum": _drop_repeats(names)}
    kinds = _drop_repeats([infer_type(option) for option in options])
    container = next((option for option in options if infer_type(option) in ("object", "array")), options[0])
    structure = {keyword: container[keyword] for keyword in _STRUCTURE if keyword in container}
    typed_options = [{"type": infer_type(option), **option} for option in options]
    return {**structure, **rest, "type": kinds, "x-options": typed_options}


def _is_allowed(option: Schema, allowed: Sequence[Any]) -> bool:
    values = list_allowed_values(option)
    return not values or any(value in allowed for value in values)


def _drop_repeats(values: Sequence[Any]) -> list[Any]:
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


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
    if not all(isinstance(value, str) and neutralize(value) == value for value in values):
        return []
    return values
