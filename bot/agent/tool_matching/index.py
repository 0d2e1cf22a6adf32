"""The tools of a turn as a message is held against them: an index by stem, worked out once a set of tools.
Pure.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from bot.agent.tool_matching.concepts import Ideas, ideas
from bot.agent.tool_matching.features import weighed
from bot.agent.tool_matching.stems import words

T = TypeVar("T")
Thinks = Literal["never", "may", "needs"]

TITLE, ABOUT, FIELDS, NOTES, CHOICES = range(5)
BEGINNING = 5  # letters by which two stems are loosely alike


class Offered(Protocol):
    """What a tool says of itself; `tools.base.Tool` does."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...
    @property
    def thinking(self) -> Thinks: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """One tool: how many numbers, texts and arguments it needs. `totals`: weight of its words by section."""

    name: str
    thinking: Thinks
    numbers: int
    texts: int
    required: int
    totals: tuple[float, ...]
    title: frozenset[str]


class Spot(NamedTuple):
    """Where a stem stands: in which tool and section, and what it weighs there. Of many tools there are
    thousands.
    """

    tool: int
    section: int
    weight: float


@dataclass(frozen=True, slots=True)
class Offer:
    """Some tools, offered together. `rarity` (0 to 1) is least for stems that all of them have.

    `alike` gives the stems that begin as a stem does, `near` those of names and descriptions that mean
    something near.
    """

    tools: tuple[Shape, ...]
    spots: Mapping[str, tuple[Spot, ...]]
    rarity: Mapping[str, float]
    alike: Mapping[str, tuple[str, ...]]
    near: Mapping[str, tuple[str, ...]]


def index(tools: Iterable[Offered], known: Ideas | None = None) -> Offer:
    """Make the offer of these tools; keep it as long as they are offered."""
    shown = list(tools)
    parts = [_sections(tool) for tool in shown]
    rarity = _rarity(parts)
    spots: dict[str, list[Spot]] = defaultdict(list)
    for number, sections in enumerate(parts):
        for section, part in enumerate(sections):
            for one, weight in part.items():
                spots[one].append(Spot(number, section, weight * rarity[one]))
    alike: dict[str, list[str]] = defaultdict(list)
    near: dict[str, list[str]] = defaultdict(list)
    relatives = (known or ideas()).near
    for one, places in spots.items():
        if len(one) >= BEGINNING:
            alike[one[:BEGINNING]].append(one)
        if any(spot.section <= ABOUT for spot in places):
            for other in relatives.get(one, ()):
                near[other].append(one)
    return Offer(
        tuple(_shape(tool, sections, rarity) for tool, sections in zip(shown, parts, strict=True)),
        _frozen(spots),
        rarity,
        _frozen(alike),
        _frozen(near),
    )


def _sections(tool: Offered) -> tuple[dict[str, float], ...]:
    fields = _fields(tool)
    notes = " ".join(str(field.get("description", "")) for field in fields.values())
    choices = " ".join(str(one) for field in fields.values() for one in _choices(field))
    texts = (tool.name, tool.description, " ".join(fields), notes, choices)
    return tuple(weighed(words(text)) for text in texts)


def _fields(tool: Offered) -> dict[str, Mapping[str, Any]]:
    fields = tool.input_schema.get("properties")
    if not isinstance(fields, Mapping):
        return {}
    return {name: field for name, field in fields.items() if isinstance(field, Mapping)}


def _choices(field: Mapping[str, Any]) -> Sequence[Any]:
    inner = field.get("items")
    choices = field.get("enum") or (inner.get("enum") if isinstance(inner, Mapping) else None)
    if isinstance(choices, list):
        return choices
    return ()


def _rarity(parts: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, float]:
    count = Counter(one for sections in parts for one in set().union(*sections))
    most = math.log((len(parts) + 1) / 1.5)
    return {one: math.log((len(parts) + 1) / (times + 0.5)) / most for one, times in count.items()}


def _shape(tool: Offered, sections: Sequence[Mapping[str, float]], rarity: Mapping[str, float]) -> Shape:
    fields = _fields(tool)
    required = tool.input_schema.get("required")
    if isinstance(required, list):
        needed = {name for name in required if isinstance(name, str)}
    else:
        needed = set()
    kinds = [field.get("type") for name, field in fields.items() if name in needed]
    return Shape(
        tool.name,
        tool.thinking,
        sum(kind in ("integer", "number", "float") for kind in kinds),
        sum(kind == "string" for kind in kinds),
        len(kinds),
        tuple(sum(weight * rarity[one] for one, weight in part.items()) for part in sections),
        frozenset(one for one, weight in sections[TITLE].items() if weight > 0.6),
    )


def _frozen(lists: Mapping[str, list[T]]) -> dict[str, tuple[T, ...]]:
    return {key: tuple(values) for key, values in lists.items()}
