"""A strategy for schemas as services write them: objects, lists, maps, choices by kind and between types."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["id", "name", "zip", "kind_of", "tags", "Size", "from", "x-y", "a" * 40])
DESCRIPTIONS = st.sampled_from(["", "What it is.", "Words that take room. " * 30])
TYPES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "nullable": True},
        {"type": "string", "enum": ["small", "large", "5", "true"]},
        {"type": "string", "enum": [f"choice_{number}" for number in range(90)]},
        {"type": "integer", "minimum": 1},
        {"type": "integer", "enum": [1, 2, 3]},
        {"type": "number", "default": 2.5},
        {"type": "boolean"},
        {"type": "object"},
        {"const": "fixed"},
        {"type": ["string", "integer"]},
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "number"}, {"type": "string"}]},
        {"oneOf": [{"type": "boolean"}, {"type": "string", "enum": ["auto"]}]},
        {},
    ]
)
FIELD = {"type": "string", "description": "Words. " * 9}
MANY_NAMES = st.integers(30, 120).map(lambda count: {f"field_{number}": FIELD for number in range(count)})


def _describe(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text} if text else schema


def _build_objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(NAMES, inner, min_size=1, max_size=5)

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        drawn = draw(properties)
        if draw(st.integers(0, 9)) == 0:
            drawn |= draw(MANY_NAMES)
        required = draw(st.lists(st.sampled_from(sorted(drawn)), unique=True, max_size=4))
        schema = {"type": "object", "properties": drawn, "required": required}
        return schema | draw(st.sampled_from([{}, {"additionalProperties": False}]))

    return build()


def _build_kinds(objects: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        options = []
        for kind in draw(st.lists(st.sampled_from(["cat", "dog", "bird"]), min_size=2, unique=True)):
            option = draw(objects)
            properties = {"kind": {"const": kind}, **option["properties"]}
            options.append({**option, "properties": properties, "required": ["kind", *option["required"]]})
        return {draw(st.sampled_from(["oneOf", "anyOf"])): options}

    return build()


def _extend(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    objects = _build_objects(inner)
    return st.one_of(
        objects,
        _build_kinds(objects),
        inner.map(lambda schema: {"type": "array", "items": schema}),
        inner.map(lambda schema: {"type": "object", "additionalProperties": schema}),
        objects.map(lambda schema: {"anyOf": [{"type": "string"}, schema]}),
    )


VALUES_OF_PLAIN_SCHEMAS = st.recursive(st.builds(_describe, TYPES, DESCRIPTIONS), _extend, max_leaves=12)
PLAIN_SCHEMAS = _build_objects(VALUES_OF_PLAIN_SCHEMAS)
"""Schemas of arguments: objects with names."""
