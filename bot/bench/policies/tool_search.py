"""`bench tools`: what typed reads are asked of cases whose words do not clearly name one of many tools."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.agent.tool_matching.features import extract_features
from bot.agent.tool_matching.ranking import rank_tools
from bot.agent.tool_search import SearchableTools, pick_tools
from bot.bench.policies.cases import (
    TOOLS_FILE,
    PolicyCase,
    ToolDescription,
    find_beside,
    list_case_files,
    read_cases,
    read_tools,
)
from bot.bench.policies.typed_reads import ReadCase, ReadOutcome
from bot.errors import QuestionRefused
from bot.llm.heavy_work import describe_work
from bot.llm.search_questions import TOOL_QUESTION, ask_for_tool, list_likely_tools
from bot.llm.typed_reads import TypedReading
from tools.base import Tool, ToolContext
from tools.registry import discover, render_definitions

DRAWS = 5  # of other tools for the same ten
PROMPT_BUDGET = 2000  # tokens of a prompt that tools may take

_CAMEL_CASE_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class ToolSearchOptions:
    """`folders` of cases; `registered_tools` are registered for each case."""

    folders: tuple[Path, ...]
    registered_tools: int = 200


def list_read_cases(options: ToolSearchOptions) -> Iterator[ReadCase]:
    """What is read of the cases of which words do not clearly name a tool: which one is needed."""
    paths = list_files(options)
    tool_pool = ToolPool(options, read_descriptions(paths))
    return (
        _build_read_case(case, tool_set, rivals)
        for path in paths
        for case, tool_set in list_cases(path, tool_pool)
        if (rivals := tool_set.find_rivals([case.text]))
    )


def _build_read_case(case: PolicyCase, tool_set: SearchableTools, rivals: Sequence[Tool]) -> ReadCase:
    needed = list_needed(case)

    def judge(reading: TypedReading) -> ReadOutcome:
        best = list_likely_tools(reading)[0]
        is_right = best in needed
        return ReadOutcome(is_right, [(reading.chances[TOOL_QUESTION][best], is_right)])

    names = pick_tools(tool_set, [case.text], (), PROMPT_BUDGET)
    offered = [tool_set.tools[name] for name in names if name in tool_set.tools]
    state = describe_work([case.text], render_definitions(offered))
    question = ask_for_tool({tool.name: tool.description for tool in rivals})
    return ReadCase((question,), state, rivals[0].name in needed, judge)


def list_files(options: ToolSearchOptions) -> list[Path]:
    """The files of cases in the folders. Raises QuestionRefused if there are none."""
    paths = [path for folder in options.folders for path in list_case_files(folder)]
    if not paths:
        raise QuestionRefused(
            f"No cases (*.jsonl) with tools.json lie in {', '.join(map(str, options.folders))}."
        )
    return paths


def read_descriptions(paths: Sequence[Path]) -> dict[str, ToolDescription]:
    """The tools of all files, by name; of two the first counts."""
    descriptions: dict[str, ToolDescription] = {}
    for path in paths:
        descriptions = read_tools(find_beside(path.parent, TOOLS_FILE)) | descriptions
    return descriptions


def list_cases(path: Path, tool_pool: "ToolPool") -> Iterator[tuple[PolicyCase, SearchableTools]]:
    """The cases of a file that need a tool, each with the tools that are registered for it."""
    cases = [case for case in read_cases(path.parent, path.name) if case.needs_tools]
    case_tools = read_tools(find_beside(path.parent, TOOLS_FILE))
    for number, case in enumerate(cases):
        yield case, tool_pool.build_tool_set(case.tool_names, case_tools, number % DRAWS)


class ToolPool:
    """Builds the tools of a case among others."""

    def __init__(self, options: ToolSearchOptions, descriptions: Mapping[str, ToolDescription]) -> None:
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
            self._tool_sets[tool_names, draw] = SearchableTools(tools.values())
        return self._tool_sets[tool_names, draw]


def list_needed(case: PolicyCase) -> set[str]:
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
