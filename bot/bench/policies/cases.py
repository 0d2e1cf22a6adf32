"""The cases a policy is judged by: messages, the tools offered with each, and which one is needed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.agent.tool_matching.index import ThinkingNeed, ToolIndex, build_index
from bot.bench.harness.gateway_process import BenchFailed

TOOLS_FILE = "tools.json"
TOOL_SETS_FILE = "tool_sets.json"


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool as its schema describes it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    thinking: ThinkingNeed = "may"
    source: str = ""


@dataclass(frozen=True, slots=True)
class PreviousTurn:
    """The turn that a message follows: the tools it used, and whether it was heavy."""

    tool_names: tuple[str, ...]
    heavy: bool


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One message, with the tools offered.

    `source` names where the message is from, or its language; `tool_names` are the tools offered.
    `needed_tools` are those of which the message needs one; empty where the case does not say.
    `search_words` are those that a model would search with; None: the text itself is searched for.
    `heavy`: it needs several calls that build on or stand beside each other; None: unknown.
    `before` is the turn it follows, where that matters. `language` is an ISO 639-1 code, empty if unknown.
    """

    text: str
    tool_index: ToolIndex
    needs_tools: bool
    source: str
    tool_names: tuple[str, ...] = ()
    needed_tools: tuple[str, ...] = ()
    search_words: str | None = None
    heavy: bool | None = None
    before: PreviousTurn | None = None
    language: str = ""


def list_case_files(folder: Path) -> list[Path]:
    """The files of cases in a folder; none if neither it nor the folder above has the tools."""
    if not _find_beside(folder, TOOLS_FILE).exists():
        return []
    return sorted(folder.glob("*.jsonl"))


def _find_beside(folder: Path, name: str) -> Path:
    """A file that cases share: in their folder, else in the folder above."""
    path = folder / name
    if path.exists():
        return path
    return folder.parent / name


def read_cases(folder: Path, cases_file: str = "cases.jsonl") -> list[PolicyCase]:
    """The cases of a file, with the schemas of their tools.

    Cases are JSON, one a line: text, tools by name (or the name of a set in tool_sets.json), needs_tools,
    source or language, perhaps heavy, the turn before, the needed tool (or a list, one of which is needed)
    and the words to search with. Schemas are by name, in tools.json. Raises BenchFailed, naming the file,
    for invalid files.
    """
    descriptions = read_tools(folder)
    tool_sets = _read_tool_sets(_find_beside(folder, TOOL_SETS_FILE))
    path = folder / cases_file
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        tool_indexes: dict[tuple[str, ...], ToolIndex] = {}
        return [_parse_case(row, descriptions, tool_sets, tool_indexes) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchFailed(f"{path} does not hold cases: {type(error).__name__}: {error}") from error


def read_tools(folder: Path) -> dict[str, ToolDescription]:
    """The tools of the cases in a folder by name, as their schemas describe them.

    Raises BenchFailed, naming the file, if it is invalid.
    """
    path = _find_beside(folder, TOOLS_FILE)
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


def _read_tool_sets(path: Path) -> dict[str, tuple[str, ...]]:
    if not path.exists():
        return {}
    try:
        tool_sets = json.loads(path.read_text(encoding="utf-8"))
        return {name: tuple(tool_names) for name, tool_names in tool_sets.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise BenchFailed(f"{path} does not hold sets of tools: {type(error).__name__}: {error}") from error


def _parse_case(
    row: Mapping[str, Any],
    descriptions: Mapping[str, ToolDescription],
    tool_sets: Mapping[str, tuple[str, ...]],
    tool_indexes: dict[tuple[str, ...], ToolIndex],
) -> PolicyCase:
    offered = row["tools"]
    names = tool_sets[offered] if isinstance(offered, str) else tuple(offered)
    if names not in tool_indexes:
        tool_indexes[names] = build_index(descriptions[name] for name in names)
    needed = row.get("needed") or ()
    return PolicyCase(
        text=row["text"],
        tool_index=tool_indexes[names],
        needs_tools=bool(row["needs_tools"]),
        source=row.get("language") or row["source"],
        tool_names=names,
        needed_tools=(needed,) if isinstance(needed, str) else tuple(needed),
        search_words=row.get("search"),
        heavy=row.get("heavy"),
        before=_parse_previous_turn(row.get("before")),
        language=row.get("lang") or row.get("language") or "",
    )


def _parse_previous_turn(fields: Mapping[str, Any] | None) -> PreviousTurn | None:
    if fields is None:
        return None
    return PreviousTurn(tuple(fields["tools"]), bool(fields["heavy"]))
