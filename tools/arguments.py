"""Checks the arguments of a call before anything runs: repairs what is clearly meant, refuses the rest.

Pure. The endpoint checks neither names nor types, so anything a model can write may arrive here. A refusal is
one sentence for the model.
"""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from tools.base import Tool, ToolError
from tools.schemas.options import CLOSED, expand_nullable
from tools.schemas.refusals import describe_problem, format_unknown_name, format_value
from tools.schemas.repair import repair_object


class ArgumentsRefused(ToolError):
    """The arguments do not fit; the text tells the model which, and what was expected."""


def check_arguments(tool: Tool, arguments: object) -> dict[str, Any]:
    """Arguments a tool may be run with: repaired, with defaults filled in. Raises ArgumentsRefused."""
    if not isinstance(arguments, Mapping):
        raise ArgumentsRefused(
            f"The arguments of {tool.name} must be an object, not {format_value(arguments)}."
        )
    schema = tool.input_schema
    if not schema.get("properties") and not _is_open(schema):
        return {}  # a tool without arguments ignores what is sent along
    try:
        repaired: dict[str, Any] = repair_object(arguments, schema)
        _refuse_unknown(tool, repaired)
        validator = Draft202012Validator(expand_nullable(schema))
        problem = describe_problem(tool.name, validator.iter_errors(repaired))
    except RecursionError:
        problem = f"The arguments of {tool.name} are nested too deep."
    if problem is not None:
        raise ArgumentsRefused(problem)
    return repaired


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Whether it takes other arguments than it names."""
    others = schema.get("additionalProperties")
    return bool(others) and others != CLOSED


def _refuse_unknown(tool: Tool, arguments: Mapping[str, Any]) -> None:
    properties = tool.input_schema.get("properties", {})
    unknown = [name for name in arguments if name not in properties]
    if unknown and not _is_open(tool.input_schema):
        raise ArgumentsRefused(format_unknown_name(tool.name, unknown[0], properties))
