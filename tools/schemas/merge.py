"""Merges two JSON schemas that hold at the same time into one, as they are meant, not as written. Pure.

What one schema cannot express stays beside it under `allOf`.
"""

from collections.abc import Callable, Mapping
from typing import Any

Schema = dict[str, Any]


def merge_schemas(first: Mapping[str, Any], second: Mapping[str, Any]) -> Schema:
    """A schema for values that fit both.

    Annotations are taken from the first; properties of both are allowed together.
    """
    merged = dict(first)
    unmerged = {}
    for keyword, value in second.items():
        if keyword not in merged or merged[keyword] == value:
            merged[keyword] = value
        elif (merge_values := _MERGERS.get(keyword)) and (
            value_of_both := merge_values(merged[keyword], value)
        ) is not None:
            merged[keyword] = value_of_both
        elif keyword not in _ANNOTATION_KEYWORDS:
            unmerged[keyword] = value
    if unmerged:
        merged["allOf"] = [*merged.get("allOf", ()), unmerged]
    return merged


def _merge_properties(first: Schema, second: Schema) -> Schema:
    merged = {name: merge_schemas(first.get(name, {}), schema) for name, schema in second.items()}
    return {**first, **merged}


def _merge_required(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _merge_types(first: Any, second: Any) -> Any:
    """The narrower of two types; None when no value has both."""
    if {"number", "integer"} == {str(first), str(second)}:
        return "integer"
    shared = [kind for kind in _as_list(first) if kind in _as_list(second)]
    if len(shared) == 1:
        return shared[0]
    return shared or None


def _merge_enums(first: list[Any], second: list[Any]) -> list[Any] | None:
    return [value for value in first if value in second] or None


def _as_list(kinds: Any) -> list[Any]:
    if isinstance(kinds, list):
        return kinds
    return [kinds]


_ANNOTATION_KEYWORDS = frozenset({"title", "description", "x-default", "x-example", "format", "nullable"})
_MERGERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "properties": _merge_properties,
    "required": _merge_required,
    "type": _merge_types,
    "enum": _merge_enums,
    "allOf": lambda first, second: [*first, *second],
    # A part that forbids other properties means to forbid those that no part names.
    "additionalProperties": lambda first, second: first or second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
