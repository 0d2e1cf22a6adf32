"""`bench documents`: what the model is told of real operations, and how its calls of them arrive.

Builds the report; prints nothing and calls no service. Every operation of every document becomes a tool;
valid calls of it are sampled, written as the endpoint's parser writes them, and checked.
"""

import json
import resource
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import Any

from bot.agent.tool_calls import CheckedCall, check_call
from bot.agent.tool_search import SearchableTools
from bot.bench.harness import machine
from bot.bench.policies.output import PolicyReport, PrintLine
from bot.domain import ToolCall, ToolResult
from bot.errors import QuestionRefused
from tests.bench.policies.sample_calls import CallSampler, write_as_endpoint
from tests.bench.policies.told_judgement import find_gaps
from tools.base import Tool, ToolContext
from tools.http.routes import HttpRoute
from tools.openapi.loader import DocumentUnreadable, load_document
from tools.openapi.operations import build_route
from tools.openapi.outline import Outline
from tools.openapi.servers import ServerSettings
from tools.registry import render_schema
from tools.schemas.told_schema import build_told_schema

BASE_URL = "https://documents.test"  # instead of their servers, which are often examples; none is called
MAX_CHANGED_SHARE = 0.001  # of the calls, refused or changed, for --check
MAX_EXAMPLES = 20

_ABSENT = object()

TITLES = (
    *("document", "operations", "unusable", "with a body", "bare object", "required hidden"),
    *("choices hidden", "longest told", "calls", "refused", "changed", "read", "told"),
)


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """`folder` holds the documents, as JSON or YAML; `calls` are sampled of each operation."""

    folder: Path
    calls: int = 2


@dataclass(slots=True)
class DocumentScore:
    """What came of one document, or of all.

    `bodies` are operations with a body; of all, `bare` have an argument, or a part of one, told as a bare
    object, `hidden` a required name that is not told, `choiceless` choices that are not told.
    `calls` were sampled and checked, `refused` and `changed` of them. `read_seconds` is the time to read the
    operations, `told_seconds` to derive what is told of them.
    """

    document: str
    operations: int = 0
    unusable: int = 0
    bodies: int = 0
    bare: int = 0
    hidden: int = 0
    choiceless: int = 0
    longest_told: int = 0
    calls: int = 0
    refused: int = 0
    changed: int = 0
    read_seconds: float = 0.0
    told_seconds: float = 0.0

    def add(self, other: "DocumentScore") -> None:
        """Count another document as well."""
        longest_told = max(self.longest_told, other.longest_told)
        for field in fields(self)[1:]:
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        self.longest_told = longest_told

    def format_cells(self) -> tuple[str, ...]:
        """A row of the table."""
        document, *counts, read_seconds, told_seconds = astuple(self)
        means = (1e3 * seconds / max(1, self.operations) for seconds in (read_seconds, told_seconds))
        return (document, *(f"{count:,}" for count in counts), *(f"{mean:.1f} ms" for mean in means))


def run_documents(
    options: DocumentOptions, print_line: PrintLine = lambda line: None
) -> PolicyReport[DocumentScore]:
    """Judge every document of the folder, the sums last; the notes are examples of what went wrong.

    The report holds if nothing needed is hidden, and nearly all calls arrive as they were meant. Raises
    QuestionRefused if there are no documents.
    """
    paths = sorted(path for path in options.folder.glob("*") if path.suffix in (".json", ".yaml", ".yml"))
    if not paths:
        raise QuestionRefused(f"No JSON or YAML documents lie in {options.folder}.")
    started_at = perf_counter()
    scores = list[DocumentScore]()
    total = DocumentScore("together")
    examples = list[str]()
    for path in paths:
        print_line(f"reading: {path}")
        score = DocumentScore(path.stem)
        try:
            found = list(_judge_document(path, options, score))
        except DocumentUnreadable as error:
            examples.append(f"{path.stem} cannot be read: {error}")
            continue
        scores.append(score)
        total.add(score)
        examples += [f"{path.stem} {example}" for example in found]
    conditions = [*_describe_conditions(options), ("took", f"{perf_counter() - started_at:.0f} s in all")]
    is_told = total.bare == total.hidden == 0
    return PolicyReport(
        TITLES,
        (*scores, total),
        tuple(conditions),
        notes=tuple(examples[:MAX_EXAMPLES]),
        holds=is_told and total.refused + total.changed <= MAX_CHANGED_SHARE * total.calls,
    )


def _judge_document(path: Path, options: DocumentOptions, score: DocumentScore) -> Iterator[str]:
    """Count into `score`; yields examples of what went wrong."""
    outline = Outline(load_document(path.read_bytes()), BASE_URL, ServerSettings(BASE_URL))
    sampler = CallSampler(len(path.stem))
    for operation in outline.list_operations():
        score.operations += 1
        started_at = perf_counter()
        try:
            route = build_route(outline, operation, "")
        except DocumentUnreadable:
            score.unusable += 1
            continue
        score.read_seconds += perf_counter() - started_at
        yield from _judge_route(route, sampler, options.calls, score)


def _judge_route(route: HttpRoute, sampler: CallSampler, calls: int, score: DocumentScore) -> Iterator[str]:
    started_at = perf_counter()
    told = build_told_schema(route.checked).schema
    score.told_seconds += perf_counter() - started_at
    score.longest_told = max(score.longest_told, len(str(told)))
    score.bodies += route.body is not None
    gaps = list(find_gaps(route.checked, told))
    kinds = {gap.kind for gap in gaps}
    score.bare += "bare object" in kinds
    score.hidden += "required name" in kinds
    score.choiceless += "choices" in kinds
    yield from (f"{route.name}: {gap.kind} {gap.path}" for gap in gaps[:1])
    tool = Tool(route.name, route.description, route.checked, _do_nothing, told=told, source="bench")
    tools = {**SearchableTools([tool]).tools}
    for number in range(calls):
        arguments = sampler.sample(route.checked)
        if arguments is None:
            continue
        checked = _check_as_written(tool, tools, arguments, is_found=number % 2 == 1)
        score.calls += 1
        if isinstance(checked, ToolResult):
            score.refused += 1
            yield f"{route.name} refused: {checked.text[:200]}"
        elif not hold_same(checked.arguments, arguments):
            score.changed += 1
            yield f"{route.name} changed: {arguments} to {checked.arguments}"[:300]


def _check_as_written(
    tool: Tool, tools: Mapping[str, Tool], arguments: Mapping[str, Any], *, is_found: bool
) -> CheckedCall | ToolResult:
    """The call as it arrives: with the tool in the prompt, or `is_found`: by `use_tool`, all in texts."""
    schema: Mapping[str, Any] = {}
    if not is_found:
        schema = render_schema(tool.told or {})
    written = write_as_endpoint(arguments, schema)
    return check_call(ToolCall("call", tool.name, json.dumps(written)), tools)


def hold_same(arrived: Any, sampled: Any) -> bool:
    """Whether everything arrived as it was meant; defaults that were filled in are no difference."""
    if isinstance(sampled, Mapping) and isinstance(arrived, Mapping):
        return all(hold_same(arrived.get(name, _ABSENT), value) for name, value in sampled.items())
    if isinstance(sampled, list) and isinstance(arrived, list) and len(sampled) == len(arrived):
        return all(map(hold_same, arrived, sampled))
    is_number = not isinstance(sampled, bool) and isinstance(sampled, int | float)
    if is_number and not isinstance(arrived, bool):
        return bool(arrived == sampled)
    return type(arrived) is type(sampled) and bool(arrived == sampled)


async def _do_nothing(arguments: Mapping[str, Any], context: ToolContext) -> None:
    """No tool is run here."""


def _describe_conditions(options: DocumentOptions) -> Iterator[tuple[str, str]]:
    yield "calls", f"{options.calls} of each operation, sampled from what its arguments are checked against"
    yield "written", "as the endpoint's parser does, every second as `use_tool` gives it: all as texts"
    yield "ambiguous", "a text that spells a number or true where both may stand counts as the value"
    yield "times", "the mean to read an operation, and to derive what is told of it"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield "memory", f"{peak:,.0f} MiB at most in this process, the largest document included"
    yield "load", machine.describe_load()
