"""The index of a turn's tools by stem, to match messages against; built once for a set of tools. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from bot.agent.tool_matching.concepts import load_concepts
from bot.agent.tool_matching.features import weigh_stems
from bot.agent.tool_matching.stems import split_words, stem
from bot.agent.tool_matching.synonyms import find_actions

T = TypeVar("T")
ThinkingNeed = Literal["never", "may", "needs"]

TITLE, DESCRIPTION, FIELDS, NOTES, CHOICES, NESTED = range(6)
PREFIX_LETTERS = 5  # letters that two stems must share to count as alike
MAX_NESTED_FIELDS = 80  # of a tool, that are indexed
MAX_NESTED_DEPTH = 3

# A tool that is named after a path, such as mail_post_api_v1_drafts: these parts name nothing it works with.
_PATH_METHODS = frozenset({"post", "put", "patch"})
_PATH_PARTS = frozenset({"api", "v1", "v2", "v3"})
_TEST = "test"  # what sends a test message, sends none


class MatchableTool(Protocol):
    """What is needed of a tool; `tools.base.Tool` has it."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...
    @property
    def thinking(self) -> ThinkingNeed: ...
    @property
    def source(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """One tool: how many numbers, texts and arguments it requires, and the weight of its words by section.

    `actions`: what it does, in the words of synonyms.txt; empty if nothing tells.
    """

    name: str
    thinking: ThinkingNeed
    required_numbers: int
    required_texts: int
    required_count: int
    section_weights: tuple[float, ...]
    title_stems: frozenset[str]
    actions: frozenset[str]


class Posting(NamedTuple):
    """An occurrence of a stem: in which tool and section, and its weight there.

    A tuple, since there are thousands of them where tools are many.
    """

    tool_number: int
    section: int
    weight: float


@dataclass(frozen=True, slots=True)
class ToolIndex:
    """Some tools, offered together.

    postings: occurrences of each stem, those in NESTED left out.
    nested_tools: numbers of the tools that have a stem in NESTED; searches alone look there.
    rarity: of each stem, 0 to 1; least for stems that all tools have.
    by_prefix: the stems that begin with the same PREFIX_LETTERS letters.
    related_stems: by stem, stems of names and descriptions that mean something similar.
    source_stems: those of the names of sources.
    """

    tools: tuple[ToolProfile, ...]
    postings: Mapping[str, tuple[Posting, ...]]
    nested_tools: Mapping[str, tuple[int, ...]]
    rarity: Mapping[str, float]
    by_prefix: Mapping[str, tuple[str, ...]]
    related_stems: Mapping[str, tuple[str, ...]]
    source_stems: frozenset[str]


def build_index(tools: Iterable[MatchableTool]) -> ToolIndex:
    """Build the index of these tools; keep it as long as they are offered."""
    tools = list(tools)
    tool_sections = [_split_sections(tool) for tool in tools]
    rarity = _compute_rarity(tool_sections)
    postings = _list_postings(tool_sections, rarity)
    nested_tools: dict[str, list[int]] = defaultdict(list)
    for number, sections in enumerate(tool_sections):
        for key in sections[NESTED]:
            nested_tools[key].append(number)
    by_prefix: dict[str, list[str]] = defaultdict(list)
    related_stems: dict[str, list[str]] = defaultdict(list)
    concept_stems = load_concepts().related_stems
    for key, key_postings in postings.items():
        if len(key) >= PREFIX_LETTERS:
            by_prefix[key[:PREFIX_LETTERS]].append(key)
        if any(posting.section <= DESCRIPTION for posting in key_postings):
            for related in concept_stems.get(key, ()):
                related_stems[related].append(key)
    profiles = [
        _build_profile(tool, sections, rarity) for tool, sections in zip(tools, tool_sections, strict=True)
    ]
    source_stems = frozenset(stem(word) for tool in tools for word in split_words(tool.source))
    return ToolIndex(
        tuple(profiles),
        _freeze(postings),
        _freeze(nested_tools),
        rarity,
        _freeze(by_prefix),
        _freeze(related_stems),
        source_stems,
    )


def _list_postings(
    tool_sections: Sequence[Sequence[Mapping[str, float]]], rarity: Mapping[str, float]
) -> dict[str, list[Posting]]:
    postings: dict[str, list[Posting]] = defaultdict(list)
    for number, sections in enumerate(tool_sections):
        for section, weights in enumerate(sections[:NESTED]):
            for key, weight in weights.items():
                postings[key].append(Posting(number, section, weight * rarity[key]))
    return postings


def _split_sections(tool: MatchableTool) -> tuple[dict[str, float], ...]:
    """The stems of each section with their weights, in the order of TITLE to NESTED."""
    fields = _list_fields(tool)
    notes = " ".join(str(field.get("description", "")) for field in fields.values())
    choices = " ".join(str(choice) for field in fields.values() for choice in _list_choices(field))
    nested = list(islice(_list_nested_fields(tool.input_schema), MAX_NESTED_FIELDS))
    texts = (tool.description, " ".join(fields), notes, choices, " ".join(nested))
    return (
        weigh_stems(_split_title(tool.name)),
        *(weigh_stems(split_words(text)) for text in texts),
    )


def _split_title(name: str) -> list[str]:
    words = split_words(name)
    if _is_path(words):
        del words[1]
    return [word for word in words if word not in _PATH_PARTS]


def _list_nested_fields(schema: object, depth: int = 0) -> Iterator[str]:
    """Names of the fields inside the arguments of a schema, level after level of each."""
    if not isinstance(schema, Mapping) or depth > MAX_NESTED_DEPTH:
        return
    fields = schema.get("properties")
    if isinstance(fields, Mapping):
        if depth:
            yield from map(str, fields)
        for field in fields.values():
            yield from _list_nested_fields(field, depth + 1)
    yield from _list_nested_fields(schema.get("items"), depth + 1)


def _list_fields(tool: MatchableTool) -> dict[str, Mapping[str, Any]]:
    fields = tool.input_schema.get("properties")
    if not isinstance(fields, Mapping):
        return {}
    return {name: field for name, field in fields.items() if isinstance(field, Mapping)}


def _list_choices(field: Mapping[str, Any]) -> Sequence[Any]:
    choices = field.get("enum")
    items = field.get("items")
    if not choices and isinstance(items, Mapping):
        choices = items.get("enum")
    if isinstance(choices, list):
        return choices
    return ()


def _compute_rarity(tool_sections: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, float]:
    tool_counts = Counter(key for sections in tool_sections for key in set().union(*sections))
    total = len(tool_sections) + 1
    max_rarity = math.log(total / 1.5)
    return {key: math.log(total / (count + 0.5)) / max_rarity for key, count in tool_counts.items()}


def _build_profile(
    tool: MatchableTool, sections: Sequence[Mapping[str, float]], rarity: Mapping[str, float]
) -> ToolProfile:
    fields = _list_fields(tool)
    required = tool.input_schema.get("required")
    if not isinstance(required, list):
        required = []
    types = [field.get("type") for name, field in fields.items() if name in required]
    return ToolProfile(
        name=tool.name,
        thinking=tool.thinking,
        required_numbers=sum(kind in ("integer", "number", "float") for kind in types),
        required_texts=sum(kind == "string" for kind in types),
        required_count=len(types),
        section_weights=tuple(
            sum(weight * rarity[key] for key, weight in weights.items()) for weights in sections
        ),
        title_stems=frozenset(key for key, weight in sections[TITLE].items() if weight > 0.6),
        actions=_find_tool_actions(tool),
    )


def _find_tool_actions(tool: MatchableTool) -> frozenset[str]:
    """What a tool does, by its name or how its description begins; the method of a path tells least."""
    name_words = split_words(tool.name)
    first_words = split_words(tool.description)[:2]
    if _TEST in name_words:
        return find_actions([_TEST])
    if _is_path(name_words):
        return find_actions((*name_words[2:], *first_words, name_words[1]))
    return find_actions((*name_words, *first_words))


def _is_path(name_words: Sequence[str]) -> bool:
    return len(name_words) > 2 and (name_words[1] in _PATH_METHODS or name_words[2] in _PATH_PARTS)


def _freeze(lists: Mapping[str, list[T]]) -> dict[str, tuple[T, ...]]:
    return {key: tuple(values) for key, values in lists.items()}
