"""`bench thinking`: what typed reads are asked of cases whose words leave open whether to think."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from bot.agent.heavy_turns.model import load_model
from bot.agent.thinking_policy import ThinkingDecision, ThinkingEvidence, decide_thinking, settle_doubt
from bot.bench.policies.cases import (
    TOOLS_FILE,
    PolicyCase,
    find_beside,
    list_case_files,
    read_cases,
    read_tools,
)
from bot.bench.policies.typed_reads import ReadCase, ReadOutcome
from bot.llm.heavy_work import HEAVY_WORK, describe_work
from bot.llm.typed_reads import TypedReading

CaseClass = Literal["heavy", "one call", "chat"]


def read_folder(folder: Path) -> Iterator[PolicyCase]:
    """The cases of all files of a folder; none if it has no tools."""
    for path in list_case_files(folder):
        yield from read_cases(folder, path.name)


def list_read_cases(folders: Sequence[Path]) -> Iterator[ReadCase]:
    """What is read of the cases that words leave in doubt: whether their work is heavy."""
    for folder in folders:
        tools = read_tools(find_beside(folder, TOOLS_FILE))
        for case in read_folder(folder):
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
