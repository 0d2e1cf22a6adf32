"""`bench thinking`: how well the thinking policy tells who needs tools, how long it takes, and what it costs
or saves.

Builds the report; prints nothing. Trains the shipped weights anew on request.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time

from bot.agent.thinking_policy import decide_thinking, estimate_tool_need
from bot.agent.tool_matching import features as wording
from bot.agent.tool_matching import scores as matching
from bot.agent.tool_matching.classifier import Weights, format_weights, load_weights
from bot.bench.harness import machine
from bot.bench.harness.bots import BenchFailed
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies import thinking_costs
from bot.bench.policies.cases import PolicyCase, assign_folds, read_cases
from bot.bench.policies.thinking_costs import PolicyCost
from bot.bench.policies.trainer import (
    NON_ENGLISH_THRESHOLD,
    TrainingSample,
    find_threshold,
    predict_out_of_fold,
    train_weights,
)
from bot.errors import QuestionRefused
from bot.sim.vllm.server import COUNTING_RULE

COSTS_NOTE = (
    f"{len(thinking_costs.SCRIPTED_TURNS)} scripted turns, one chat, ten tools; a thought takes {thinking_costs.THOUGHT_TOKENS} tokens a "
    "call; the simulated model works as well without thinking, so answers are not judged"
)
TRAINING_SETS = (("cases.jsonl", "tools.json"), ("english.jsonl", "house-tools.json"))
ALL_SOURCES = "together"
CASE_SETS = (*TRAINING_SETS, ("languages.jsonl", "house-tools.json"))

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ThinkingOptions:
    """`folders` of cases; `train`: where to write weights trained on them; `costs`: play the simulated mix,
    too.
    """

    folders: tuple[Path, ...]
    weights_file: Path | None = None
    include_costs: bool = True


@dataclass(frozen=True, slots=True)
class ThinkingScore:
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
class DecisionTimes:
    """Microseconds of processor time of one whole decision; `longest` is the 99th percentile."""

    median: float
    longest: float


@dataclass(frozen=True, slots=True)
class ThinkingReport:
    """All figures of a run."""

    told: tuple[ThinkingScore, ...]
    pace: DecisionTimes
    costs: tuple[PolicyCost, ...]
    conditions: tuple[tuple[str, str], ...]


async def run_thinking(options: ThinkingOptions, print_line: PrintLine = lambda line: None) -> ThinkingReport:
    """Judge what lies in the folders. Raises QuestionRefused if nothing does."""
    sets, taught = (_read_sets(options.folders, names) for names in (CASE_SETS, TRAINING_SETS))
    if not sets:
        raise QuestionRefused(
            f"No cases.jsonl with tools.json lies in {', '.join(map(str, options.folders))}."
        )
    told = []
    weights = load_weights()
    for cases in sets:
        found = _score_sources(
            "shipped",
            cases,
            [estimate_tool_need(case.text, case.tool_index, weights) for case in cases],
            weights,
        )
        told += [replace(one, thinks=_thinking_share(cases, one.source)) for one in found]
    if options.weights_file is not None:
        if not taught:
            raise BenchFailed("Weights are trained on cases.jsonl or english.jsonl; neither is there.")
        trained, anew = _train_weights(taught, print_line)
        told += anew
        options.weights_file.write_text(format_weights(trained), encoding="utf-8")
    print_line("measuring: microseconds")
    pace = _measure_decisions([case for cases in sets for case in cases])
    print_line("measuring: costs")
    costs = await thinking_costs.measure() if options.include_costs else []
    return ThinkingReport(tuple(told), pace, tuple(costs), _describe_conditions(sum(map(len, sets)), weights))


def _read_sets(folders: Sequence[Path], file_names: Sequence[tuple[str, str]]) -> list[list[PolicyCase]]:
    there = (
        read_cases(folder, *pair) for folder in folders for pair in file_names if (folder / pair[0]).exists()
    )
    return [cases for cases in there if cases]


def compute_auc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """The chance that one of `wanted` is above one of `others`; None where one of them is empty."""
    if not positives or not negatives:
        return None
    ranked = sorted([(value, True) for value in positives] + [(value, False) for value in negatives])
    above = 0.0
    at = below = 0
    while at < len(ranked):
        same = [own for value, own in ranked[at:] if value == ranked[at][0]]
        above += sum(same) * (below + (len(same) - sum(same)) / 2)
        below += len(same) - sum(same)
        at += len(same)
    return above / (len(positives) * len(negatives))


def _score_sources(
    label: str, cases: Sequence[PolicyCase], predictions: Sequence[tuple[float, bool]], weights: Weights
) -> list[ThinkingScore]:
    wanted = [chance for case, (chance, _) in zip(cases, predictions, strict=True) if case.needs_tools]
    told = []
    for source in _list_sources(cases):
        own = [
            (case, *one)
            for case, one in zip(cases, predictions, strict=True)
            if source in (case.source, ALL_SOURCES)
        ]
        hit: dict[bool, list[bool]] = {True: [], False: []}
        for case, chance, readable in own:
            english = wording.extract_features(case.text).is_english
            hit[case.needs_tools].append(readable and chance >= weights.threshold_for(english))
        others = [chance for case, chance, _ in own if not case.needs_tools]
        unknown = sum(not readable for *_, readable in own) / len(own)
        told.append(
            ThinkingScore(
                label,
                source,
                len(own),
                compute_auc(wanted, others),
                _share_of_hits(hit[True]),
                _share_of_hits(hit[False]),
                unknown,
            )
        )
    return told


def _list_sources(cases: Sequence[PolicyCase]) -> list[str]:
    """The sources of a set, and all of them together where there are several."""
    sources = list(dict.fromkeys(case.source for case in cases))
    if len(sources) > 1:
        return [*sources, ALL_SOURCES]
    return sources


def _thinking_share(cases: Sequence[PolicyCase], source: str) -> float | None:
    own = [case for case in cases if source in (case.source, ALL_SOURCES)]
    return _share_of_hits([decide_thinking([case.text], case.tool_index).thinking for case in own])


def _share_of_hits(hits: Sequence[bool]) -> float | None:
    if hits:
        return sum(hits) / len(hits)
    return None


def _train_weights(
    case_sets: Sequence[Sequence[PolicyCase]], print_line: PrintLine
) -> tuple[Weights, list[ThinkingScore]]:
    """Weights from all cases; how they do on cases left out, by text and by the tool that is next to a case.

    The threshold keeps its recall on the first set.
    """
    print_line("training: five folds by text, five by tool, and once on all")
    cases = [case for one in case_sets for case in one]
    samples = []
    nearest = []
    for case in cases:
        said = wording.extract_features(case.text)
        found = matching.match_tools(said, case.tool_index)
        nearest.append(found[0].tool.name)
        samples.append(TrainingSample(matching.build_features(said, found), case.needs_tools, case.source))
    by_text = predict_out_of_fold(samples, assign_folds([case.text for case in cases]))
    by_tool = predict_out_of_fold(samples, assign_folds(nearest))
    first = len(case_sets[0])
    least = find_threshold(by_text[:first], [case.needs_tools for case in cases[:first]])
    weights = replace(train_weights(samples), threshold=least, non_english_threshold=NON_ENGLISH_THRESHOLD)
    told: list[ThinkingScore] = []
    for judged, chances in (("folds by text", by_text), ("folds by tool", by_tool)):
        rest = iter([(chance, True) for chance in chances])
        for one in case_sets:
            told += _score_sources(judged, one, list(itertools.islice(rest, len(one))), weights)
    return weights, told


def _measure_decisions(cases: Sequence[PolicyCase]) -> DecisionTimes:
    spent = []
    for case in cases:
        began = thread_time()
        decide_thinking([case.text], case.tool_index)
        spent.append(1e6 * (thread_time() - began))
    return DecisionTimes(median(spent) or 0.0, percentile(spent, 0.99) or 0.0)


def _describe_conditions(case_count: int, weights: Weights) -> tuple[tuple[str, str], ...]:
    return (
        (
            "cases",
            f"{case_count}; shipped threshold {weights.threshold:g}, not English {weights.non_english_threshold:g}",
        ),
        (
            "shipped",
            "the weights that come with the house; on the cases they were trained on, believe the folds",
        ),
        ("AUC", "of a source's cases that need no tool, against all cases of its set that need one"),
        (
            "unknown",
            "nothing in the words to judge by: then a turn thinks if a tool is offered that needs it",
        ),
        ("costs", COSTS_NOTE),
        ("tokens", COUNTING_RULE),
        ("load", machine.describe_load()),
    )
