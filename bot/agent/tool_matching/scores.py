"""A message held against each tool on offer, as a few dozen numbers. Pure; takes a fraction of a millisecond."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.tool_matching.features import Wording
from bot.agent.tool_matching.index import ABOUT, BEGINNING, CHOICES, FIELDS, NOTES, TITLE, Offer, Shape

TELLS = {
    TITLE: 1.0,
    ABOUT: 0.9,
    FIELDS: 0.7,
    NOTES: 0.5,
    CHOICES: 0.6,
}  # by the section a message's word is found in
LOOSE = 0.7  # a word that only begins alike
SOFT = 0.5  # a word for something near


class Tally:
    """What a message and one tool have in common, while it is counted: weights, and the stems of its name."""

    __slots__ = ("hit", "met", "soft", "strong", "sums", "told")

    def __init__(self) -> None:
        self.hit = self.soft = self.told = self.strong = 0.0
        self.sums = [0.0] * len(TELLS)
        self.met: set[str] = set()

    def share(self, section: int, tool: Shape) -> float:
        """How much of a section of the tool the message has."""
        whole = tool.totals[section]
        if whole:
            return self.sums[section] / whole
        return 0.0


@dataclass(frozen=True, slots=True)
class Match:
    """A message held against one tool; the higher the `score`, the better it fits. `total`: weight of the
    message.
    """

    tool: Shape
    score: float
    numbers: Mapping[str, float]
    tally: Tally
    total: float


class _Count:
    """Finds the stems of a message in all tools: themselves, what begins alike, what means something near."""

    def __init__(self, offer: Offer) -> None:
        self.tallies: defaultdict[int, Tally] = defaultdict(
            Tally
        )  # of many tools, most have nothing in common with it
        self.total = 0.0
        self._offer = offer
        self._met: dict[str, float] = {}

    def add(self, one: str, weight: float) -> None:
        """Count one stem of the message."""
        worth = weight * self._offer.rarity.get(one, 1.0)
        self.total += worth
        reach = self._alike(one, self._exact(one))
        for number, tells in reach.items():
            self.tallies[number].hit += worth * tells
            self.tallies[number].told += worth
        if weight == 1.0:
            for number in self._headed(one):
                self.tallies[number].strong += 1
        for number in self._near(one) - reach.keys():
            self.tallies[number].soft += worth
            self.tallies[number].told += worth

    def close(self) -> None:
        """Sum up by section what was met, each stem of a tool once."""
        for one, strength in self._met.items():
            for spot in self._offer.spots[one]:
                self.tallies[spot.tool].sums[spot.section] += strength * spot.weight
                if spot.section == TITLE:
                    self.tallies[spot.tool].met.add(one)

    def _exact(self, one: str) -> dict[int, float]:
        reach: dict[int, float] = {}
        for spot in self._offer.spots.get(one, ()):
            reach[spot.tool] = max(reach.get(spot.tool, 0.0), TELLS[spot.section])
        if reach:
            self._met[one] = 1.0
        return reach

    def _alike(self, one: str, exact: dict[int, float]) -> dict[int, float]:
        reach = dict(exact)
        for other in self._offer.alike.get(one[:BEGINNING], ()):
            self._met[other] = max(self._met.get(other, 0.0), LOOSE)
            for spot in self._offer.spots[other]:
                if spot.tool not in exact:
                    reach[spot.tool] = max(reach.get(spot.tool, 0.0), LOOSE * TELLS[spot.section])
        return reach

    def _headed(self, one: str) -> set[int]:
        return {spot.tool for spot in self._offer.spots.get(one, ()) if spot.section <= ABOUT}

    def _near(self, one: str) -> set[int]:
        tools: set[int] = set()
        for other in self._offer.near.get(one, ()):
            self._met[other] = max(self._met.get(other, 0.0), SOFT)
            tools |= self._headed(other)
        return tools


def matches(said: Wording, offer: Offer) -> list[Match]:
    """The tools that have something in common with the message, best first; if none has, one that has
    nothing.
    """
    count = _Count(offer)
    for one, weight in said.stems.items():
        count.add(one, weight)
    for one in sorted((said.hints & offer.spots.keys()) - said.stems.keys()):
        count.add(one, 1.0)
    count.close()
    touched = sorted(count.tallies.items()) or [(0, Tally())]
    found = [_match(offer.tools[number], tally, count.total) for number, tally in touched]
    return sorted(found, key=lambda match: -match.score)


def _match(tool: Shape, tally: Tally, total: float) -> Match:
    title, about = (tally.share(section, tool) for section in (TITLE, ABOUT))
    near = (tally.hit + SOFT * tally.soft) / total if total else 0.0
    strong = math.log1p(tally.strong)
    numbers = {
        "hit": math.log1p(tally.hit),
        "covered": tally.hit / total if total else 0.0,
        "near": near,
        "title": title,
        "title_hit": math.log1p(tally.sums[TITLE]),
        "about": about,
        "about_hit": math.log1p(tally.sums[ABOUT]),
        "strong": strong,
    }
    score = 1.2 * near + 1.5 * title + 0.8 * about + 0.3 * tally.share(FIELDS, tool) + 0.5 * strong
    return Match(tool, score, numbers, tally, total)


def features(said: Wording, found: list[Match]) -> dict[str, float]:
    """What the model reads: the best tool, how far it is ahead, the best of all tools, and the sentence."""
    best = found[0]
    second = found[1].score if len(found) > 1 else 0.0
    shared = {f"any_{name}": max(match.numbers[name] for match in found) for name in best.numbers}
    ahead = {"score": best.score, "ahead": best.score - second}
    return {**best.numbers, **_left(best), **_given(said, best.tool), **ahead, **shared, **said.forms}


def _left(best: Match) -> dict[str, float]:
    """What else message and tool have in common, and what is left over of both."""
    tool = best.tool
    tally = best.tally
    return {
        "soft": math.log1p(tally.soft),
        "rest": math.log1p(max(0.0, best.total - tally.told)),
        "fields": tally.share(FIELDS, tool),
        "notes": tally.share(NOTES, tool),
        "choice": float(tally.sums[CHOICES] > 0),
        "missing": math.log1p(len(tool.title - tally.met)),
    }


def _given(said: Wording, tool: Shape) -> dict[str, float]:
    """Whether the message holds what the tool must be given."""
    names = said.givens - said.numbers
    return {
        "no_number": float(tool.numbers > 0 and said.numbers == 0),
        "few_numbers": float(said.numbers < tool.numbers),
        "numbers_given": min(1.0, said.numbers / tool.numbers) if tool.numbers else 0.0,
        "no_name": float(tool.texts > 0 and names == 0),
        "names_given": min(1.0, names / tool.texts) if tool.texts else 0.0,
        "filled": min(1.0, said.givens / tool.required) if tool.required else 1.0,
        "required": min(tool.required, 4) / 4,
        "texts": min(tool.texts, 3) / 3,
    }
