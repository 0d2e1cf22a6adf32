"""`bench documents`: real operations are told whole, and valid calls of them arrive as meant."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bot.bench.policies.output import format_lines
from bot.errors import QuestionRefused
from tests.bench.__main__ import bench
from tests.bench.policies.documents import DocumentOptions, run_documents
from tests.bench.policies.sample_calls import CallSampler, write_as_endpoint
from tests.bench.policies.told_judgement import Gap, find_gaps
from tests.support.terminal_text import lay_out

DOCUMENTS = Path(__file__).parents[2] / "fixtures" / "openapi"


def test_of_real_documents_nothing_needed_is_hidden_and_all_valid_calls_arrive() -> None:
    report = run_documents(DocumentOptions(DOCUMENTS, calls=3))
    total = report.scores[-1]
    assert total.operations > 80
    assert total.bodies > 60
    assert (total.bare, total.hidden, total.choiceless) == (0, 0, 0)
    assert total.calls > 200
    assert (total.refused, total.changed) == (0, 0), report.notes
    assert report.holds
    text = lay_out(format_lines(report))
    assert "together" in text
    assert "memory: " in text


def test_the_command_measures_a_folder_and_refuses_one_without_documents(tmp_path: Path) -> None:
    done = CliRunner().invoke(bench, ["documents", str(tmp_path)])
    assert isinstance(done.exception, QuestionRefused)
    (tmp_path / "broken.json").write_text("{")
    petstore = (DOCUMENTS / "petstore.json").read_text(encoding="utf-8")
    (tmp_path / "petstore.json").write_text(petstore, encoding="utf-8")
    done = CliRunner().invoke(bench, ["documents", str(tmp_path), "--json", "--check"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert [score["document"] for score in report["scores"]] == ["petstore", "together"]
    assert report["notes"][0].startswith("broken cannot be read: it is not correct JSON")


@pytest.mark.parametrize(
    ("checked", "told", "gaps"),
    [
        ({"properties": {"a": {}}}, {"type": "object"}, [Gap("bare object", "")]),
        ({"properties": {"a": {}}}, {"type": "object", "description": "takes a"}, []),
        (
            {"properties": {"a": {}, "b": {}}, "required": ["b"]},
            {"type": "object", "properties": {"a": {"type": "string", "description": "any value"}}},
            [Gap("required name", "b")],
        ),
        (
            {"properties": {"a": {"items": {"enum": ["x", "y"]}}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
            [Gap("choices", "a[]")],
        ),
        ({"enum": ["x", "y"]}, {"type": "string", "description": "one of x and 1 more"}, []),
    ],
)
def test_what_is_kept_from_the_model_is_found(
    checked: dict[str, Any], told: dict[str, Any], gaps: list[Gap]
) -> None:
    assert list(find_gaps(checked, told)) == gaps


def test_calls_are_written_as_the_endpoint_does_which_knows_types_only_where_it_was_told() -> None:
    arguments = {"n": 5, "free": {"on": True, "list": [1]}}
    told = {"properties": {"n": {"type": "integer"}, "free": {"type": "object"}}}
    assert write_as_endpoint(arguments, told) == {"n": 5, "free": {"on": "true", "list": ["1"]}}
    assert write_as_endpoint(arguments, {}) == {"n": "5", "free": {"on": "true", "list": ["1"]}}


def test_a_sample_fits_its_schema_or_there_is_none() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    samples = [CallSampler(seed).sample(schema) for seed in range(5)]
    assert all(sample is not None and sample["n"] >= 3 for sample in samples)
    impossible = {"type": "object", "properties": {"n": {"not": {}}}, "required": ["n"]}
    assert CallSampler(1).sample(impossible) is None
