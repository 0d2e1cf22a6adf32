"""`bench tools`: of many registered tools, how often the one that is needed stands in the prompt or is found
by words.

Builds the report; prints nothing. Judges the choice and the search themselves; no model is asked.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import thread_time
from typing import Any

from bot.agent import history
from bot.agent.tool_matching import features as wording
from bot.agent.tool_matching.ranking import ranked
from bot.agent.tool_search import FOUND, Shelf, picked
from bot.bench.harness import machine
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies.cases import Case, Described, read, read_tools
from bot.bench.policies.output import grid
from bot.errors import QuestionRefused
from tools.base import Tool, ToolContext
from tools.registry import discover

SETS = (
    ("cases.jsonl", "tools.json"),
    ("english.jsonl", "house-tools.json"),
    ("languages.jsonl", "house-tools.json"),
)
TOGETHER = "together"
ENOUGH = 0.95
DRAWN = 5  # times that other tools are drawn for the same ten

Say = Callable[[str], None]

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Wish:
    """`folders` of cases; so many tools are `registered` for each, and `room` tokens of a prompt are theirs."""

    folders: tuple[Path, ...]
    registered: int = 200
    room: int = 2000


@dataclass(frozen=True, slots=True)
class Told:
    """How the cases of one source that need a tool fare, or of all of a set: shares, 0 to 1.

    `offered`: it stands in the prompt of a conversation that begins with the message; `found`: it is among
    the first five; `first`: it is found first; `reached`: one or the other.
    """

    judged: str
    source: str
    cases: int
    offered: float
    first: float
    found: float
    reached: float


@dataclass(frozen=True, slots=True)
class Pace:
    """Milliseconds of processor time: of an index, worked out once a set of tools, and of a search. `longest`
    is the 99th percentile. `tokens`: what the tools of a prompt take, estimated, in the middle.
    """

    index: float
    search: float
    longest: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of a run."""

    told: tuple[Told, ...]
    pace: Pace
    conditions: tuple[tuple[str, str], ...]

    @property
    def holds(self) -> bool:
        """Whether every set as a whole reaches what is wanted."""
        return all(one.reached >= ENOUGH for one in self.told if one.source == TOGETHER)


@dataclass(frozen=True, slots=True)
class _Judged:
    """One case: where the needed tool was, and what that took."""

    source: str
    is_offered: bool
    place: int | None
    search: float
    tokens: int

    @property
    def is_found(self) -> bool:
        return self.place is not None and self.place < FOUND


def run(wish: Wish, say: Say = lambda line: None) -> Report:
    """Judge what lies in the folders. Raises QuestionRefused if nothing does."""
    pairs = [(folder, *pair) for folder in wish.folders for pair in SETS if (folder / pair[0]).exists()]
    if not pairs:
        raise QuestionRefused(f"No cases.jsonl with tools.json lies in {', '.join(map(str, wish.folders))}.")
    pool: dict[str, Described] = {}
    for folder, _, tools in pairs:
        pool = read_tools(folder / tools) | pool
    told = list[Told]()
    all_judged = list[_Judged]()
    guessed = 0
    among = _Among(wish, pool)
    for folder, name, tools in pairs:
        say(f"judging: {folder / name}")
        cases = [case for case in read(folder, name, tools) if case.needs_tools]
        own = read_tools(folder / tools)
        judged = [
            _judge(case, among.shelf(case.tools, own, number % DRAWN), wish.room)
            for number, case in enumerate(cases)
        ]
        told += _told(f"{folder.name}/{name}", judged)
        all_judged += judged
        guessed += sum(case.needed is None for case in cases)
    return Report(tuple(told), _pace(among.indexed, all_judged), _conditions(wish, len(pool), guessed))


class _Among:
    """The tools of cases among others: `pool` has those to draw from; `indexed` is what each index took, in
    seconds.
    """

    def __init__(self, wish: Wish, pool: Mapping[str, Described]) -> None:
        self.indexed: list[float] = []
        self._registered = wish.registered
        self._pool = pool
        self._shelves: dict[tuple[tuple[str, ...], int], Shelf] = {}

    def shelf(self, names: tuple[str, ...], own: Mapping[str, Described], draw: int) -> Shelf:
        """These tools, others (the same for the same `draw`) and the house's."""
        if (names, draw) not in self._shelves:
            others = [name for name in sorted(self._pool) if name not in names]
            more = min(len(others), max(0, self._registered - len(names)))
            drawn = random.Random(draw).sample(others, more)  # noqa: S311 - the same in every run, no secret
            registered = [*(own[name] for name in names), *(self._pool[name] for name in drawn)]
            tools = {tool.name: tool for tool in (*map(_tool, registered), *discover())}
            self._shelves[names, draw] = shelf = Shelf(tools.values())
            began = thread_time()
            shelf.offer  # noqa: B018 - worked out here, so that it is measured
            self.indexed.append(thread_time() - began)
        return self._shelves[names, draw]


def _judge(case: Case, shelf: Shelf, room: int) -> _Judged:
    needed = _named(case.needed or _nearest(case))
    began = thread_time()
    found = [one.name for one in shelf.find(case.text)]
    searched = thread_time()
    names = picked(shelf, [case.text], (), room)
    tokens = sum(shelf.sizes[name] for name in names) // history.BYTES_A_TOKEN
    place = found.index(needed) if needed in found else None
    return _Judged(case.source, needed in names, place, searched - began, tokens)


def _nearest(case: Case) -> str:
    """The one of the case's own tools that fits best, where the case does not say which it needs."""
    best = ranked(wording.read(case.text), case.offer, 1)
    if best:
        return best[0][0]
    return case.tools[0]


def _tool(one: Described) -> Tool:
    return Tool(_named(one.name), one.description, dict(one.input_schema), _nothing, source="bench")


def _named(name: str) -> str:
    """The name as a house would register it."""
    return _HUMP.sub("_", name).lower()


async def _nothing(arguments: Mapping[str, Any], context: ToolContext) -> None:
    """Nothing is run here."""


def _told(judged: str, cases: Sequence[_Judged]) -> Iterator[Told]:
    sources = list(dict.fromkeys(case.source for case in cases))
    for source in (*sources, TOGETHER):
        own = [case for case in cases if source in (case.source, TOGETHER)]
        yield Told(
            judged,
            source,
            len(own),
            offered=_share([case.is_offered for case in own]),
            first=_share([case.place == 0 for case in own]),
            found=_share([case.is_found for case in own]),
            reached=_share([case.is_offered or case.is_found for case in own]),
        )


def _share(hits: Sequence[bool]) -> float:
    if hits:
        return sum(hits) / len(hits)
    return 1.0


def _pace(indexed: Sequence[float], cases: Sequence[_Judged]) -> Pace:
    searches = [1e3 * case.search for case in cases]
    return Pace(
        median([1e3 * one for one in indexed]) or 0.0,
        median(searches) or 0.0,
        percentile(searches, 0.99) or 0.0,
        median([float(case.tokens) for case in cases]) or 0.0,
    )


def _conditions(wish: Wish, pool: int, guessed: int) -> tuple[tuple[str, str], ...]:
    return (
        (
            "registered",
            f"{min(wish.registered, pool)} tools a case: its own, and others drawn from {pool}, in every run the same",
        ),
        ("beside them", "the house's own tools, which stand in every prompt; a case may need one of those"),
        (
            "in the prompt",
            f"at most {wish.room} tokens; a conversation that begins with the message of the case",
        ),
        (
            "found",
            "searched with the person's message as it is; a model would word its search, and in English",
        ),
        ("needed", f"as the case says; {guessed} do not, and need the one of their own tools that fits best"),
        ("load", machine.load_average()),
    )


def lines(report: Report) -> Iterator[str]:
    """A table of the figures, and below it the conditions."""
    head = ("needed tool, by source", "set", "cases", "in the prompt", "found first", "among five", "either")
    rows = [
        (one.source, one.judged, str(one.cases), *(f"{100 * share:.1f} %" for share in _shares(one)))
        for one in report.told
    ]
    yield from grid(head, rows)
    pace = report.pace
    yield f"index: {pace.index:.0f} ms of processor time, once a set of tools; in the prompt: {pace.tokens:.0f} tokens"
    yield f"search: {pace.search:.1f} ms of processor time, 99 of 100 within {pace.longest:.1f} ms"
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def _shares(one: Told) -> tuple[float, ...]:
    return one.offered, one.first, one.found, one.reached


def as_json(report: Report) -> str:
    """The same for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)
