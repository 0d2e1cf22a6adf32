"""Which of many tools some words are about: ranked by rarity and place of what they share, as search engines
do. Pure.

Whether any of them is needed is not asked here; `matching` judges that. A thousand tools take some
milliseconds.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator

from bot.agent.tool_matching.features import Wording
from bot.agent.tool_matching.index import ABOUT, BEGINNING, CHOICES, FIELDS, NOTES, TITLE, Offer

COUNTS = {
    TITLE: 3.0,
    ABOUT: 2.0,
    FIELDS: 1.0,
    NOTES: 1.0,
    CHOICES: 1.0,
}  # a word there, for how many mentions
FULL = 1.2  # how soon further mentions of a word add little
LONG = 0.5  # how much of its length counts against a tool that says a lot
LOOSE = 0.5  # a word that only begins alike
SOFT = 0.4  # a word for something near
NAMED = 1.0  # what a whole name adds


def ranked(said: Wording, offer: Offer, most: int) -> list[tuple[str, float]]:
    """At most so many tools that share something with the words, best first, each with what it is worth
    (above 0).
    """
    count = _Count(offer)
    # A few bare words are not read as English, so each of them counts; what signs hint at, only where tools
    # have it.
    hints = said.hints & offer.spots.keys() if said.english else said.hints
    for one, weight in {**dict.fromkeys(sorted(hints), 1.0), **said.stems}.items():
        count.add(one, weight)
    worth = count.close()
    best = heapq.nsmallest(most, worth, key=lambda tool: (-worth[tool], offer.tools[tool].name))
    return [(offer.tools[tool].name, worth[tool]) for tool in best]


class _Count:
    """What each tool is worth, while it is counted; `named`: what of its name was met."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._worth: defaultdict[int, float] = defaultdict(float)
        self._named: defaultdict[int, dict[str, float]] = defaultdict(dict)
        lengths = [
            sum(COUNTS[section] * total for section, total in enumerate(one.totals)) for one in offer.tools
        ]
        usual = sum(lengths) / len(lengths) if lengths else 0.0
        self._slow = [FULL * (1 - LONG + LONG * length / usual) if usual else FULL for length in lengths]

    def add(self, one: str, weight: float) -> None:
        """Count one stem; what a tool has in several forms counts in the one that tells most."""
        best: dict[int, float] = {}
        for other, strength, last in self._forms(one, weight):
            for tool, gain in self._gains(other, strength, last):
                if gain > best.get(tool, 0.0):
                    best[tool] = gain
        for tool, gain in best.items():
            self._worth[tool] += gain

    def close(self) -> dict[int, float]:
        """What each tool is worth, by number."""
        for tool, met in self._named.items():
            if whole := self._offer.tools[tool].totals[TITLE]:
                self._worth[tool] += NAMED * sum(met.values()) / whole
        return self._worth

    def _forms(self, one: str, weight: float) -> Iterator[tuple[str, float, int]]:
        """Stems to look for, what each is worth, and up to which section of a tool it tells."""
        yield one, weight, CHOICES
        yield from ((other, LOOSE * weight, CHOICES) for other in self._offer.alike.get(one[:BEGINNING], ()))
        yield from ((other, SOFT * weight, ABOUT) for other in self._offer.near.get(one, ()))

    def _gains(self, one: str, strength: float, last: int) -> Iterator[tuple[int, float]]:
        mentions: defaultdict[int, float] = defaultdict(float)
        for spot in self._offer.spots.get(one, ()):
            if spot.section <= last:
                mentions[spot.tool] += COUNTS[spot.section]
            if spot.section == TITLE:
                met = self._named[spot.tool]
                met[one] = max(met.get(one, 0.0), strength * spot.weight)
        rarity = self._offer.rarity.get(one, 0.0)
        for tool, times in mentions.items():
            yield tool, strength * rarity * times * (FULL + 1) / (times + self._slow[tool])
