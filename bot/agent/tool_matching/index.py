"""The tools of a turn as a message is held against them: an index by stem, worked out once a set of tools.
Pure.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from bot.agent.tool_matching.concepts import Concepts, load_concepts
from bot.agent.tool_matching.features import weigh_stems
from bot.agent.tool_matching.stems import split_words

T = TypeVar("T")
ThinkingNeed = Literal["never", "may", "needs"]

TITLE, DESCRIPTION, FIELDS, NOTES, CHOICES = range(5)
PREFIX_LETTERS = 5  # letters by which two stems are loosely alike


class MatchableTool(Protocol):
    """What a tool says of itself; `tools.base.Tool` does."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...
    @property
    def thinking(self) -> ThinkingNeed: ...


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """One tool: how many numbers, texts and arguments it needs. `totals`: weight of its words by section."""

    name: str
    thinking: ThinkingNeed
    required_numbers: int
    required_texts: int
    required_count: int
    section_weights: tuple[float, ...]
    title_stems: frozenset[str]


class Posting(NamedTuple):
    """Where a stem stands: in which tool and section, and what it weighs there. Of many tools there are
    thousands.
    """

    tool_number: int
    section: int
    weight: float


@dataclass(frozen=True, slots=True)
class ToolIndex:
    """Some tools, offered together. `rarity` (0 to 1) is least for stems that all of them have.

    `alike` gives the stems that begin as a stem does, `near` those of names and descriptions that mean
    something near.
    """

    tools: tuple[ToolProfile, ...]
    postings: Mapping[str, tuple[Posting, ...]]
    rarity: Mapping[str, float]
    by_prefix: Mapping[str, tuple[str, ...]]
    related_stems: Mapping[str, tuple[str, ...]]


def build_index(tools: Iterable[MatchableTool], concepts: Concepts | None = None) -> ToolIndex:
    """Make the offer of these tools; keep it as long as they are offered."""
    shown = list(tools)
    parts = [_split_sections(tool) for tool in shown]
    rarity = _compute_rarity(parts)
    spots: dict[str, list[Posting]] = defaultdict(list)
    for number, sections in enumerate(parts):
        for section, part in enumerate(sections):
            for one, weight in part.items():
                spots[one].append(Posting(number, section, weight * rarity[one]))
    alike: dict[str, list[str]] = defaultdict(list)
    near: dict[str, list[str]] = defaultdict(list)
    relatives = (concepts or load_concepts()).related_stems
    for one, places in spots.items():
        if len(one) >= PREFIX_LETTERS:
            alike[one[:PREFIX_LETTERS]].append(one)
        if any(spot.section <= DESCRIPTION for spot in places):
            for other in relatives.get(one, ()):
                near[other].append(one)
    return ToolIndex(
        tuple(_build_profile(tool, sections, rarity) for tool, sections in zip(shown, parts, strict=True)),
        _freeze(spots),
        rarity,
        _freeze(alike),
        _freeze(near),
    )


def _split_sections(tool: MatchableTool) -> tuple[dict[str, float], ...]:
    fields = _list_fields(tool)
    notes = " ".join(str(field.get("description", "")) for field in fields.values())
    choices = " ".join(str(one) for field in fields.values() for one in _list_choices(field))
    texts = (tool.name, tool.description, " ".join(fields), notes, choices)
    return tuple(weigh_stems(split_words(text)) for text in texts)


def _list_fields(tool: MatchableTool) -> dict[str, Mapping[str, Any]]:
    fields = tool.input_schema.get("properties")
    if not isinstance(fields, Mapping):
        return {}
    return {name: field for name, field in fields.items() if isinstance(field, Mapping)}


def _list_choices(field: Mapping[str, Any]) -> Sequence[Any]:
    inner = field.get("items")
    choices = field.get("enum") or (inner.get("enum") if isinstance(inner, Mapping) else None)
    if isinstance(choices, list):
        return choices
    return ()


def _compute_rarity(tool_sections: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, float]:
    count = Counter(one for sections in tool_sections for one in set().union(*sections))
    most = math.log((len(tool_sections) + 1) / 1.5)
    return {one: math.log((len(tool_sections) + 1) / (times + 0.5)) / most for one, times in count.items()}


def _build_profile(
    tool: MatchableTool, sections: Sequence[Mapping[str, float]], rarity: Mapping[str, float]
) -> ToolProfile:
    fields = _list_fields(tool)
    required = tool.input_schema.get("required")
    if isinstance(required, list):
        needed = {name for name in required if isinstance(name, str)}
    else:
        needed = set()
    kinds = [field.get("type") for name, field in fields.items() if name in needed]
    return ToolProfile(
        tool.name,
        tool.thinking,
        sum(kind in ("integer", "number", "float") for kind in kinds),
        sum(kind == "string" for kind in kinds),
        len(kinds),
        tuple(sum(weight * rarity[one] for one, weight in part.items()) for part in sections),
        frozenset(one for one, weight in sections[TITLE].items() if weight > 0.6),
    )


def _freeze(lists: Mapping[str, list[T]]) -> dict[str, tuple[T, ...]]:
    return {key: tuple(values) for key, values in lists.items()}
