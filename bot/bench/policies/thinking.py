"""`bench thinking`: how well the thinking policy tells who needs tools, how long it takes, and what it costs
or saves.

Builds the report; prints nothing. Trains the shipped weights anew on request.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time

from bot.agent.thinking_policy import decide, needs_tools
from bot.agent.tool_matching import features as wording
from bot.agent.tool_matching import scores as matching
from bot.agent.tool_matching.classifier import Weights, shipped, to_json
from bot.bench.harness import machine
from bot.bench.harness.bots import BenchFailed
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies import thinking_costs
from bot.bench.policies.cases import Case, folds, read
from bot.bench.policies.thinking_costs import Cost
from bot.bench.policies.trainer import ABROAD, Sample, out_of_fold, threshold, train
from bot.errors import QuestionRefused
from bot.sim.vllm.server import COUNTING_RULE

COSTS = (
    f"{len(thinking_costs.MIX)} scripted turns, one chat, ten tools; a thought takes {thinking_costs.THOUGHT} tokens a "
    "call; the simulated model works as well without thinking, so answers are not judged"
)
TAUGHT = (("cases.jsonl", "tools.json"), ("english.jsonl", "house-tools.json"))
TOGETHER = "together"
SETS = (*TAUGHT, ("languages.jsonl", "house-tools.json"))

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """`folders` of cases; `train`: where to write weights trained on them; `costs`: play the simulated mix,
    too.
    """

    folders: tuple[Path, ...]
    train: Path | None = None
    costs: bool = True


@dataclass(frozen=True, slots=True)
class Told:
    """How one set of probabilities tells a source, or TOGETHER all of a set: `auc` of its cases that need no
    tool against all of the set that do.

    `recall` of its cases that need tools, `false_alarms` of those that do not, `unknown` of all: shares, None
    of none. `thinks`: of all, those whose turn would think.
    """

    judged: str
    source: str
    cases: int
    auc: float | None
    recall: float | None
    false_alarms: float | None
    unknown: float
    thinks: float | None = None

    @property
    def shares(self) -> tuple[float | None, ...]:
        """Recall, false alarms, unknown and thinks, for a table."""
        return self.recall, self.false_alarms, self.unknown, self.thinks


@dataclass(frozen=True, slots=True)
class Pace:
    """Microseconds of processor time of one whole decision; `longest` is the 99th percentile."""

    median: float
    longest: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of a run."""

    told: tuple[Told, ...]
    pace: Pace
    costs: tuple[Cost, ...]
    conditions: tuple[tuple[str, str], ...]


async def run(wish: Wish, say: Say = lambda line: None) -> Report:
    """Judge what lies in the folders. Raises QuestionRefused if nothing does."""
    sets, taught = (_read(wish.folders, names) for names in (SETS, TAUGHT))
    if not sets:
        raise QuestionRefused(f"No cases.jsonl with tools.json lies in {', '.join(map(str, wish.folders))}.")
    told = []
    weights = shipped()
    for cases in sets:
        found = _judged(
            "shipped", cases, [needs_tools(case.text, case.offer, weights) for case in cases], weights
        )
        told += [replace(one, thinks=_thinks(cases, one.source)) for one in found]
    if wish.train is not None:
        if not taught:
            raise BenchFailed("Weights are trained on cases.jsonl or english.jsonl; neither is there.")
        trained, anew = _trained(taught, say)
        told += anew
        wish.train.write_text(to_json(trained), encoding="utf-8")
    say("measuring: microseconds")
    pace = _pace([case for cases in sets for case in cases])
    say("measuring: costs")
    costs = await thinking_costs.measure() if wish.costs else []
    return Report(tuple(told), pace, tuple(costs), _conditions(sum(map(len, sets)), weights))


def _read(folders: Sequence[Path], names: Sequence[tuple[str, str]]) -> list[list[Case]]:
    there = (read(folder, *pair) for folder in folders for pair in names if (folder / pair[0]).exists())
    return [cases for cases in there if cases]


def auc(wanted: Sequence[float], others: Sequence[float]) -> float | None:
    """The chance that one of `wanted` is above one of `others`; None where one of them is empty."""
    if not wanted or not others:
        return None
    ranked = sorted([(value, True) for value in wanted] + [(value, False) for value in others])
    above = 0.0
    at = below = 0
    while at < len(ranked):
        same = [own for value, own in ranked[at:] if value == ranked[at][0]]
        above += sum(same) * (below + (len(same) - sum(same)) / 2)
        below += len(same) - sum(same)
        at += len(same)
    return above / (len(wanted) * len(others))


def _judged(
    judged: str, cases: Sequence[Case], found: Sequence[tuple[float, bool]], weights: Weights
) -> list[Told]:
    wanted = [chance for case, (chance, _) in zip(cases, found, strict=True) if case.needs_tools]
    told = []
    for source in _sources(cases):
        own = [
            (case, *one) for case, one in zip(cases, found, strict=True) if source in (case.source, TOGETHER)
        ]
        hit: dict[bool, list[bool]] = {True: [], False: []}
        for case, chance, readable in own:
            english = wording.read(case.text).english
            hit[case.needs_tools].append(readable and chance >= weights.least(english))
        others = [chance for case, chance, _ in own if not case.needs_tools]
        unknown = sum(not readable for *_, readable in own) / len(own)
        told.append(
            Told(
                judged, source, len(own), auc(wanted, others), _share(hit[True]), _share(hit[False]), unknown
            )
        )
    return told


def _sources(cases: Sequence[Case]) -> list[str]:
    """The sources of a set, and all of them together where there are several."""
    sources = list(dict.fromkeys(case.source for case in cases))
    if len(sources) > 1:
        return [*sources, TOGETHER]
    return sources


def _thinks(cases: Sequence[Case], source: str) -> float | None:
    own = [case for case in cases if source in (case.source, TOGETHER)]
    return _share([decide([case.text], case.offer).thinking for case in own])


def _share(hits: Sequence[bool]) -> float | None:
    if hits:
        return sum(hits) / len(hits)
    return None


def _trained(sets: Sequence[Sequence[Case]], say: Say) -> tuple[Weights, list[Told]]:
    """Weights from all cases; how they do on cases left out, by text and by the tool that is next to a case.

    The threshold keeps its recall on the first set.
    """
    say("training: five folds by text, five by tool, and once on all")
    cases = [case for one in sets for case in one]
    samples = []
    nearest = []
    for case in cases:
        said = wording.read(case.text)
        found = matching.matches(said, case.offer)
        nearest.append(found[0].tool.name)
        samples.append(Sample(matching.features(said, found), case.needs_tools, case.source))
    by_text = out_of_fold(samples, folds([case.text for case in cases]))
    by_tool = out_of_fold(samples, folds(nearest))
    first = len(sets[0])
    least = threshold(by_text[:first], [case.needs_tools for case in cases[:first]])
    weights = replace(train(samples), threshold=least, abroad=ABROAD)
    told: list[Told] = []
    for judged, chances in (("folds by text", by_text), ("folds by tool", by_tool)):
        rest = iter([(chance, True) for chance in chances])
        for one in sets:
            told += _judged(judged, one, list(itertools.islice(rest, len(one))), weights)
    return weights, told


def _pace(cases: Sequence[Case]) -> Pace:
    spent = []
    for case in cases:
        began = thread_time()
        decide([case.text], case.offer)
        spent.append(1e6 * (thread_time() - began))
    return Pace(median(spent) or 0.0, percentile(spent, 0.99) or 0.0)


def _conditions(cases: int, weights: Weights) -> tuple[tuple[str, str], ...]:
    return (
        ("cases", f"{cases}; shipped threshold {weights.threshold:g}, not English {weights.abroad:g}"),
        (
            "shipped",
            "the weights that come with the house; on the cases they were trained on, believe the folds",
        ),
        ("AUC", "of a source's cases that need no tool, against all cases of its set that need one"),
        (
            "unknown",
            "nothing in the words to judge by: then a turn thinks if a tool is offered that needs it",
        ),
        ("costs", COSTS),
        ("tokens", COUNTING_RULE),
        ("load", machine.load_average()),
    )
