"""Ranks many tools by how well they match some words, as search engines do. Pure.

A shared word counts by its rarity and its place. Whether any of the tools is needed, `scores` and
`classifier` judge. A thousand tools take some milliseconds.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from bot.agent.tool_matching.features import MessageFeatures
from bot.agent.tool_matching.index import (
    CHOICES,
    DESCRIPTION,
    FIELDS,
    NESTED,
    NOTES,
    PREFIX_LETTERS,
    TITLE,
    ToolIndex,
)
from bot.agent.tool_matching.synonyms import compare_actions, load_synonyms

# How many mentions a word in a section counts as.
SECTION_WEIGHTS = {TITLE: 3.0, DESCRIPTION: 2.0, FIELDS: 1.0, NOTES: 1.0, CHOICES: 1.0, NESTED: 1.0}
SATURATION = 1.2  # how soon further mentions of a word add little (k1 of BM25)
LENGTH_PENALTY = 0.7  # how much a long description counts against a tool (b of BM25)
PREFIX_WEIGHT = 0.5  # of a word that only begins alike
RELATED_WEIGHT = 0.7  # of a word for something similar
MIN_SOURCE_PART = 4  # letters of a word that counts where the name of a source holds it, as `mail` in `gmail`
NAME_BONUS = 1.0  # what a completely matched name adds


def rank_tools(message: MessageFeatures, tool_index: ToolIndex, limit: int) -> list[tuple[str, float]]:
    """Names of at most `limit` tools that share something with the words, best first, with scores above 0."""
    counter = _RankCounter(tool_index)
    # A few bare words are not recognized as English, so each of them counts; hints count only where tools
    # have them.
    hints: AbstractSet[str] = message.hints
    if message.is_english:
        hints = hints & tool_index.postings.keys()
    hints = hints | (message.joined_stems & tool_index.postings.keys())
    for stem, weight in {**dict.fromkeys(sorted(hints), 1.0), **message.stems}.items():
        counter.add_stem(stem, weight)
    scores = counter.finish()
    for number in scores:
        scores[number] *= compare_actions(message.actions, tool_index.tools[number].actions)
    best = heapq.nsmallest(limit, scores, key=lambda number: (-scores[number], tool_index.tools[number].name))
    return [(tool_index.tools[number].name, scores[number]) for number in best]


class _RankCounter:
    """The score of each tool, by number, while it is counted."""

    def __init__(self, tool_index: ToolIndex) -> None:
        self._tool_index = tool_index
        self._scores: defaultdict[int, float] = defaultdict(float)
        # By tool: the stems of its name that were found, with their weights.
        self._name_matches: defaultdict[int, dict[str, float]] = defaultdict(dict)
        self._saturation = _compute_saturation(tool_index)

    def add_stem(self, stem: str, weight: float) -> None:
        """Count one stem; of the several forms a tool may have of it, the one with the most gain counts."""
        best_gains: dict[int, float] = {}
        for form, strength, last_section in self._expand_stem(stem, weight):
            for number, gain in self._compute_gains(form, strength, last_section):
                if gain > best_gains.get(number, 0.0):
                    best_gains[number] = gain
        for number, gain in best_gains.items():
            self._scores[number] += gain

    def finish(self) -> dict[int, float]:
        """The scores by number of the tool, the bonus for matched names included."""
        for number, matches in self._name_matches.items():
            name_weight = self._tool_index.tools[number].section_weights[TITLE]
            if name_weight:
                self._scores[number] += NAME_BONUS * sum(matches.values()) / name_weight
        return self._scores

    def _expand_stem(self, stem: str, weight: float) -> Iterator[tuple[str, float, int]]:
        """Stems to look for, with the weight of each and the last section of a tool in which it counts."""
        yield stem, weight, NESTED
        for alike in self._tool_index.by_prefix.get(stem[:PREFIX_LETTERS], ()):
            yield alike, PREFIX_WEIGHT * weight, NESTED
        synonyms = load_synonyms().alike_stems.get(stem, frozenset())
        for source in self._find_sources({stem, *synonyms}):
            yield source, PREFIX_WEIGHT * weight, TITLE
        for related in {*synonyms, *self._tool_index.related_stems.get(stem, ())}:
            yield related, RELATED_WEIGHT * weight, DESCRIPTION

    def _find_sources(self, stems: AbstractSet[str]) -> Iterator[str]:
        """Stems of sources' names that hold one of these within."""
        parts = [part for part in stems if len(part) >= MIN_SOURCE_PART]
        for source in self._tool_index.source_stems - stems:
            if any(part in source for part in parts):
                yield source

    def _compute_gains(self, stem: str, strength: float, last_section: int) -> Iterator[tuple[int, float]]:
        mentions: defaultdict[int, float] = defaultdict(float)
        for posting in self._tool_index.postings.get(stem, ()):
            if posting.section <= last_section:
                mentions[posting.tool_number] += SECTION_WEIGHTS[posting.section]
            if posting.section == TITLE:
                matches = self._name_matches[posting.tool_number]
                matches[stem] = max(matches.get(stem, 0.0), strength * posting.weight)
        if last_section == NESTED:
            for number in self._tool_index.nested_tools.get(stem, ()):
                mentions[number] += SECTION_WEIGHTS[NESTED]
        rarity = self._tool_index.rarity.get(stem, 0.0)
        for number, count in mentions.items():
            yield number, strength * rarity * count * (SATURATION + 1) / (count + self._saturation[number])


def _compute_saturation(tool_index: ToolIndex) -> list[float]:
    """For each tool how soon further mentions of a word add little: the longer its description, the later.

    Its arguments are not counted: an operation with fifty of them is as likely to be meant as one with two.
    """
    lengths = [
        sum(SECTION_WEIGHTS[section] * tool.section_weights[section] for section in (TITLE, DESCRIPTION))
        for tool in tool_index.tools
    ]
    if not any(lengths):
        return [SATURATION] * len(lengths)
    mean_length = sum(lengths) / len(lengths)
    return [SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * length / mean_length) for length in lengths]
