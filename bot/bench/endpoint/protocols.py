"""The prompts of `bench direct` and `bench gateway`: the shapes under which figures were published.

Pure. The texts are our own; the simulated model of the bench answers them at the lengths stated here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.canvases import CANVAS_TOKENS

LONG_TOKENS = 337  # of an answer: four of them came to 1,349 in the published run
SHORT_TOKENS = 94
FIRST_TOKENS = 84
MAX_ANSWER_TOKENS = 1024  # of an answer that may end by itself
CUT_LENGTHS = (64, 128, 256, 320, 512, 576, 768, 1024)
"""Where the answers of the `lengths` protocol are cut: inside canvases and at their ends."""


@dataclass(frozen=True, slots=True)
class ProtocolPrompt:
    """One prompt: the likely length of its answer, and the length where it is cut, in tokens."""

    text: str
    expected_tokens: int
    max_tokens: int = MAX_ANSWER_TOKENS


@dataclass(frozen=True, slots=True)
class BenchProtocol:
    """Some prompts, `at_once` of them at a time.

    `key` is stable, for machines; `in_quick_run`: part of a quick run, too.
    """

    key: str
    label: str
    prompts: tuple[ProtocolPrompt, ...]
    at_once: int = 1
    in_quick_run: bool = True

    def first_prompts(self, count: int) -> "BenchProtocol":
        """The protocol with its first prompts only."""
        return BenchProtocol(
            self.key, self.label, self.prompts[:count], min(self.at_once, count), self.in_quick_run
        )


_STORY_PROMPT = (
    "Write a long story, without headings or lists, about {}. Do not stop before it has at least 900 words."
)
_PROGRAM_PROMPT = (
    "Write a long Python module, code only and no explanation, that {}. Do not stop before 150 lines."
)
_STORY_SUBJECTS = (
    "a lighthouse keeper",
    "a train that is late",
    "a town without clocks",
    "two sisters and a map",
)

FIRST_REQUEST = BenchProtocol(
    "first",
    "the first request",
    (ProtocolPrompt("Say in four sentences what a lighthouse is for.", FIRST_TOKENS),),
)
LONG_PROMPTS = tuple(
    ProtocolPrompt(
        f"Explain {thing} to a curious adult, in about 250 words and without headings.", LONG_TOKENS
    )
    for thing in (
        "how a refrigerator moves heat",
        "why the sea has tides",
        "how a letter found its way before there were postcodes",
        "what happens in bread dough while it rises",
    )
)
SHORT_PROMPTS = tuple(
    ProtocolPrompt(f"{question} Answer in about 70 words.", SHORT_TOKENS)
    for question in (
        "Why is the sky blue?",
        "What is a mutex?",
        "How does a sundial show the time?",
        "Why do onions make us cry?",
    )
)
_PROSE_PROMPTS = tuple(
    ProtocolPrompt(_STORY_PROMPT.format(thing), MAX_ANSWER_TOKENS, CANVAS_TOKENS) for thing in _STORY_SUBJECTS
)
_CODE_PROMPTS = tuple(
    ProtocolPrompt(_PROGRAM_PROMPT.format(work), MAX_ANSWER_TOKENS, CANVAS_TOKENS)
    for work in (
        "reads a CSV file and sums it up by month",
        "keeps a to-do list in SQLite",
        "solves a maze and draws the way",
        "parses arithmetic and evaluates it",
    )
)

ANSWER_PROTOCOLS = (
    BenchProtocol("long", "long answers, one by one", LONG_PROMPTS),
    BenchProtocol("together", "long answers, four at once", LONG_PROMPTS, at_once=4),
    BenchProtocol("short", "short answers, one by one", SHORT_PROMPTS),
)
"""The protocols that are also run through the gateway."""
PROTOCOLS = (
    *ANSWER_PROTOCOLS,
    BenchProtocol("prose", "prose, 256 tokens at most", _PROSE_PROMPTS),
    BenchProtocol("code", "code, 256 tokens at most", _CODE_PROMPTS),
    BenchProtocol("canvases", "the same prose, four at once", _PROSE_PROMPTS, at_once=4),
    BenchProtocol(
        "lengths",
        "cut at many lengths",
        tuple(
            ProtocolPrompt(_STORY_PROMPT.format(_STORY_SUBJECTS[0]), MAX_ANSWER_TOKENS, length)
            for length in CUT_LENGTHS
        ),
        in_quick_run=False,
    ),
)
SWEEP_PROTOCOLS = tuple(protocol for protocol in PROTOCOLS if protocol.key in {"prose", "code", "short"})
"""What is asked with each width of the canvas and each limit of its steps."""


def select_protocols(protocols: Sequence[BenchProtocol], *, quick: bool) -> Sequence[BenchProtocol]:
    """All protocols; in a quick run the short ones, with two prompts each where they are sequential."""
    if not quick:
        return protocols
    selected = []
    for protocol in protocols:
        if protocol.in_quick_run:
            count = protocol.at_once if protocol.at_once > 1 else 2
            selected.append(protocol.first_prompts(count))
    return selected
