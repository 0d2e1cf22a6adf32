"""`bench thinking`: in which turns the thinking policy thinks, and how fast it decides.

Builds the report; prints nothing.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import thread_time
from typing import Literal

from bot.agent.heavy_turns.model import load_model
from bot.agent.thinking_policy import ThinkingDecision, ThinkingEvidence, decide_thinking, settle_doubt
from bot.bench.harness import machine
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies.cases import (
    PolicyCase,
    list_case_files,
    read_cases,
    read_tools,
)
from bot.bench.policies.output import PolicyReport, PrintLine
from bot.bench.policies.typed_reads import ReadCase, ReadOutcome
from bot.errors import QuestionRefused
from bot.llm.heavy_work import HEAVY_WORK, describe_work
from bot.llm.typed_reads import TypedReading

ALL_CASES = "together"
DECIDED_CASES = "without doubt"

TITLES = ("turns that think", "heavy", "n", "one call", "n", "chat", "n", "AUC", "unsure")

CaseClass = Literal["heavy", "one call", "chat"]


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A case and what is decided about it."""

    case: PolicyCase
    decision: ThinkingDecision


@dataclass(frozen=True, slots=True)
class ThinkingShare:
    """How many cases of a class there are, and the share of them whose turn thinks; None for no cases."""

    cases: int
    thinks: float | None


@dataclass(frozen=True, slots=True)
class ThinkingScore:
    """In which turns of one source or language the policy thinks.

    `auc`: the chance that of a heavy case and another one the heavy one is given the higher probability.
    `unsure`: the share of all cases that the words leave in doubt.
    """

    group: str
    heavy: ThinkingShare
    one_call: ThinkingShare
    chat: ThinkingShare
    auc: float | None
    unsure: float

    def format_cells(self) -> tuple[str, ...]:
        """A row of the table."""
        shares = (self.heavy, self.one_call, self.chat)
        cells = [cell for share in shares for cell in (_format_percent(share.thinks), str(share.cases))]
        auc = "-" if self.auc is None else f"{self.auc:.3f}"
        return (self.group, *cells, auc, _format_percent(self.unsure))


def run_thinking(
    folders: Sequence[Path], print_line: PrintLine = lambda line: None
) -> PolicyReport[ThinkingScore]:
    """Score the cases in the folders: by source and by language, the last of all cases together.

    `pace` is in microseconds of processor time. Raises QuestionRefused if there are none.
    """
    cases = [case for folder in folders for case in _read_folder(folder)]
    if not cases:
        raise QuestionRefused(f"No file of cases with a tools.json lies in {', '.join(map(str, folders))}.")
    print_line("measuring: decisions")
    judged = []
    microseconds = []
    for case in cases:
        started_at = thread_time()
        decision = decide_case(case)
        microseconds.append(1e6 * (thread_time() - started_at))
        judged.append(JudgedCase(case, decision))
    pace = {"median": median(microseconds) or 0.0, "longest": percentile(microseconds, 0.99) or 0.0}
    note = "one decision: {median:.0f} µs of processor time, 99 of 100 within {longest:.0f} µs".format(**pace)
    return PolicyReport(TITLES, tuple(score_groups(judged)), _describe_conditions(cases), pace, (note,))


def _read_folder(folder: Path) -> Iterator[PolicyCase]:
    for path in list_case_files(folder):
        yield from read_cases(folder, path.name)


def list_read_cases(folders: Sequence[Path]) -> Iterator[ReadCase]:
    """What is read of the cases that words leave in doubt: whether their work is heavy."""
    for folder in folders:
        tools = read_tools(folder)
        for case in _read_folder(folder):
            decision = decide_case(case)
            if decision.is_unsure and find_class(case) is not None:
                definitions = [asdict(tools[name]) for name in case.tool_names]
                yield _build_read_case(case, decision, describe_work([case.text], definitions))


def _build_read_case(case: PolicyCase, decision: ThinkingDecision, state: str) -> ReadCase:
    is_heavy = find_class(case) == "heavy"

    def judge(reading: TypedReading) -> ReadOutcome:
        chance = reading.find_chance(HEAVY_WORK) or 0.0
        settled = settle_doubt(decision, chance, load_model().threshold)
        return ReadOutcome(settled.thinking == is_heavy, [(chance, is_heavy)])

    return ReadCase((HEAVY_WORK,), state, decision.thinking == is_heavy, judge)


def decide_case(case: PolicyCase) -> ThinkingDecision:
    """Decide about a case; the turn before it is taken to have thought if it was heavy."""
    evidence = ThinkingEvidence()
    if case.before is not None:
        evidence = ThinkingEvidence(recent_tools=case.before.tool_names, was_thinking=case.before.heavy)
    return decide_thinking([case.text], case.tool_index, evidence)


def find_class(case: PolicyCase) -> CaseClass | None:
    """Whether a case is heavy, one call or chat; None: it needs tools, and nobody says how many calls."""
    if case.heavy:
        return "heavy"
    if not case.needs_tools:
        return "chat"
    if case.heavy is None:
        return None
    return "one call"


def score_groups(judged: Sequence[JudgedCase]) -> Iterator[ThinkingScore]:
    """Score each source, each language and then all cases; those of unknown class do not count."""
    known = [row for row in judged if find_class(row.case) is not None]
    for source in dict.fromkeys(row.case.source for row in known):
        yield score_group(source, (row for row in known if row.case.source == source))
    for language in sorted({row.case.language for row in known} - {""}):
        yield score_group(f"language {language}", (row for row in known if row.case.language == language))
    yield score_group(DECIDED_CASES, (row for row in known if not row.decision.is_unsure))
    yield score_group(ALL_CASES, known)


def score_group(group: str, judged: Iterable[JudgedCase]) -> ThinkingScore:
    """Score some cases."""
    rows = list(judged)
    shares = {name: _share_of_class(rows, name) for name in ("heavy", "one call", "chat")}
    auc = compute_auc(
        [row.decision.heavy_chance for row in rows if find_class(row.case) == "heavy"],
        [row.decision.heavy_chance for row in rows if find_class(row.case) != "heavy"],
    )
    unsure = sum(row.decision.is_unsure for row in rows) / max(1, len(rows))
    return ThinkingScore(group, shares["heavy"], shares["one call"], shares["chat"], auc, unsure)


def _share_of_class(rows: Sequence[JudgedCase], name: str) -> ThinkingShare:
    thinks = [row.decision.thinking for row in rows if find_class(row.case) == name]
    if not thinks:
        return ThinkingShare(0, None)
    return ThinkingShare(len(thinks), sum(thinks) / len(thinks))


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


def _format_percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _describe_conditions(cases: Sequence[PolicyCase]) -> tuple[tuple[str, str], ...]:
    unknown = sum(find_class(case) is None for case in cases)
    return (
        ("cases", f"{len(cases)}, {unknown} of them of unknown weight"),
        ("all rows", "by words alone; what reads gain in doubt, --endpoint measures"),
        ("threshold", f"a turn thinks from a probability of {load_model().threshold:g} of heavy work"),
        ("AUC", "of heavy cases against all others of their group"),
        ("unsure", "cases where the endpoint would be asked if it has the route for it"),
        ("load", machine.describe_load()),
    )
