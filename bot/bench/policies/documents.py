"""`bench tools --documents`: what the model is told of real operations, and how its calls of them arrive.

Builds the report; prints nothing and calls no service. Every operation of every document becomes a tool;
valid calls of it are sampled, written as the endpoint's parser writes them, and checked.
"""

import json
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from bot.agent.tool_calls import CheckedCall, check_call
from bot.agent.tool_search import SearchableTools
from bot.bench.harness import machine
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies.sample_calls import CallSampler, write_as_endpoint
from bot.bench.policies.told_judgement import find_gaps
from bot.domain import ToolCall, ToolResult
from bot.errors import QuestionRefused
from bot.tables import Line, TextTable
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

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """`folder` holds the documents, as JSON or YAML; `calls` are sampled of each operation."""

    folder: Path
    calls: int = 2


@dataclass(frozen=True, slots=True)
class DocumentScore:
    """What came of one document, or of all.

    `bodies` are operations with a body; of all, `bare` have an argument, or a part of one, told as a bare
    object, `hidden` a required name that is not told, `choiceless` choices that are not told.
    `calls` were sampled and checked, `refused` and `changed` of them. `milliseconds` is the time to read an
    operation, `told_milliseconds` to derive what is told of it.
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
    milliseconds: float = 0.0
    told_milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """All figures of a run, the sums last; `examples` are of what went wrong, a line each."""

    scores: tuple[DocumentScore, ...]
    examples: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...]

    @property
    def has_passed(self) -> bool:
        """Whether nothing needed is hidden, and nearly all calls arrive as they were meant."""
        total = self.scores[-1]
        bad_calls = total.refused + total.changed
        return total.bare == total.hidden == 0 and bad_calls <= MAX_CHANGED_SHARE * total.calls


@dataclass(slots=True)
class _Tally:
    """Counts of one document while it is judged."""

    counts: Counter[str] = field(default_factory=Counter)
    read_seconds: list[float] = field(default_factory=list)
    told_seconds: list[float] = field(default_factory=list)
    longest_told: int = 0
    examples: list[str] = field(default_factory=list)


def run_documents(options: DocumentOptions, print_line: PrintLine = lambda line: None) -> DocumentReport:
    """Judge every document of the folder. Raises QuestionRefused if there are none."""
    paths = sorted(path for path in options.folder.glob("*") if path.suffix in (".json", ".yaml", ".yml"))
    if not paths:
        raise QuestionRefused(f"No JSON or YAML documents lie in {options.folder}.")
    started_at = perf_counter()
    scores = []
    examples: list[str] = []
    for path in paths:
        print_line(f"reading: {path}")
        tally = _Tally()
        try:
            _judge_document(path, options, tally)
        except DocumentUnreadable as error:
            examples.append(f"{path.stem} cannot be read: {error}")
            continue
        scores.append(_to_score(path.stem, tally))
        examples += [f"{path.stem} {example}" for example in tally.examples]
    conditions = [*_describe_conditions(options), ("took", f"{perf_counter() - started_at:.0f} s in all")]
    return DocumentReport((*scores, _sum_scores(scores)), tuple(examples[:MAX_EXAMPLES]), tuple(conditions))


def _judge_document(path: Path, options: DocumentOptions, tally: _Tally) -> None:
    outline = Outline(load_document(path.read_bytes()), BASE_URL, ServerSettings(BASE_URL))
    sampler = CallSampler(len(path.stem))
    for operation in outline.list_operations():
        tally.counts["operations"] += 1
        started_at = perf_counter()
        try:
            route = build_route(outline, operation, "")
        except DocumentUnreadable:
            tally.counts["unusable"] += 1
            continue
        tally.read_seconds.append(perf_counter() - started_at)
        _judge_route(route, sampler, options.calls, tally)


def _judge_route(route: HttpRoute, sampler: CallSampler, calls: int, tally: _Tally) -> None:
    started_at = perf_counter()
    told = build_told_schema(route.checked).schema
    tally.told_seconds.append(perf_counter() - started_at)
    tally.longest_told = max(tally.longest_told, len(str(told)))
    tally.counts["bodies"] += route.body is not None
    gaps = list(find_gaps(route.checked, told))
    for kind in {gap.kind for gap in gaps}:
        tally.counts[kind] += 1
    tally.examples += [f"{route.name}: {gap.kind} {gap.path}" for gap in gaps[:1]]
    tool = Tool(route.name, route.description, route.checked, _do_nothing, told=told, source="bench")
    tools = {**SearchableTools([tool]).tools}
    for number in range(calls):
        arguments = sampler.sample(route.checked)
        if arguments is None:
            continue
        checked = _check_as_written(tool, tools, arguments, is_found=number % 2 == 1)
        tally.counts["calls"] += 1
        if isinstance(checked, ToolResult):
            tally.counts["refused"] += 1
            tally.examples.append(f"{route.name} refused: {checked.text[:200]}")
        elif not hold_same(checked.arguments, arguments):
            tally.counts["changed"] += 1
            tally.examples.append(f"{route.name} changed: {arguments} to {checked.arguments}"[:300])


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


def _to_score(name: str, tally: _Tally) -> DocumentScore:
    counts = tally.counts
    return DocumentScore(
        name,
        operations=counts["operations"],
        unusable=counts["unusable"],
        bodies=counts["bodies"],
        bare=counts["bare object"],
        hidden=counts["required name"],
        choiceless=counts["choices"],
        longest_told=tally.longest_told,
        calls=counts["calls"],
        refused=counts["refused"],
        changed=counts["changed"],
        milliseconds=1e3 * (median(tally.read_seconds) or 0.0),
        told_milliseconds=1e3 * (percentile(tally.told_seconds, 0.9) or 0.0),
    )


def _sum_scores(scores: list[DocumentScore]) -> DocumentScore:
    sums = {
        name: sum(getattr(score, name) for score in scores)
        for name in (
            *("operations", "unusable", "bodies", "bare", "hidden", "choiceless"),
            *("calls", "refused", "changed"),
        )
    }
    return DocumentScore(
        "together",
        **sums,
        longest_told=max((score.longest_told for score in scores), default=0),
        milliseconds=max((score.milliseconds for score in scores), default=0.0),
        told_milliseconds=max((score.told_milliseconds for score in scores), default=0.0),
    )


def _describe_conditions(options: DocumentOptions) -> Iterator[tuple[str, str]]:
    yield "calls", f"{options.calls} of each operation, sampled from what its arguments are checked against"
    yield "written", "as the endpoint's parser does, every second as `use_tool` gives it: all as texts"
    yield "ambiguous", "a text that spells a number or true where both may stand counts as the value"
    yield "times", "the median to read an operation, the 90th percentile to derive what is told"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield "memory", f"{peak:,.0f} MiB at most in this process, the largest document included"
    yield "load", machine.describe_load()


def format_lines(report: DocumentReport) -> Iterator[Line]:
    """A table of the figures, and below it examples and the conditions."""
    head = (
        *("document", "operations", "unusable", "with a body", "bare object", "required hidden"),
        *("choices hidden", "longest told", "calls", "refused", "changed", "read", "told"),
    )
    rows = [
        (
            score.document,
            *(
                f"{count:,}"
                for count in (
                    *(score.operations, score.unusable, score.bodies, score.bare, score.hidden),
                    *(score.choiceless, score.longest_told, score.calls, score.refused, score.changed),
                )
            ),
            f"{score.milliseconds:.1f} ms",
            f"{score.told_milliseconds:.1f} ms",
        )
        for score in report.scores
    ]
    yield TextTable("", head, rows)
    yield ""
    yield from report.examples
    for name, text in report.conditions:
        yield f"{name}: {text}"
