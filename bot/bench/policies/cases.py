"""The cases a policy is judged by: messages, the tools offered with each, and which one is needed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.agent.tool_matching.index import ThinkingNeed, ToolIndex, build_index
from bot.bench.harness.bots import BenchFailed


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool as its schema describes it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    thinking: ThinkingNeed = "may"
    source: str = ""


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One message, with the tools offered.

    `source` names where the message is from, or its language; `tool_names` are the tools offered.
    `needed_tools` are those of which the message needs one; empty where the case does not say.
    `search_words` are those that a model would search with; None: the text itself is searched for.
    """

    text: str
    tool_index: ToolIndex
    needs_tools: bool
    source: str
    tool_names: tuple[str, ...] = ()
    needed_tools: tuple[str, ...] = ()
    search_words: str | None = None


def read_cases(
    folder: Path, cases_file: str = "cases.jsonl", tools_file: str = "tools.json"
) -> list[PolicyCase]:
    """The cases in a folder, with the schemas of their tools.

    Cases are JSON, one a line: text, tools by name, needs_tools, source or language, perhaps the needed tool
    (or a list, one of which is needed) and the words to search with. Schemas are by name. Raises BenchFailed,
    naming the file, for invalid files.
    """
    descriptions = read_tools(folder / tools_file)
    path = folder / cases_file
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        tool_indexes: dict[tuple[str, ...], ToolIndex] = {}
        return [_parse_case(row, descriptions, tool_indexes) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchFailed(f"{path} does not hold cases: {type(error).__name__}: {error}") from error


def read_tools(path: Path) -> dict[str, ToolDescription]:
    """Tools by name, as their schemas describe them.

    Raises BenchFailed, naming the file, if it is invalid.
    """
    try:
        schemas = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: ToolDescription(
                schema["name"],
                schema["description"],
                schema["parameters"],
                schema.get("thinking", "may"),
                schema.get("source", ""),
            )
            for name, schema in schemas.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchFailed(f"{path} does not hold tools: {type(error).__name__}: {error}") from error


def _parse_case(
    row: Mapping[str, Any],
    descriptions: Mapping[str, ToolDescription],
    tool_indexes: dict[tuple[str, ...], ToolIndex],
) -> PolicyCase:
    names = tuple(row["tools"])
    if names not in tool_indexes:
        tool_indexes[names] = build_index(descriptions[name] for name in names)
    source = row.get("language") or row["source"]
    needed = row.get("needed") or ()
    return PolicyCase(
        row["text"],
        tool_indexes[names],
        bool(row["needs_tools"]),
        source,
        names,
        (needed,) if isinstance(needed, str) else tuple(needed),
        row.get("search"),
    )
