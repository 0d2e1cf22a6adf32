"""Which of many tools some words are about: ranked by rarity and place of what they share, as search engines
do. Pure.

Whether any of them is needed is not asked here; `matching` judges that. A thousand tools take some
milliseconds.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator

from bot.agent.tool_matching.features import MessageFeatures
from bot.agent.tool_matching.index import (
    CHOICES,
    DESCRIPTION,
    FIELDS,
    NOTES,
    PREFIX_LETTERS,
    TITLE,
    ToolIndex,
)

SECTION_WEIGHTS = {
    TITLE: 3.0,
    DESCRIPTION: 2.0,
    FIELDS: 1.0,
    NOTES: 1.0,
    CHOICES: 1.0,
}  # a word there, for how many mentions
SATURATION = 1.2  # how soon further mentions of a word add little
LENGTH_PENALTY = 0.5  # how much of its length counts against a tool that says a lot
PREFIX_WEIGHT = 0.5  # a word that only begins alike
RELATED_WEIGHT = 0.4  # a word for something near
NAME_BONUS = 1.0  # what a whole name adds


def rank_tools(message: MessageFeatures, tool_index: ToolIndex, limit: int) -> list[tuple[str, float]]:
    """At most so many tools that share something with the words, best first, each with what it is worth
    (above 0).
    """
    count = _RankCounter(tool_index)
    # A few bare words are not read as English, so each of them counts; what signs hint at, only where tools
    # have it.
    hints = message.hints & tool_index.postings.keys() if message.is_english else message.hints
    for one, weight in {**dict.fromkeys(sorted(hints), 1.0), **message.stems}.items():
        count.add_stem(one, weight)
    worth = count.finish()
    best = heapq.nsmallest(limit, worth, key=lambda tool: (-worth[tool], tool_index.tools[tool].name))
    return [(tool_index.tools[tool].name, worth[tool]) for tool in best]


class _RankCounter:
    """What each tool is worth, while it is counted; `named`: what of its name was met."""

    def __init__(self, tool_index: ToolIndex) -> None:
        self._tool_index = tool_index
        self._scores: defaultdict[int, float] = defaultdict(float)
        self._name_matches: defaultdict[int, dict[str, float]] = defaultdict(dict)
        lengths = [
            sum(SECTION_WEIGHTS[section] * total for section, total in enumerate(one.section_weights))
            for one in tool_index.tools
        ]
        usual = sum(lengths) / len(lengths) if lengths else 0.0
        self._saturation = [
            SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * length / usual) if usual else SATURATION
            for length in lengths
        ]

    def add_stem(self, stem: str, weight: float) -> None:
        """Count one stem; what a tool has in several forms counts in the one that tells most."""
        best: dict[int, float] = {}
        for other, strength, last in self._expand_stem(stem, weight):
            for tool, gain in self._compute_gains(other, strength, last):
                if gain > best.get(tool, 0.0):
                    best[tool] = gain
        for tool, gain in best.items():
            self._scores[tool] += gain

    def finish(self) -> dict[int, float]:
        """What each tool is worth, by number."""
        for tool, met in self._name_matches.items():
            if whole := self._tool_index.tools[tool].section_weights[TITLE]:
                self._scores[tool] += NAME_BONUS * sum(met.values()) / whole
        return self._scores

    def _expand_stem(self, stem: str, weight: float) -> Iterator[tuple[str, float, int]]:
        """Stems to look for, what each is worth, and up to which section of a tool it tells."""
        yield stem, weight, CHOICES
        yield from (
            (other, PREFIX_WEIGHT * weight, CHOICES)
            for other in self._tool_index.by_prefix.get(stem[:PREFIX_LETTERS], ())
        )
        yield from (
            (other, RELATED_WEIGHT * weight, DESCRIPTION)
            for other in self._tool_index.related_stems.get(stem, ())
        )

    def _compute_gains(self, stem: str, strength: float, last_section: int) -> Iterator[tuple[int, float]]:
        mentions: defaultdict[int, float] = defaultdict(float)
        for spot in self._tool_index.postings.get(stem, ()):
            if spot.section <= last_section:
                mentions[spot.tool_number] += SECTION_WEIGHTS[spot.section]
            if spot.section == TITLE:
                met = self._name_matches[spot.tool_number]
                met[stem] = max(met.get(stem, 0.0), strength * spot.weight)
        rarity = self._tool_index.rarity.get(stem, 0.0)
        for tool, times in mentions.items():
            yield tool, strength * rarity * times * (SATURATION + 1) / (times + self._saturation[tool])
