"""Schemas of strangers: what is checked, what the model is shown, and what is reported as lost."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from jsonschema import Draft202012Validator

from tests.support.odd_schemas import (
    DEEP_SCHEMA,
    SCHEMAS,
    VALUES,
    doubling_references_schema,
    object_schema,
    wide_references_schema,
)
from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import Tool
from tools.registry import RENDERED_KEYWORDS, discover, render_definitions, render_schema
from tools.schemas.resolve import MAX_SUBSCHEMAS, ResolvedSchema, resolve_arguments
from tools.schemas.signature import ToolDefinitionError
from tools.schemas.told_schema import MAX_TOLD_CHARS, build_told_schema

CYCLIC_LIST: list[object] = []
CYCLIC_LIST.append(CYCLIC_LIST)


async def do_nothing(arguments, context):
    return None


def make_tool(schema: object, document: object = None) -> Tool:
    return build_tool(resolve_arguments(schema, document))


def build_tool(resolved: ResolvedSchema) -> Tool:
    told = build_told_schema(resolved.schema).schema
    return Tool("made", "A tool.", resolved.schema, do_nothing, told=told)


def list_warnings(schema: object) -> tuple[str, ...]:
    resolved = resolve_arguments(schema)
    return (*resolved.warnings, *build_told_schema(resolved.schema).warnings)


def show_argument(schema: object) -> Any:
    """What the model is shown of the one argument x."""
    rendered = render_definitions([make_tool(object_schema(schema))])[0]["parameters"]
    return rendered["properties"]["x"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "description": "A name."}, {"description": "A name.", "type": "string"}),
        ({"type": "string", "title": "X"}, {"type": "string"}),
        ({"type": "string", "title": "A name"}, {"description": "A name", "type": "string"}),
        (
            {"type": "integer", "description": "Days.", "minimum": 1, "maximum": 14, "default": 3},
            {"description": "Days (1 to 14; default 3)", "type": "integer"},
        ),
        (
            {"type": "number", "minimum": 0, "exclusiveMinimum": True, "multipleOf": 0.5,
             "exclusiveMaximum": 9.0},
            {"description": "more than 0; less than 9; a multiple of 0.5", "type": "number"},
        ),
        ({"type": "number", "minimum": 2.0}, {"description": "at least 2", "type": "number"}),
        ({"type": "number", "maximum": -1.5}, {"description": "at most -1.5", "type": "number"}),
        ({"type": "string", "minLength": 2, "maxLength": 2},
         {"description": "2 characters", "type": "string"}),
        ({"type": "string", "minLength": 0, "maxLength": 1},
         {"description": "at most 1 character", "type": "string"}),
        (
            {"type": "string", "pattern": "^[A-Z]{3}$", "example": "EUR"},
            {"description": "fits ^[A-Z]{3}$; for example EUR", "type": "string"},
        ),
        ({"type": "string", "format": "date"}, {"description": "YYYY-MM-DD", "type": "string"}),
        ({"type": "string", "format": "iban"}, {"description": "format iban", "type": "string"}),
        ({"type": "integer", "format": "int64"}, {"type": "integer"}),
        ({"type": "string", "nullable": True}, {"nullable": True, "type": "string"}),
        ({"type": ["string", "null"]}, {"nullable": True, "type": "string"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"nullable": True, "type": "integer"}),
        ({"type": "null"}, {"type": "string"}),
        ({"type": ["integer", "string"]},
         {"description": "either a whole number, or text", "type": "string"}),
        (
            {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["all", "none"]}],
             "description": "Which."},
            {"description": 'Which (either a whole number (at least 1), or "all" or "none")',
             "type": "string"},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            {"description": "either text, or a list", "items": {"type": "string"}, "type": "array"},
        ),
        ({"oneOf": [{"const": "a"}, {"enum": ["b", "a"]}]}, {"enum": ["a", "b"], "type": "string"}),
        (
            {"oneOf": [{"const": 0, "title": "TEXT"},
                       {"const": 2, "title": "VOICE", "description": "Talk here"}]},
            {"description": "either 0 (TEXT), or 2 (Talk here)", "type": "integer"},
        ),
        (
            {"type": "integer", "enum": [0, 2],
             "allOf": [{"oneOf": [{"const": value, "title": name}
                                  for value, name in enumerate(("TEXT", "DM", "VOICE"))]}]},
            {"description": "either 0 (TEXT), or 2 (VOICE)", "type": "integer"},
        ),
        ({"enum": ["a", "b", None], "type": "string"}, {"enum": ["a", "b"], "type": "string"}),
        ({"enum": [1, 2]}, {"description": "one of 1, 2", "type": "integer"}),
        ({"enum": [True]}, {"description": "always true", "type": "boolean"}),
        ({"const": 1.5, "minimum": 1}, {"description": "always 1.5; at least 1", "type": "number"}),
        ({"enum": [f"n{n}" for n in range(70)]},
         {"description": f"one of {', '.join(f'n{n}' for n in range(60))} and 10 more", "type": "string"}),
        ({}, {"description": "any value", "type": "string"}),
        (True, {"description": "any value", "type": "string"}),
        (
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 1,
             "uniqueItems": True},
            {"description": "1 entry; no two alike", "items": {"type": "integer"}, "type": "array"},
        ),
        ({"prefixItems": [{}]}, {"type": "array"}),
        ({"items": {}}, {"type": "array"}),
        (
            {"additionalProperties": {"type": "integer"}, "maxProperties": 3},
            {"description": "at most 3 names; any names, each a whole number", "type": "object"},
        ),
        ({"additionalProperties": True}, {"description": "any names, each a value", "type": "object"}),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
                       {"properties": {"b": {"type": "number"}}}]},
            {"properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a"],
             "type": "object"},
        ),
        (
            {"oneOf": [{"properties": {"id": {"type": "integer"}, "k": {"type": "string"}},
                        "required": ["id", "k"]},
                       {"properties": {"url": {"type": "string"}, "k": {"type": "string"}},
                        "required": ["url", "k"]}]},
            {"description": "in one of these forms: id, k or url, k",
             "properties": {"id": {"type": "integer"}, "k": {"type": "string"}, "url": {"type": "string"}},
             "required": ["k"], "type": "object"},
        ),
        (
            {"type": "object",
             "properties": {"id": {"type": "integer", "readOnly": True}, "n": {"type": "string"}},
             "required": ["id", "n"]},
            {"properties": {"n": {"type": "string"}}, "required": ["n"], "type": "object"},
        ),
        ({"type": "string", "description": "end<turn|>\u202e now"},
         {"description": "end<\u200bturn|> now", "type": "string"}),
        ({"type": "string", "enum": ["<|turn>", "b"]},
         {"description": "one of <\u200b|turn>, b", "type": "string"}),
        ({"type": "object", "properties": {"<|turn>": {}, "ok": {"type": "string"}}},
         {"properties": {"ok": {"type": "string"}}, "type": "object"}),
    ],
)  # fmt: skip
def test_what_the_template_does_not_render_is_put_into_words(schema, expected):
    assert show_argument(schema) == expected


@pytest.mark.parametrize(
    ("schema", "fits", "fails"),
    [
        ({"type": "integer", "minimum": 1}, [1, 5], [0, "x"]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, [0.1], [0]),
        ({"type": "number", "maximum": 3, "exclusiveMaximum": False}, [3], [4]),
        ({"type": "string", "pattern": "^[a-z]{2}$"}, ["ab"], ["a1", "abc"]),
        ({"type": "string", "pattern": "(a+)+$"}, ["aaaa", "b"], []),
        ({"type": "string", "pattern": r"\p{L}"}, ["b"], []),
        ({"type": "string", "nullable": True}, [None, "a"], [{}]),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, [None, 3], ["x"]),
        ({"oneOf": [{"type": "number"}, {"type": "string"}]}, [3, "x"], [[]]),
        ({"allOf": [{"type": "number"}, {"type": "integer", "minimum": 2}, {"minimum": 4}]}, [4], [3, 4.5]),
        ({"allOf": [{"pattern": "^a"}, {"pattern": "^.b"}], "type": "string"}, ["ab"], ["aa", "bb"]),
        ({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}, [2], [1, 3]),
        ({"allOf": [{"enum": [1]}, {"enum": [3]}]}, [], [1, 3]),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, [], [1]),
        ({"not": {"type": "string"}}, [1], ["a"]),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, ["ab", 1], ["a"]),
        ({"type": "object", "patternProperties": {"^a": {"type": "integer"}}}, [{"a1": 1}], [{"a1": "x"}]),
        ({"type": "object", "additionalProperties": False, "properties": {"a": {}}}, [{"a": 1}], [{"b": 1}]),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, [[1]], [["x"], [1, 2]]),
        ({"type": "array", "items": [{"type": "integer"}]}, [["x"]], []),
        (False, [], [1, "x"]),
    ],
)
def test_arguments_are_checked_against_the_original_schema(schema, fits, fails):
    tool = make_tool(object_schema(schema))
    for value in fits:
        assert check_arguments(tool, {"x": value}).get("x") == value
    for value in fails:
        with pytest.raises(ArgumentsRefused):
            check_arguments(tool, {"x": value})


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (None, "must be a JSON object"),
        ([], "must be a JSON object"),
        ("string", "must be a JSON object"),
        ({"type": "string"}, "not string: describe an object"),
        ({"type": ["array", "string"]}, "describe an object"),
        ({"anyOf": [{"type": "integer"}]}, "not integer"),
        (object_schema({"$ref": "http://169.254.169.254/latest#/a"}), "only references within the document"),
        (object_schema({"$ref": "file:///etc/passwd"}), "only references within the document"),
        (object_schema({"$ref": "other.json#/a"}), "only references within the document"),
        (object_schema({"$ref": "#anchor"}), "only references within the document"),
        (object_schema({"$ref": 7}), "only references within the document"),
        (object_schema({"$ref": "#/nowhere"}), "x refers to '#/nowhere', which is not in the document"),
        (object_schema({"$ref": "#/properties/x/0/a"}), "not in the document"),
        (object_schema({"items": {"$ref": "//host/share"}}), "x.items refers to"),
    ],
)
def test_an_unusable_schema_is_refused_in_a_sentence(schema, complaint):
    with pytest.raises(ToolDefinitionError, match=complaint.replace("(", r"\(")):
        resolve_arguments(schema)


@pytest.mark.parametrize(
    ("schema", "report"),
    [
        ({"$ref": "#/properties/x"}, "x contains itself"),
        ({"type": "object", "properties": {"y": {"$ref": "#/properties/x"}}}, "x.y.y.y contains itself"),
        ({"type": "text"}, "x has type 'text', which is not understood"),
        ({"type": []}, "x has type []"),
        ({"type": "string", "minLength": -1}, "x has minLength -1"),
        ({"minimum": float("nan")}, "x has minimum nan"),
        ({"multipleOf": 0}, "x has multipleOf 0"),
        ({"minLength": 10**400}, "x has minLength 1000"),
        ({"const": b"bytes"}, "x has const b'bytes'"),
        ({"enum": CYCLIC_LIST}, "x has enum [[...]]"),
        ({"enum": []}, "x has enum []"),
        ({"enum": list(range(2000))}, "x has enum"),
        ({"enum": ["x" * 30_000]}, "x has enum"),
        ({"const": {"a": "x" * 30_000}}, "x has const"),
        ({"required": "a"}, "x has required 'a'"),
        ({"pattern": "(a+)+$"}, "x has a pattern that is told but not checked"),
        ({"type": "array", "items": 7}, "x.items is no schema"),
        ({"properties": []}, "x has properties, which is left out"),
        ({"anyOf": {}}, "x has anyOf, which is left out"),
        ({"patternProperties": {"(a+)+$": {}}}, "x has patternProperties, which is left out"),
        ({"not": {"$ref": "#/properties/x"}}, "x has not, which is left out"),
        ({"unevaluatedProperties": False}, "x has unevaluatedProperties, which is not supported"),
        ({"$dynamicRef": "#a"}, "x has $dynamicRef, which is not supported"),
        ({"if": {"type": "string"}}, "x has if, which is checked but not told"),
        ({"allOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "x has conditions under allOf"),
        ({"properties": {f"p{n}": {"description": "long " * 20} for n in range(50)}}, "is told in short"),
        ({"properties": {"<turn|>": {}}}, "x has a name that the model cannot be told"),
        (DEEP_SCHEMA, "is nested"),
    ],
)
def test_what_is_lost_is_reported(schema, report):
    warnings = list_warnings(object_schema(schema))
    assert any(report in warning for warning in warnings), warnings
    assert len(warnings) <= 41


def test_what_is_nested_too_deep_to_be_shown_is_checked():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for _ in range(5):
        schema = {"type": "array", "items": schema}
    tool = make_tool(object_schema(schema))
    assert tool.told is not None
    assert "properties" not in json.dumps(tool.told["properties"]["x"])
    check_arguments(tool, {"x": [[[[[{"a": 1}]]]]]})
    with pytest.raises(ArgumentsRefused, match=r"x\.0\.0\.0\.0\.0\.a of made must be a whole number"):
        check_arguments(tool, {"x": [[[[[{"a": "no"}]]]]]})


def tell(schema: object) -> Any:
    """What the model is told of the one argument x."""
    return build_told_schema(resolve_arguments(object_schema(schema)).schema).schema["properties"]["x"]


def wide_schema(count: int, **more: object) -> dict[str, Any]:
    """An object of many names, each described at length."""
    inner = {"type": "string", "description": "Words that take room. " * 9}
    return {"type": "object", "properties": {f"p{n}": inner for n in range(count)}, **more}


def test_names_stay_and_required_descriptions_stay_longest_when_a_schema_is_too_large():
    schema = {**wide_schema(60, required=["p1"]), "type": "object"}
    resolved = resolve_arguments(schema)
    told = build_told_schema(resolved.schema).schema
    assert len(str(told)) <= MAX_TOLD_CHARS
    assert set(told["properties"]) == set(schema["properties"])
    assert told["required"] == ["p1"]
    assert told["properties"]["p1"]["description"].startswith("Words that take room.")
    assert told["properties"]["p2"] == {"type": "string"}
    with pytest.raises(ArgumentsRefused, match="made needs p1"):
        check_arguments(build_tool(resolved), {})


def test_what_is_inside_of_an_optional_argument_becomes_names_in_words():
    schema = {
        "type": "object",
        "properties": {f"o{n}": wide_schema(9, required=["p3"], description="An option.") for n in range(20)},
    }
    told = build_told_schema(resolve_arguments(schema).schema).schema
    assert len(str(told)) <= MAX_TOLD_CHARS
    for name in schema["properties"]:
        assert "properties" not in told["properties"][name]
        assert "needs p3 and takes p0, p1, p2, p4" in told["properties"][name]["description"]


def test_as_many_required_names_are_told_as_fit():
    names = [f"a name that is long and number {number}" for number in range(99)]
    resolved = resolve_arguments({"properties": {name: {} for name in names}, "required": names})
    told = build_told_schema(resolved.schema)
    assert len(str(told.schema)) <= MAX_TOLD_CHARS
    assert len(told.schema["required"]) > 20
    assert "the schema requires more names than can be told" in told.warnings


def test_optional_arguments_beyond_what_fits_are_named_in_words():
    told = build_told_schema(resolve_arguments(wide_schema(400, required=["p399"])).schema).schema
    assert len(str(told)) <= MAX_TOLD_CHARS
    assert told["required"] == ["p399"]
    assert len(told["properties"]) > 10
    assert "also takes p" in told["description"]
    assert " more" in told["description"]
    inner = tell(wide_schema(400, required=["p399"]))
    assert inner["required"] == ["p399"]
    assert "also takes p" in inner["description"]
    tool = make_tool(wide_schema(400, required=["p399"]))
    assert "Arguments: also takes p" in render_definitions([tool])[0]["description"]


CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "name": {"type": "string"}, "lives": {"type": "integer"}},
    "required": ["kind", "name", "lives"],
}
DOG = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["dog", "wolf"]},
        "name": {"type": "string"},
        "loud": {"type": "boolean"},
    },
    "required": ["kind", "name"],
}
BOTH_KINDS = {"type": "string", "enum": ["cat", "dog", "wolf"]}


def test_a_choice_by_kind_is_told_with_all_kinds_and_what_belongs_to_each():
    told = tell({"oneOf": [CAT, DOG], "discriminator": {"propertyName": "kind"}})
    assert told["properties"]["kind"] == BOTH_KINDS
    assert set(told["properties"]) == {"kind", "name", "lives", "loud"}
    assert told["required"] == ["kind", "name"]
    assert told["description"] == "by kind: cat needs lives; dog or wolf takes loud"
    among_others = tell({"anyOf": [{"type": "string"}, CAT, DOG], "description": "A pet."})
    assert among_others["properties"]["kind"] == BOTH_KINDS
    assert among_others["description"] == (
        "A pet (either an object (by kind: cat needs lives; dog or wolf takes loud), or text)"
    )
    listed = tell({"type": "array", "items": {"oneOf": [CAT, DOG]}})
    assert listed["items"]["properties"]["kind"] == BOTH_KINDS


def test_arguments_that_are_a_choice_by_kind_are_told_and_accepted_of_each_kind():
    tool = make_tool({"oneOf": [CAT, DOG]})
    assert tool.told is not None
    assert tool.told["properties"]["kind"] == BOTH_KINDS
    assert check_arguments(tool, {"kind": "dog", "name": "Rex", "loud": "true"})["loud"] is True


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"properties": {"a": {"type": "string"}, "b": {"type": "string"}},
             "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"description": "in one of these forms: a or b",
             "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "type": "object"},
        ),
        (
            {"anyOf": [{"properties": {"id": {"type": "string"}}},
                       {"properties": {"id": {"type": "integer"}}}]},
            {"properties": {"id": {"description": "either text, or a whole number", "type": "string"}},
             "type": "object"},
        ),
        (
            {"properties": {"n": {"type": "integer", "default": 3}, "m": {"type": "integer"}},
             "required": ["n", "m"]},
            {"properties": {"m": {"type": "integer"}, "n": {"description": "default 3", "type": "integer"}},
             "required": ["m"], "type": "object"},
        ),
        (
            {"additionalProperties": {"type": "array", "items": {"type": "object", "properties":
             {"port": {"type": "integer"}, "host": {"type": "string"}}, "required": ["port"]}}},
            {"description": "any names, each a list, each an object that needs port and takes host",
             "type": "object"},
        ),
    ],
)  # fmt: skip
def test_no_name_of_an_object_is_kept_from_the_model(schema, expected):
    assert show_argument(schema) == expected


def test_the_schema_of_an_own_tool_is_told_as_it_is_written():
    for tool in discover():
        schema = render_schema(tool.input_schema)
        assert render_schema(build_told_schema(tool.input_schema).schema) == schema


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
        }
    },
}


def test_a_schema_that_refers_to_itself_is_told_once_more_and_open_below():
    tool = make_tool(TREE)
    assert json.dumps(tool.told).count('"value"') == 4  # twice, and each is required
    leaf: dict[str, Any] = {"value": "4"}
    sent = {"value": "1", "children": [{"value": "2", "children": [{"value": "3", "children": [leaf]}]}]}
    arrived = check_arguments(tool, {"root": sent})["root"]
    assert arrived["children"][0]["children"][0] == {"value": 3, "children": [{"value": 4}]}
    with pytest.raises(ArgumentsRefused, match=r"root\.children\.0 of made needs value"):
        check_arguments(tool, {"root": {"value": 1, "children": [{}]}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"allOf": [{"$ref": "#"}], "properties": {"x": {"type": "integer"}}},
        object_schema({"anyOf": [{"$ref": "#/properties/x"}, {"type": "integer"}]}),
        object_schema({"oneOf": [{"$ref": "#/properties/x"}, {"$ref": "#/properties/x"}]}),
        object_schema({"type": "array", "items": {"$ref": "#/properties/x"}}),
    ],
)
def test_a_schema_that_is_only_itself_is_left_open_and_reported(schema):
    tool = make_tool(schema)
    assert any("contains itself" in warning for warning in list_warnings(schema))
    check_arguments(tool, {})
    json.dumps(render_definitions([tool]))


def test_references_are_followed_to_a_bound():
    chain = {f"s{n}": {"properties": {"on": {"$ref": f"#/$defs/s{n + 1}"}}} for n in range(9)}
    resolved = resolve_arguments(
        object_schema({"$ref": "#/$defs/s0"}, **{"$defs": {**chain, "s9": {"type": "object"}}})
    )
    assert json.dumps(resolved.schema).count('"on"') == 4
    assert resolved.warnings[0] == "x.on.on.on.on refers on and on and is left open there"


def test_the_arguments_of_all_options_are_accepted_by_name():
    tool = make_tool(
        {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}], "required": ["c"]}
    )
    assert tool.told is not None
    assert set(tool.told["properties"]) == {"a", "b", "c"}
    assert check_arguments(tool, {"a": "1", "c": 2}) == {"a": 1, "c": 2}
    with pytest.raises(ArgumentsRefused, match="has no argument"):
        check_arguments(tool, {"d": 1, "c": 1})


def test_references_are_looked_up_in_the_document_around_the_schema():
    document = {
        "components": {"schemas": {"a/b": {"type": "integer"}, "C": {"$ref": "#/components/schemas/a~1b"}}}
    }
    resolved = resolve_arguments(
        object_schema({"$ref": "#/components/schemas/C", "description": "Beside."}), document
    )
    assert resolved.schema["properties"]["x"] == {"description": "Beside.", "type": "integer"}


@pytest.mark.parametrize(
    ("schema", "report"),
    [
        (doubling_references_schema(40), "refers on and on"),
        (wide_references_schema(40, 15), "the schema is too large"),
        (object_schema({"anyOf": [{"$ref": "#/properties/x"}] * 5}), "contains itself"),
    ],
)
def test_small_documents_that_expand_are_cut(schema, report):
    resolved = resolve_arguments(schema)
    assert any(report in warning for warning in resolved.warnings)
    assert json.dumps(resolved.schema).count("{") <= 2 * MAX_SUBSCHEMAS
    check_arguments(Tool("made", "A tool.", resolved.schema, do_nothing), {"x": {}})


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, VALUES)
@example({"type": "object", "properties": {"": {}}, "required": ["", ""]}, {})
def test_any_schema_becomes_a_valid_one_or_is_refused_in_a_sentence(schema, value):
    try:
        resolved = resolve_arguments(schema)
    except ToolDefinitionError as error:
        assert 20 < len(str(error)) < 300  # noqa: PT017
        return
    Draft202012Validator.check_schema(resolved.schema)
    tool = build_tool(resolved)
    _assert_only_rendered_keywords(tool.told or {})
    json.dumps(render_definitions([tool]))
    for arguments in (value, {"x": value}, dict.fromkeys(resolved.schema["properties"], value)):
        try:
            check_arguments(tool, arguments)
        except ArgumentsRefused as refusal:
            assert str(refusal)  # noqa: PT017


def _assert_only_rendered_keywords(schema: dict[str, Any]) -> None:
    assert set(schema) <= set(RENDERED_KEYWORDS)
    assert schema["type"] in ("string", "integer", "number", "boolean", "array", "object")
    assert all(isinstance(name, str) for name in schema.get("enum", ()))
    for inner in schema.get("properties", {}).values():
        _assert_only_rendered_keywords(inner)
    if "items" in schema:
        _assert_only_rendered_keywords(schema["items"])
