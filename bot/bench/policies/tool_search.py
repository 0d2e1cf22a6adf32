"""`bench tools`: of many registered tools, how often the needed one is in the prompt or found by a search.

Builds the report; prints nothing. Scores the choice and the search themselves; no model is called.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from typing import Any

from bot.agent import history
from bot.agent.tool_matching.features import extract_features
from bot.agent.tool_matching.ranking import rank_tools
from bot.agent.tool_search import MAX_FOUND_TOOLS, SearchableTools, pick_tools
from bot.bench.harness import machine
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies.cases import (
    PolicyCase,
    ToolDescription,
    list_case_files,
    read_cases,
    read_tools,
)
from bot.bench.policies.output import PolicyReport, PrintLine
from bot.bench.policies.typed_reads import ReadCase, ReadOutcome
from bot.errors import QuestionRefused
from bot.llm.heavy_work import describe_work
from bot.llm.search_questions import TOOL_QUESTION, ask_for_tool, list_likely_tools
from bot.llm.typed_reads import TypedReading
from tools.base import Tool, ToolContext
from tools.registry import discover, render_definitions

ALL_SOURCES = "together"
MIN_REACHED_SHARE = 0.95
DRAWS = 5  # of other tools for the same ten
PROMPT_BUDGET = 2000  # tokens of a prompt that tools may take

TITLES = ("needed tool, by source", "set", "cases", "in the prompt", "found first", "among five", "either")

_CAMEL_CASE_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class ToolSearchOptions:
    """`folders` of cases; `registered_tools` are registered for each case."""

    folders: tuple[Path, ...]
    registered_tools: int = 200


@dataclass(frozen=True, slots=True)
class ToolSearchScore:
    """How often the needed tool of one source's cases is reached, or of a whole set: shares, 0 to 1.

    `offered`: it is in the prompt of a conversation that begins with the message; `found`: it is among the
    first five search results; `first`: it is the first; `reached`: offered or found.
    """

    judged: str
    source: str
    cases: int
    offered: float
    first: float
    found: float
    reached: float

    def format_cells(self) -> tuple[str, ...]:
        """A row of the table."""
        shares = (self.offered, self.first, self.found, self.reached)
        return (self.source, self.judged, str(self.cases), *(f"{100 * share:.1f} %" for share in shares))


@dataclass(frozen=True, slots=True)
class _CaseResult:
    """One case: where the needed tool was, and what finding it took."""

    source: str
    is_offered: bool
    rank: int | None
    search_seconds: float
    prompt_tokens: int
    result_tokens: int

    @property
    def is_found(self) -> bool:
        return self.rank is not None and self.rank < MAX_FOUND_TOOLS


def run_tool_search(
    options: ToolSearchOptions, print_line: PrintLine = lambda line: None
) -> PolicyReport[ToolSearchScore]:
    """Score the cases in the folders; the report holds if every set as a whole reaches MIN_REACHED_SHARE.

    Raises QuestionRefused if there are none.
    """
    paths = _list_files(options)
    descriptions = _read_descriptions(paths)
    scores = list[ToolSearchScore]()
    all_results = list[_CaseResult]()
    guessed_count = 0
    tool_pool = _ToolPool(options, descriptions)
    for path in paths:
        print_line(f"judging: {path}")
        cases = list(_list_cases(path, tool_pool))
        results = [_judge_case(case, tool_set) for case, tool_set in cases]
        scores += _score_sources(f"{path.parent.name}/{path.name}", results)
        all_results += results
        guessed_count += sum(not case.needed_tools for case, _ in cases)
    pace = _summarize_times(tool_pool.index_seconds, all_results)
    notes = (
        "index: {index:.0f} ms of processor time, once a set of tools; in the prompt: {tokens:.0f} tokens",
        "search: {search:.1f} ms of processor time, 99 of 100 within {longest:.1f} ms; "
        "its result: {result_tokens:.0f} tokens, {longest_result_tokens:.0f} at most",
    )
    return PolicyReport(
        TITLES,
        tuple(scores),
        _describe_conditions(options, len(descriptions), guessed_count),
        pace,
        tuple(note.format(**pace) for note in notes),
        all(score.reached >= MIN_REACHED_SHARE for score in scores if score.source == ALL_SOURCES),
    )


def list_read_cases(options: ToolSearchOptions) -> Iterator[ReadCase]:
    """What is read of the cases of which words do not clearly name a tool: which one is needed."""
    paths = _list_files(options)
    tool_pool = _ToolPool(options, _read_descriptions(paths))
    return (
        _build_read_case(case, tool_set, rivals)
        for path in paths
        for case, tool_set in _list_cases(path, tool_pool)
        if (rivals := tool_set.find_rivals([case.text]))
    )


def _build_read_case(case: PolicyCase, tool_set: SearchableTools, rivals: Sequence[Tool]) -> ReadCase:
    needed = _list_needed(case)

    def judge(reading: TypedReading) -> ReadOutcome:
        best = list_likely_tools(reading)[0]
        is_right = best in needed
        return ReadOutcome(is_right, [(reading.chances[TOOL_QUESTION][best], is_right)])

    names = pick_tools(tool_set, [case.text], (), PROMPT_BUDGET)
    offered = [tool_set.tools[name] for name in names if name in tool_set.tools]
    state = describe_work([case.text], render_definitions(offered))
    question = ask_for_tool({tool.name: tool.description for tool in rivals})
    return ReadCase((question,), state, rivals[0].name in needed, judge)


def _list_files(options: ToolSearchOptions) -> list[Path]:
    paths = [path for folder in options.folders for path in list_case_files(folder)]
    if not paths:
        raise QuestionRefused(
            f"No cases (*.jsonl) with tools.json lie in {', '.join(map(str, options.folders))}."
        )
    return paths


def _read_descriptions(paths: Sequence[Path]) -> dict[str, ToolDescription]:
    descriptions: dict[str, ToolDescription] = {}
    for path in paths:
        descriptions = read_tools(path.parent) | descriptions
    return descriptions


def _list_cases(path: Path, tool_pool: "_ToolPool") -> Iterator[tuple[PolicyCase, SearchableTools]]:
    """The cases of a file that need a tool, each with the tools that are registered for it."""
    cases = [case for case in read_cases(path.parent, path.name) if case.needs_tools]
    case_tools = read_tools(path.parent)
    for number, case in enumerate(cases):
        yield case, tool_pool.build_tool_set(case.tool_names, case_tools, number % DRAWS)


class _ToolPool:
    """Builds the tools of a case among others; `index_seconds` is the time each index took."""

    def __init__(self, options: ToolSearchOptions, descriptions: Mapping[str, ToolDescription]) -> None:
        self.index_seconds: list[float] = []
        self._registered_tools = options.registered_tools
        self._descriptions = descriptions
        self._tool_sets: dict[tuple[tuple[str, ...], int], SearchableTools] = {}

    def build_tool_set(
        self, tool_names: tuple[str, ...], case_tools: Mapping[str, ToolDescription], draw: int
    ) -> SearchableTools:
        """These tools, others (the same for the same `draw`) and the built-in ones."""
        if (tool_names, draw) not in self._tool_sets:
            other_names = [name for name in sorted(self._descriptions) if name not in tool_names]
            draw_count = min(len(other_names), max(0, self._registered_tools - len(tool_names)))
            drawn = random.Random(draw).sample(other_names, draw_count)  # noqa: S311 - the same in every run, no secret
            registered = [
                *(case_tools[name] for name in tool_names),
                *(self._descriptions[name] for name in drawn),
            ]
            tools = {tool.name: tool for tool in (*map(_to_tool, registered), *discover())}
            tool_set = SearchableTools(tools.values())
            self._tool_sets[tool_names, draw] = tool_set
            started_at = thread_time()
            tool_set.tool_index  # noqa: B018 - built here, so that it is measured
            self.index_seconds.append(thread_time() - started_at)
        return self._tool_sets[tool_names, draw]


def _judge_case(case: PolicyCase, tool_set: SearchableTools) -> _CaseResult:
    needed = _list_needed(case)
    words = case.search_words or case.text
    started_at = thread_time()
    found_names = [tool.name for tool in tool_set.search(words)]
    search_seconds = thread_time() - started_at
    result_tokens = len(tool_set.find(words)) // history.BYTES_PER_TOKEN
    names = pick_tools(tool_set, [case.text], (), PROMPT_BUDGET)
    tokens = sum(tool_set.prompt_chars[name] for name in names) // history.BYTES_PER_TOKEN
    rank = next((number for number, name in enumerate(found_names) if name in needed), None)
    is_offered = not needed.isdisjoint(names)
    return _CaseResult(case.source, is_offered, rank, search_seconds, tokens, result_tokens)


def _list_needed(case: PolicyCase) -> set[str]:
    """The names of the tools of which the case needs one."""
    return set(map(_registered_name, case.needed_tools or (_find_nearest_tool(case),)))


def _find_nearest_tool(case: PolicyCase) -> str:
    """The tool of the case that fits best, where the case does not say which one it needs."""
    ranked = rank_tools(extract_features(case.text), case.tool_index, 1)
    if ranked:
        return ranked[0][0]
    return case.tool_names[0]


def _to_tool(description: ToolDescription) -> Tool:
    return Tool(
        _registered_name(description.name),
        description.description,
        dict(description.input_schema),
        _do_nothing,
        source=description.source or "bench",
    )


def _registered_name(name: str) -> str:
    """The name as the gateway would register it."""
    return _CAMEL_CASE_HUMP.sub("_", name).lower()


async def _do_nothing(arguments: Mapping[str, Any], context: ToolContext) -> None:
    """No tool is run here."""


def _score_sources(label: str, results: Sequence[_CaseResult]) -> Iterator[ToolSearchScore]:
    sources = list(dict.fromkeys(case.source for case in results))
    for source in (*sources, ALL_SOURCES):
        in_source = [case for case in results if source in (case.source, ALL_SOURCES)]
        yield ToolSearchScore(
            label,
            source,
            len(in_source),
            offered=_share_of_hits([case.is_offered for case in in_source]),
            first=_share_of_hits([case.rank == 0 for case in in_source]),
            found=_share_of_hits([case.is_found for case in in_source]),
            reached=_share_of_hits([case.is_offered or case.is_found for case in in_source]),
        )


def _share_of_hits(hits: Sequence[bool]) -> float:
    if hits:
        return sum(hits) / len(hits)
    return 1.0


def _summarize_times(index_seconds: Sequence[float], results: Sequence[_CaseResult]) -> dict[str, float]:
    """Milliseconds of processor time: of an index, and of a search (`longest`: the 99th percentile).

    `tokens` is the median estimate of what the tools of a prompt take; `result_tokens` and
    `longest_result_tokens` of what a search adds to it.
    """
    searches = [1e3 * case.search_seconds for case in results]
    result_tokens = [float(case.result_tokens) for case in results]
    return {
        "index": 1e3 * (median(index_seconds) or 0.0),
        "search": median(searches) or 0.0,
        "longest": percentile(searches, 0.99) or 0.0,
        "tokens": median(case.prompt_tokens for case in results) or 0.0,
        "result_tokens": median(result_tokens) or 0.0,
        "longest_result_tokens": max(result_tokens, default=0.0),
    }


def _describe_conditions(
    options: ToolSearchOptions, pool_size: int, guessed_count: int
) -> tuple[tuple[str, str], ...]:
    return (
        (
            "registered",
            f"{min(options.registered_tools, pool_size)} tools a case: its own, "
            f"and others drawn from {pool_size}, in every run the same",
        ),
        ("beside them", "the gateway's own tools, which stand in every prompt; a case may need one of those"),
        (
            "in the prompt",
            f"at most {PROMPT_BUDGET} tokens; a conversation that begins with the message of the case",
        ),
        (
            "found",
            "searched with the words of the case; where it has none, with the person's message as it is",
        ),
        (
            "needed",
            f"as the case says; {guessed_count} do not, and need the one of their own tools that fits best",
        ),
        ("load", machine.describe_load()),
    )
