"""The arguments of a tool in the notation of TypeScript, as long as there is space for."""

from typing import Any

import pytest
from hypothesis import given

from tests.support.odd_schemas import odd_values
from tools.schemas.notation import write_arguments


def write(field: Any, max_chars: int = 1000) -> str:
    text = write_arguments({"properties": {"x": field}, "required": ["x"]}, max_chars)
    return text.removeprefix("{x: ").removesuffix("}")


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["integer", "null"]}, "integer|null"),
        ({"enum": ["a", 2]}, '"a"|2'),
        ({"enum": list(range(20))}, "0|1|2|3|4|5|6|7|…"),
        ({"type": "array", "items": {"type": "number"}}, "number[]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a"|"b")[]'),
        ({"type": "array"}, "any[]"),
        ({"type": "object"}, "object"),
        (
            {"properties": {"y": {"type": "string"}, "z": {"type": "boolean"}}, "required": ["z"]},
            "{z: boolean, y?: string}",
        ),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_types_are_written_as_typescript_does(field: Any, written: str) -> None:
    assert write(field) == written


def test_no_arguments_are_an_empty_object() -> None:
    assert write_arguments({"properties": {}}, 100) == "{}"


def test_what_is_too_long_loses_depth_then_choices_then_optional_names() -> None:
    inner = {"type": "object", "properties": {"street": {"type": "string"}, "town": {"type": "string"}}}
    schema = {
        "properties": {
            "kind": {"type": "string", "enum": ["apple", "banana", "cherry", "date", "elder", "fig"]},
            "address": inner,
            "remark": {"type": "string"},
        },
        "required": ["kind"],
    }
    whole = write_arguments(schema, 1000)
    assert 'kind: "apple"|"banana"|"cherry"|"date"|"elder"|"fig"' in whole
    assert "address?: {street?: string, town?: string}" in whole
    assert "address?: object" in write_arguments(schema, len(whole) - 25)
    assert write_arguments(schema, 60) == "{kind: string, address?: object, remark?: string}"
    assert write_arguments(schema, 40) == "{kind: string, address?, remark?}"
    assert write_arguments(schema, 30) == "{kind: string, address?, …}"
    assert write_arguments(schema, 0) == "{kind: string, …}"


@given(odd_values)
def test_any_schema_can_be_written(schema: Any) -> None:
    properties = {"x": schema, "y": {"type": "string"}}
    for max_chars in (0, 40, 400):
        text = write_arguments({"properties": properties, "required": ["x"]}, max_chars)
        assert text.startswith("{x: ")
