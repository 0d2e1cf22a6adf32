"""Of any schema as services write them: what is told fits, and every valid call arrives as it was meant."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.bench.policies.documents import hold_same
from tests.bench.policies.sample_calls import CallSampler, write_as_endpoint
from tests.bench.policies.told_judgement import find_gaps
from tests.support.plain_schemas import PLAIN_SCHEMAS
from tools.arguments import check_arguments
from tools.base import Tool
from tools.registry import RENDERED_KEYWORDS, render_schema
from tools.schemas.resolve import resolve_arguments
from tools.schemas.told_schema import MAX_TOLD_CHARS, build_told_schema


async def do_nothing(arguments: object, context: object) -> None:
    """No tool is run here."""


@settings(max_examples=50, deadline=None)
@given(PLAIN_SCHEMAS)
def test_what_is_told_is_valid_and_within_its_bound_and_hides_nothing_needed(schema):
    checked = resolve_arguments(schema).schema
    told = build_told_schema(checked)
    assert len(str(told.schema)) <= MAX_TOLD_CHARS
    Draft202012Validator.check_schema(told.schema)
    assert_only_rendered(told.schema)
    assert not [gap for gap in find_gaps(checked, told.schema) if gap.kind != "choices"]
    needed = {name for name in checked.get("required", ()) if "x-default" not in checked["properties"][name]}
    assert set(told.schema.get("required", ())) == needed <= set(told.schema["properties"])
    assert build_told_schema(checked) == told


def assert_only_rendered(told: dict[str, Any]) -> None:
    assert set(told) <= set(RENDERED_KEYWORDS)
    for inner in (*told.get("properties", {}).values(), *([told["items"]] if "items" in told else [])):
        assert_only_rendered(inner)


@settings(max_examples=50, deadline=None)
@given(PLAIN_SCHEMAS, st.integers(0, 1000), st.booleans())
def test_a_valid_call_arrives_unchanged_however_much_the_endpoint_was_told(schema, seed, was_told):
    checked = resolve_arguments(schema).schema
    arguments = CallSampler(seed).sample(checked)
    if arguments is None:
        return
    tool = Tool("made", "A tool.", checked, do_nothing, told=build_told_schema(checked).schema)
    written = write_as_endpoint(arguments, render_schema(tool.told or {}) if was_told else {})
    arrived = check_arguments(tool, json.loads(json.dumps(written)))
    assert hold_same(arrived, arguments)
    assert check_arguments(tool, arrived) == arrived
