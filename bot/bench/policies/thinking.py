"""`bench thinking`: how well the thinking policy recognizes who needs tools, and its speed and costs.

Builds the report; prints nothing.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time

from bot.agent.thinking_policy import decide_thinking, estimate_tool_need
from bot.agent.tool_matching.classifier import Weights, load_weights
from bot.agent.tool_matching.features import extract_features
from bot.bench.harness import machine
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies import thinking_costs
from bot.bench.policies.cases import PolicyCase, list_case_files, read_cases
from bot.bench.policies.thinking_costs import PolicyCost
from bot.errors import QuestionRefused
from bot.sim.vllm.server import COUNTING_RULE

COSTS_NOTE = (
    f"{len(thinking_costs.SCRIPTED_TURNS)} scripted turns, one chat, ten tools; "
    f"seconds at {thinking_costs.TIMING.canvas_time(0):.1f} s a canvas and "
    f"{thinking_costs.TIMING.prefill_tokens_per_s:.0f} prompt tokens a second, as about a DGX Spark; "
    "the simulated model works as well without thinking, so answers are not judged: a policy pays if it "
    "saves at least the last column's share of the heavy turns from being asked again"
)
ALL_SOURCES = "together"

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ThinkingOptions:
    """Folders of cases, and whether scripted turns are run on the simulated endpoint as well."""

    folders: tuple[Path, ...]
    include_costs: bool = True


@dataclass(frozen=True, slots=True)
class ThinkingScore:
    """How well predictions recognize the cases of one source, or of a whole set (ALL_SOURCES).

    `auc`: its cases that need no tool against all cases of the set that do.
    `recall` of its cases that need tools, `false_alarms` of those that do not, `unknown` of all; shares, None
    for no cases. `thinks`: the share whose turn would think.
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
    """All figures of a run; `told` are the scores."""

    told: tuple[ThinkingScore, ...]
    pace: DecisionTimes
    costs: tuple[PolicyCost, ...]
    conditions: tuple[tuple[str, str], ...]


async def run_thinking(options: ThinkingOptions, print_line: PrintLine = lambda line: None) -> ThinkingReport:
    """Score the cases in the folders. Raises QuestionRefused if there are none."""
    sets = _read_sets(options.folders)
    if not sets:
        raise QuestionRefused(
            f"No cases (*.jsonl) with tools.json lie in {', '.join(map(str, options.folders))}."
        )
    scores: list[ThinkingScore] = []
    weights = load_weights()
    for cases in sets:
        predictions = [estimate_tool_need(case.text, case.tool_index, weights) for case in cases]
        shipped = score_sources("shipped", cases, predictions, weights)
        scores += [replace(score, thinks=_thinking_share(cases, score.source)) for score in shipped]
    print_line("measuring: microseconds")
    pace = _measure_decisions([case for cases in sets for case in cases])
    print_line("measuring: costs")
    costs = await thinking_costs.measure() if options.include_costs else []
    conditions = _describe_conditions(sum(map(len, sets)), weights)
    return ThinkingReport(tuple(scores), pace, tuple(costs), conditions)


def _read_sets(folders: Sequence[Path]) -> list[list[PolicyCase]]:
    case_sets = (read_cases(path.parent, path.name) for folder in folders for path in list_case_files(folder))
    return [cases for cases in case_sets if cases]


def compute_auc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """The chance that one of `positives` is above one of `negatives`; None where one of them is empty."""
    if not positives or not negatives:
        return None
    ranked = sorted([(value, True) for value in positives] + [(value, False) for value in negatives])
    wins = 0.0
    negatives_below = 0
    for _, group in itertools.groupby(ranked, key=lambda pair: pair[0]):
        labels = [is_positive for _, is_positive in group]
        positive_count = sum(labels)
        negative_count = len(labels) - positive_count
        wins += positive_count * (negatives_below + negative_count / 2)  # a tie counts as half
        negatives_below += negative_count
    return wins / (len(positives) * len(negatives))


def score_sources(
    label: str, cases: Sequence[PolicyCase], predictions: Sequence[tuple[float, bool]], weights: Weights
) -> list[ThinkingScore]:
    """Score each source of a set, and all together.

    A prediction is a probability, and whether the words of the message allow one.
    """
    predicted = [
        (case, chance, is_readable) for case, (chance, is_readable) in zip(cases, predictions, strict=True)
    ]
    positives = [chance for case, chance, _ in predicted if case.needs_tools]
    scores = []
    for source in _list_sources(cases):
        in_source = [row for row in predicted if source in (row[0].source, ALL_SOURCES)]
        hits: dict[bool, list[bool]] = {True: [], False: []}
        for case, chance, is_readable in in_source:
            is_english = extract_features(case.text).is_english
            hits[case.needs_tools].append(is_readable and chance >= weights.threshold_for(is_english))
        negatives = [chance for case, chance, _ in in_source if not case.needs_tools]
        scores.append(
            ThinkingScore(
                judged=label,
                source=source,
                cases=len(in_source),
                auc=compute_auc(positives, negatives),
                recall=_share_of_hits(hits[True]),
                false_alarms=_share_of_hits(hits[False]),
                unknown=sum(not is_readable for *_, is_readable in in_source) / len(in_source),
            )
        )
    return scores


def _list_sources(cases: Sequence[PolicyCase]) -> list[str]:
    """The sources of a set, and all of them together where there are several."""
    sources = list(dict.fromkeys(case.source for case in cases))
    if len(sources) > 1:
        return [*sources, ALL_SOURCES]
    return sources


def _thinking_share(cases: Sequence[PolicyCase], source: str) -> float | None:
    in_source = [case for case in cases if source in (case.source, ALL_SOURCES)]
    return _share_of_hits([decide_thinking([case.text], case.tool_index).thinking for case in in_source])


def _share_of_hits(hits: Sequence[bool]) -> float | None:
    if hits:
        return sum(hits) / len(hits)
    return None


def _measure_decisions(cases: Sequence[PolicyCase]) -> DecisionTimes:
    microseconds = []
    for case in cases:
        started_at = thread_time()
        decide_thinking([case.text], case.tool_index)
        microseconds.append(1e6 * (thread_time() - started_at))
    return DecisionTimes(median(microseconds) or 0.0, percentile(microseconds, 0.99) or 0.0)


def _describe_conditions(case_count: int, weights: Weights) -> tuple[tuple[str, str], ...]:
    return (
        (
            "cases",
            f"{case_count}; shipped threshold {weights.threshold:g}, "
            f"not English {weights.non_english_threshold:g}",
        ),
        (
            "shipped",
            "the weights that are shipped; on the cases they were trained on, believe the folds",
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
