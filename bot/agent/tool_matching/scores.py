"""A message held against each tool on offer, as a few dozen numbers. Pure; takes a fraction of a millisecond."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.tool_matching.features import MessageFeatures
from bot.agent.tool_matching.index import (
    CHOICES,
    DESCRIPTION,
    FIELDS,
    NOTES,
    PREFIX_LETTERS,
    TITLE,
    ToolIndex,
    ToolProfile,
)

SECTION_WEIGHTS = {
    TITLE: 1.0,
    DESCRIPTION: 0.9,
    FIELDS: 0.7,
    NOTES: 0.5,
    CHOICES: 0.6,
}  # by the section a message's word is found in
PREFIX_WEIGHT = 0.7  # a word that only begins alike
RELATED_WEIGHT = 0.5  # a word for something near


class MatchCounts:
    """What a message and one tool have in common, while it is counted: weights, and the stems of its name."""

    __slots__ = ("hit", "met", "soft", "strong", "sums", "told")

    def __init__(self) -> None:
        self.hit = self.soft = self.told = self.strong = 0.0
        self.sums = [0.0] * len(SECTION_WEIGHTS)
        self.met: set[str] = set()

    def section_share(self, section: int, tool: ToolProfile) -> float:
        """How much of a section of the tool the message has."""
        whole = tool.section_weights[section]
        if whole:
            return self.sums[section] / whole
        return 0.0


@dataclass(frozen=True, slots=True)
class ToolMatch:
    """A message held against one tool; the higher the `score`, the better it fits. `total`: weight of the
    message.
    """

    tool: ToolProfile
    score: float
    features: Mapping[str, float]
    counts: MatchCounts
    message_weight: float


class _MatchCounter:
    """Finds the stems of a message in all tools: themselves, what begins alike, what means something near."""

    def __init__(self, tool_index: ToolIndex) -> None:
        self.match_counts: defaultdict[int, MatchCounts] = defaultdict(
            MatchCounts
        )  # of many tools, most have nothing in common with it
        self.message_weight = 0.0
        self._tool_index = tool_index
        self._met_stems: dict[str, float] = {}

    def add_stem(self, stem: str, weight: float) -> None:
        """Count one stem of the message."""
        worth = weight * self._tool_index.rarity.get(stem, 1.0)
        self.message_weight += worth
        reach = self._match_prefix(stem, self._match_exact(stem))
        for number, tells in reach.items():
            self.match_counts[number].hit += worth * tells
            self.match_counts[number].told += worth
        if weight == 1.0:
            for number in self._find_prominent(stem):
                self.match_counts[number].strong += 1
        for number in self._match_related(stem) - reach.keys():
            self.match_counts[number].soft += worth
            self.match_counts[number].told += worth

    def finish(self) -> None:
        """Sum up by section what was met, each stem of a tool once."""
        for one, strength in self._met_stems.items():
            for spot in self._tool_index.postings[one]:
                self.match_counts[spot.tool_number].sums[spot.section] += strength * spot.weight
                if spot.section == TITLE:
                    self.match_counts[spot.tool_number].met.add(one)

    def _match_exact(self, stem: str) -> dict[int, float]:
        reach: dict[int, float] = {}
        for spot in self._tool_index.postings.get(stem, ()):
            reach[spot.tool_number] = max(reach.get(spot.tool_number, 0.0), SECTION_WEIGHTS[spot.section])
        if reach:
            self._met_stems[stem] = 1.0
        return reach

    def _match_prefix(self, stem: str, exact: dict[int, float]) -> dict[int, float]:
        reach = dict(exact)
        for other in self._tool_index.by_prefix.get(stem[:PREFIX_LETTERS], ()):
            self._met_stems[other] = max(self._met_stems.get(other, 0.0), PREFIX_WEIGHT)
            for spot in self._tool_index.postings[other]:
                if spot.tool_number not in exact:
                    reach[spot.tool_number] = max(
                        reach.get(spot.tool_number, 0.0), PREFIX_WEIGHT * SECTION_WEIGHTS[spot.section]
                    )
        return reach

    def _find_prominent(self, stem: str) -> set[int]:
        return {
            spot.tool_number
            for spot in self._tool_index.postings.get(stem, ())
            if spot.section <= DESCRIPTION
        }

    def _match_related(self, stem: str) -> set[int]:
        tools: set[int] = set()
        for other in self._tool_index.related_stems.get(stem, ()):
            self._met_stems[other] = max(self._met_stems.get(other, 0.0), RELATED_WEIGHT)
            tools |= self._find_prominent(other)
        return tools


def match_tools(message: MessageFeatures, tool_index: ToolIndex) -> list[ToolMatch]:
    """The tools that have something in common with the message, best first; if none has, one that has
    nothing.
    """
    count = _MatchCounter(tool_index)
    for one, weight in message.stems.items():
        count.add_stem(one, weight)
    for one in sorted((message.hints & tool_index.postings.keys()) - message.stems.keys()):
        count.add_stem(one, 1.0)
    count.finish()
    touched = sorted(count.match_counts.items()) or [(0, MatchCounts())]
    found = [_build_match(tool_index.tools[number], tally, count.message_weight) for number, tally in touched]
    return sorted(found, key=lambda match: -match.score)


def _build_match(tool: ToolProfile, counts: MatchCounts, message_weight: float) -> ToolMatch:
    title, about = (counts.section_share(section, tool) for section in (TITLE, DESCRIPTION))
    near = (counts.hit + RELATED_WEIGHT * counts.soft) / message_weight if message_weight else 0.0
    strong = math.log1p(counts.strong)
    numbers = {
        "hit": math.log1p(counts.hit),
        "covered": counts.hit / message_weight if message_weight else 0.0,
        "near": near,
        "title": title,
        "title_hit": math.log1p(counts.sums[TITLE]),
        "about": about,
        "about_hit": math.log1p(counts.sums[DESCRIPTION]),
        "strong": strong,
    }
    score = 1.2 * near + 1.5 * title + 0.8 * about + 0.3 * counts.section_share(FIELDS, tool) + 0.5 * strong
    return ToolMatch(tool, score, numbers, counts, message_weight)


def build_features(message: MessageFeatures, tool_matches: list[ToolMatch]) -> dict[str, float]:
    """What the model reads: the best tool, how far it is ahead, the best of all tools, and the sentence."""
    best = tool_matches[0]
    second = tool_matches[1].score if len(tool_matches) > 1 else 0.0
    shared = {f"any_{name}": max(match.features[name] for match in tool_matches) for name in best.features}
    ahead = {"score": best.score, "ahead": best.score - second}
    return {
        **best.features,
        **_describe_leftovers(best),
        **_describe_arguments(message, best.tool),
        **ahead,
        **shared,
        **message.sentence_features,
    }


def _describe_leftovers(best: ToolMatch) -> dict[str, float]:
    """What else message and tool have in common, and what is left over of both."""
    tool = best.tool
    tally = best.counts
    return {
        "soft": math.log1p(tally.soft),
        "rest": math.log1p(max(0.0, best.message_weight - tally.told)),
        "fields": tally.section_share(FIELDS, tool),
        "notes": tally.section_share(NOTES, tool),
        "choice": float(tally.sums[CHOICES] > 0),
        "missing": math.log1p(len(tool.title_stems - tally.met)),
    }


def _describe_arguments(message: MessageFeatures, tool: ToolProfile) -> dict[str, float]:
    """Whether the message holds what the tool must be given."""
    names = message.value_count - message.number_count
    return {
        "no_number": float(tool.required_numbers > 0 and message.number_count == 0),
        "few_numbers": float(message.number_count < tool.required_numbers),
        "numbers_given": min(1.0, message.number_count / tool.required_numbers)
        if tool.required_numbers
        else 0.0,
        "no_name": float(tool.required_texts > 0 and names == 0),
        "names_given": min(1.0, names / tool.required_texts) if tool.required_texts else 0.0,
        "filled": min(1.0, message.value_count / tool.required_count) if tool.required_count else 1.0,
        "required": min(tool.required_count, 4) / 4,
        "texts": min(tool.required_texts, 3) / 3,
    }
