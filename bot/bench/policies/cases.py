"""The cases a thinking policy is judged by: messages, the tools offered with each, and whether one is needed."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.agent.tool_matching.index import Offer, Thinks, index
from bot.bench.harness.bots import BenchFailed


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as its schema describes it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    thinking: Thinks = "may"


@dataclass(frozen=True, slots=True)
class Case:
    """One message. `source` names where it is from, or its language; `tools` are those offered, by name.

    `needed` is the one it needs, None where the case does not say.
    """

    text: str
    offer: Offer
    needs_tools: bool
    source: str
    tools: tuple[str, ...] = ()
    needed: str | None = None


def read(folder: Path, cases: str = "cases.jsonl", tools: str = "tools.json") -> list[Case]:
    """Cases (JSON, one a line: text, tools by name, needs_tools, source or language, perhaps the needed one)
    with schemas by name beside them.

    Raises BenchFailed, naming the file, when they are not what they should be.
    """
    described = read_tools(folder / tools)
    path = folder / cases
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        offers: dict[tuple[str, ...], Offer] = {}
        return [_case(row, described, offers) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchFailed(f"{path} does not hold cases: {type(error).__name__}: {error}") from error


def read_tools(path: Path) -> dict[str, Described]:
    """Tools by name, as their schemas describe them. Raises BenchFailed, naming the file, where they are not."""
    try:
        schemas = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Described(one["name"], one["description"], one["parameters"], one.get("thinking", "may"))
            for name, one in schemas.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchFailed(f"{path} does not hold tools: {type(error).__name__}: {error}") from error


def _case(
    row: Mapping[str, Any], described: Mapping[str, Described], offers: dict[tuple[str, ...], Offer]
) -> Case:
    names = tuple(row["tools"])
    if names not in offers:
        offers[names] = index(described[name] for name in names)
    source = row.get("language") or row["source"]
    return Case(row["text"], offers[names], bool(row["needs_tools"]), source, names, row.get("needed"))


def folds(keys: Sequence[str], count: int = 5) -> list[int]:
    """The fold of each key; equal keys are never parted."""
    distinct = sorted(set(keys))
    random.Random(0).shuffle(distinct)  # noqa: S311 - the same folds in every run, no secret
    number = {one: place % count for place, one in enumerate(distinct)}
    return [number[key] for key in keys]
