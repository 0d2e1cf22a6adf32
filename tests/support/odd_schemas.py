"""Schemas as strangers write them: broken, hostile, or merely odd; and a strategy for any others."""

from typing import Any

from hypothesis import strategies as st

from tools.schemas.keywords import SCHEMA_KEYWORDS, SCHEMA_LIST_KEYWORDS, SCHEMA_MAP_KEYWORDS, VALUE_CHECKS

DEEP_SCHEMA: dict[str, Any] = {}
for _ in range(3000):
    DEEP_SCHEMA = {"type": "array", "items": DEEP_SCHEMA}

# Values of any shape in the places of schemas.
odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "required", "items", "enum", "type", "description"]), inner
        )
    ),
    max_leaves=12,
)


def wide_references_schema(levels: int, width: int) -> dict[str, Any]:
    """A small document that would expand to width**levels schemas if every reference were replaced."""
    parts = {
        f"p{n}": {
            "type": "object",
            "properties": {f"a{m}": {"$ref": f"#/$defs/p{n + 1}"} for m in range(width)},
        }
        for n in range(levels)
    }
    return object_schema({"$ref": "#/$defs/p0"}, **{"$defs": {**parts, f"p{levels}": {"type": "object"}}})


def doubling_references_schema(levels: int) -> dict[str, Any]:
    """References nested in one another, two at each level."""
    parts = {f"p{n}": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}] * 2} for n in range(levels)}
    return object_schema({"$ref": "#/$defs/p0"}, **{"$defs": {**parts, f"p{levels}": {"type": "object"}}})


def object_schema(schema: object, **more: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, **more}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**20)
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["string", "object", "array", "#", "#/", "#/properties/x", "http://x.test/#/a", "(a+)+$", "^a*$"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "x",
                    "y",
                    "type",
                    "$ref",
                    "nullable",
                    *SCHEMA_MAP_KEYWORDS,
                    *SCHEMA_KEYWORDS,
                    *SCHEMA_LIST_KEYWORDS,
                    *VALUE_CHECKS,
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
SCHEMAS = st.dictionaries(
    st.sampled_from(
        ["x", "type", *SCHEMA_MAP_KEYWORDS, *SCHEMA_KEYWORDS, *SCHEMA_LIST_KEYWORDS, *VALUE_CHECKS]
    ),
    VALUES,
    max_size=5,
).map(lambda schema: {**schema, "type": "object"})
