"""What `bench direct` and `bench gateway` ask for: the shapes under which figures of this model were
published.

Pure. The words are our own; the simulated model of the bench answers them at the lengths told here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.domain import CANVAS

LONG = 337  # tokens of an answer: four of them came to 1,349 in the published run
SHORT = 94
FIRST = 84
ENOUGH = 1024  # most tokens of an answer that may end by itself
LENGTHS = (64, 128, 256, 320, 512, 576, 768, 1024)
"""Where the answers of the row of lengths are cut: inside canvases and at their ends."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt. `tokens` is how long its answer is likely to be, `most` where it is cut."""

    text: str
    tokens: int
    most: int = ENOUGH


@dataclass(frozen=True, slots=True)
class Protocol:
    """Some prompts, so many of them at once. `key` is stable, for machines; `brief`: part of a quick run,
    too.
    """

    key: str
    label: str
    asks: tuple[Ask, ...]
    at_once: int = 1
    brief: bool = True

    def cut(self, count: int) -> "Protocol":
        """The same with the first prompts alone."""
        return Protocol(self.key, self.label, self.asks[:count], min(self.at_once, count), self.brief)


_STORY = (
    "Write a long story, without headings or lists, about {}. Do not stop before it has at least 900 words."
)
_PROGRAM = "Write a long Python module, code only and no explanation, that {}. Do not stop before 150 lines."
_THINGS = ("a lighthouse keeper", "a train that is late", "a town without clocks", "two sisters and a map")

FIRST_REQUEST = Protocol(
    "first", "the first request", (Ask("Say in four sentences what a lighthouse is for.", FIRST),)
)
LONG_ANSWERS = tuple(
    Ask(f"Explain {thing} to a curious adult, in about 250 words and without headings.", LONG)
    for thing in (
        "how a refrigerator moves heat",
        "why the sea has tides",
        "how a letter found its way before there were postcodes",
        "what happens in bread dough while it rises",
    )
)
SHORT_ANSWERS = tuple(
    Ask(f"{question} Answer in about 70 words.", SHORT)
    for question in (
        "Why is the sky blue?",
        "What is a mutex?",
        "How does a sundial show the time?",
        "Why do onions make us cry?",
    )
)
_PROSE = tuple(Ask(_STORY.format(thing), ENOUGH, CANVAS) for thing in _THINGS)
_CODE = tuple(
    Ask(_PROGRAM.format(work), ENOUGH, CANVAS)
    for work in (
        "reads a CSV file and sums it up by month",
        "keeps a to-do list in SQLite",
        "solves a maze and draws the way",
        "parses arithmetic and evaluates it",
    )
)

ANSWERS = (
    Protocol("long", "long answers, one after another", LONG_ANSWERS),
    Protocol("together", "long answers, four at once", LONG_ANSWERS, at_once=4),
    Protocol("short", "short answers, one after another", SHORT_ANSWERS),
)
"""What is asked through the gateway, too."""
PROTOCOLS = (
    *ANSWERS,
    Protocol("prose", "one full canvas of prose", _PROSE),
    Protocol("code", "one full canvas of code", _CODE),
    Protocol("canvases", "one full canvas each, four at once", _PROSE, at_once=4),
    Protocol(
        "lengths",
        "cut at many lengths",
        tuple(Ask(_STORY.format(_THINGS[0]), ENOUGH, length) for length in LENGTHS),
        brief=False,
    ),
)


def wished(protocols: Sequence[Protocol], *, quick: bool) -> Sequence[Protocol]:
    """All of them; in a quick run the brief ones, with two prompts each where they come one after another."""
    if not quick:
        return protocols
    return [one.cut(one.at_once if one.at_once > 1 else 2) for one in protocols if one.brief]
