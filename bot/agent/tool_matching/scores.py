"""Matches a message against each tool offered, as a few dozen numbers for the classifier. Pure.

Takes a fraction of a millisecond.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
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

# By the section in which a word of the message is found.
SECTION_WEIGHTS = {TITLE: 1.0, DESCRIPTION: 0.9, FIELDS: 0.7, NOTES: 0.5, CHOICES: 0.6}
PREFIX_WEIGHT = 0.7  # of a word that only begins alike
RELATED_WEIGHT = 0.5  # of a word for something similar


class MatchCounts:
    """What a message and one tool have in common, while it is counted.

    hit: weight of the stems that the tool has, or has alike, by section.
    soft: weight of those that only mean something similar.
    accounted: weight of all these stems, whatever the section.
    strong: number of full-weight stems in the tool's name or description.
    section_sums: weights of the tool's own stems that were met, by section.
    name_stems: those of them that are in its name.
    """

    __slots__ = ("accounted", "hit", "name_stems", "section_sums", "soft", "strong")

    def __init__(self) -> None:
        self.hit = 0.0
        self.soft = 0.0
        self.accounted = 0.0
        self.strong = 0.0
        self.section_sums = [0.0] * len(SECTION_WEIGHTS)
        self.name_stems: set[str] = set()

    def section_share(self, section: int, tool: ToolProfile) -> float:
        """How much of a section of the tool the message contains, 0 to 1."""
        section_weight = tool.section_weights[section]
        if section_weight:
            return self.section_sums[section] / section_weight
        return 0.0


@dataclass(frozen=True, slots=True)
class ToolMatch:
    """A message matched against one tool; the higher the `score`, the better it fits.

    `message_weight` is the weight of the whole message.
    """

    tool: ToolProfile
    score: float
    features: Mapping[str, float]
    counts: MatchCounts
    message_weight: float


class _MatchCounter:
    """Finds the stems of a message in all tools: exact ones, those that begin alike, and related ones."""

    def __init__(self, tool_index: ToolIndex) -> None:
        # By number; if tools are many, most have nothing in common with the message.
        self.match_counts: defaultdict[int, MatchCounts] = defaultdict(MatchCounts)
        self.message_weight = 0.0
        self._tool_index = tool_index
        self._met_stems: dict[str, float] = {}

    def add_stem(self, stem: str, weight: float) -> None:
        """Count one stem of the message."""
        stem_weight = weight * self._tool_index.rarity.get(stem, 1.0)
        self.message_weight += stem_weight
        strengths = self._match_prefix(stem, self._match_exact(stem))
        for number, strength in strengths.items():
            self.match_counts[number].hit += stem_weight * strength
            self.match_counts[number].accounted += stem_weight
        if weight == 1.0:
            for number in self._find_prominent(stem):
                self.match_counts[number].strong += 1
        for number in self._match_related(stem) - strengths.keys():
            self.match_counts[number].soft += stem_weight
            self.match_counts[number].accounted += stem_weight

    def finish(self) -> None:
        """Sum up by section what was met, each stem of a tool once."""
        for stem, strength in self._met_stems.items():
            for posting in self._tool_index.postings[stem]:
                counts = self.match_counts[posting.tool_number]
                counts.section_sums[posting.section] += strength * posting.weight
                if posting.section == TITLE:
                    counts.name_stems.add(stem)

    def _match_exact(self, stem: str) -> dict[int, float]:
        """How strongly each tool that has the stem matches."""
        strengths: dict[int, float] = {}
        for posting in self._tool_index.postings.get(stem, ()):
            strength = SECTION_WEIGHTS[posting.section]
            strengths[posting.tool_number] = max(strengths.get(posting.tool_number, 0.0), strength)
        if strengths:
            self._met_stems[stem] = 1.0
        return strengths

    def _match_prefix(self, stem: str, exact: dict[int, float]) -> dict[int, float]:
        """The exact matches, and tools that only have stems that begin alike."""
        strengths = dict(exact)
        for alike in self._tool_index.by_prefix.get(stem[:PREFIX_LETTERS], ()):
            self._met_stems[alike] = max(self._met_stems.get(alike, 0.0), PREFIX_WEIGHT)
            for posting in self._tool_index.postings[alike]:
                if posting.tool_number not in exact:
                    strength = PREFIX_WEIGHT * SECTION_WEIGHTS[posting.section]
                    strengths[posting.tool_number] = max(strengths.get(posting.tool_number, 0.0), strength)
        return strengths

    def _find_prominent(self, stem: str) -> set[int]:
        """Tools that have the stem in their name or description."""
        return {
            posting.tool_number
            for posting in self._tool_index.postings.get(stem, ())
            if posting.section <= DESCRIPTION
        }

    def _match_related(self, stem: str) -> set[int]:
        tools: set[int] = set()
        for related in self._tool_index.related_stems.get(stem, ()):
            self._met_stems[related] = max(self._met_stems.get(related, 0.0), RELATED_WEIGHT)
            tools |= self._find_prominent(related)
        return tools


def match_tools(message: MessageFeatures, tool_index: ToolIndex) -> list[ToolMatch]:
    """The tools that have something in common with the message, best first; else a single other one."""
    counter = _MatchCounter(tool_index)
    for stem, weight in message.stems.items():
        counter.add_stem(stem, weight)
    for hint in sorted((message.hints & tool_index.postings.keys()) - message.stems.keys()):
        counter.add_stem(hint, 1.0)
    counter.finish()
    matched = sorted(counter.match_counts.items()) or [(0, MatchCounts())]
    matches = [
        _build_match(tool_index.tools[number], counts, counter.message_weight) for number, counts in matched
    ]
    return sorted(matches, key=lambda match: -match.score)


def _build_match(tool: ToolProfile, counts: MatchCounts, message_weight: float) -> ToolMatch:
    title = counts.section_share(TITLE, tool)
    about = counts.section_share(DESCRIPTION, tool)
    fields = counts.section_share(FIELDS, tool)
    strong = math.log1p(counts.strong)
    covered = 0.0
    near = 0.0
    if message_weight:
        covered = counts.hit / message_weight
        near = (counts.hit + RELATED_WEIGHT * counts.soft) / message_weight
    features = {
        "hit": math.log1p(counts.hit),
        "covered": covered,
        "near": near,
        "title": title,
        "title_hit": math.log1p(counts.section_sums[TITLE]),
        "about": about,
        "about_hit": math.log1p(counts.section_sums[DESCRIPTION]),
        "strong": strong,
    }
    score = 1.2 * near + 1.5 * title + 0.8 * about + 0.3 * fields + 0.5 * strong
    return ToolMatch(tool, score, features, counts, message_weight)


def build_features(message: MessageFeatures, tool_matches: Sequence[ToolMatch]) -> dict[str, float]:
    """The classifier's input: the best tool, its lead, the best values of all tools, and the sentence."""
    best = tool_matches[0]
    second_score = tool_matches[1].score if len(tool_matches) > 1 else 0.0
    lead = {"score": best.score, "ahead": best.score - second_score}
    best_values = {
        f"any_{name}": max(match.features[name] for match in tool_matches) for name in best.features
    }
    return {
        **best.features,
        **_describe_leftovers(best),
        **_describe_arguments(message, best.tool),
        **lead,
        **best_values,
        **message.sentence_features,
    }


def _describe_leftovers(best: ToolMatch) -> dict[str, float]:
    """What else message and tool have in common, and what is left over of both."""
    tool = best.tool
    counts = best.counts
    return {
        "soft": math.log1p(counts.soft),
        "rest": math.log1p(max(0.0, best.message_weight - counts.accounted)),
        "fields": counts.section_share(FIELDS, tool),
        "notes": counts.section_share(NOTES, tool),
        "choice": float(counts.section_sums[CHOICES] > 0),
        "missing": math.log1p(len(tool.title_stems - counts.name_stems)),
    }


def _describe_arguments(message: MessageFeatures, tool: ToolProfile) -> dict[str, float]:
    """Whether the message contains what the tool requires."""
    text_count = message.value_count - message.number_count
    return {
        "no_number": float(tool.required_numbers > 0 and message.number_count == 0),
        "few_numbers": float(message.number_count < tool.required_numbers),
        "numbers_given": _share(message.number_count, tool.required_numbers, default=0.0),
        "no_name": float(tool.required_texts > 0 and text_count == 0),
        "names_given": _share(text_count, tool.required_texts, default=0.0),
        "filled": _share(message.value_count, tool.required_count, default=1.0),
        "required": min(tool.required_count, 4) / 4,
        "texts": min(tool.required_texts, 3) / 3,
    }


def _share(count: int, required: int, default: float) -> float:
    """How much of what is required there is, at most 1; `default` where nothing is required."""
    if required == 0:
        return default
    return min(1.0, count / required)
