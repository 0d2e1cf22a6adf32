"""Joins two JSON schemas that hold at the same time into one, as they are meant more than as they are
written. Pure.

What cannot be said in one schema stays beside it under `allOf`.
"""

from collections.abc import Callable, Mapping
from typing import Any

Schema = dict[str, Any]


def merge_schemas(first: Mapping[str, Any], second: Mapping[str, Any]) -> Schema:
    """A schema for what fits both. Words are taken from the first; properties of both are allowed together."""
    both = dict(first)
    left = {}
    for keyword, value in second.items():
        if keyword not in both or both[keyword] == value:
            both[keyword] = value
        elif (join := _MERGERS.get(keyword)) and (joined := join(both[keyword], value)) is not None:
            both[keyword] = joined
        elif keyword not in _ANNOTATION_KEYWORDS:
            left[keyword] = value
    if left:
        both["allOf"] = [*both.get("allOf", ()), left]
    return both


def _merge_properties(first: Schema, second: Schema) -> Schema:
    return {**first, **{name: merge_schemas(first.get(name, {}), schema) for name, schema in second.items()}}


def _merge_required(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _merge_types(first: Any, second: Any) -> Any:
    """The narrower of two types; None when no value has both."""
    if {"number", "integer"} == {str(first), str(second)}:
        return "integer"
    shared = [kind for kind in _as_list(first) if kind in _as_list(second)]
    return (shared[0] if len(shared) == 1 else shared) or None


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
    # A part that forbids what it does not name is meant to forbid what the whole does not name.
    "additionalProperties": lambda first, second: first or second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
