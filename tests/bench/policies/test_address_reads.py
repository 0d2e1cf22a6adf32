"""`bench addressing`: its labelled messages, its arithmetic, and a run against the simulated endpoint."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bot.bench.endpoint.run import EndpointAddress
from bot.bench.harness.gateway_process import BenchFailed
from bot.errors import QuestionRefused
from bot.llm.address_question import GroupMessage
from bot.sim.vllm.typed_reads import TypedQuestion
from tests.bench.policies.address_reads import (
    CASES_FILE,
    SIMULATED_READS,
    TOGETHER,
    AddressCase,
    ReadCase,
    format_json,
    format_lines,
    read_cases,
    run_addressing,
    score_group,
)
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.terminal_text import lay_out

FIXTURES = Path(__file__).parents[2] / "fixtures" / "addressing"
SIM = EndpointAddress("sim")


def test_the_labelled_set_is_large_and_of_six_languages() -> None:
    cases = read_cases(FIXTURES / CASES_FILE)
    by_language = Counter(case.language for case in cases)
    assert len(cases) >= 240
    assert set(by_language) == {"de", "en", "es", "fr", "ru", "zh"}
    assert min(by_language.values()) >= 40
    assert len({(case.message.text, case.message.said_before) for case in cases}) == len(cases)
    meant = {case.kind for case in cases if case.is_meant}
    others = {case.kind for case in cases if not case.is_meant}
    assert meant == {"question", "request", "follow-up"}
    assert others >= {"chat", "reply", "nobody", "passing", "sarcasm", "link", "other bot"}


def test_precision_and_recall_count_what_would_be_answered() -> None:
    message = GroupMessage("Ann", "hi", ("Canvas",))
    meant = AddressCase("en", True, "question", message)
    other = AddressCase("en", False, "chat", message)
    rows = [ReadCase(meant, 0.9), ReadCase(meant, 0.79), ReadCase(meant, None), ReadCase(other, 0.8)]
    score = score_group("en", rows)
    assert (score.cases, score.meant, score.unread) == (4, 3, 1)
    assert (score.precision, score.recall) == (1 / 2, 1 / 3)
    nothing = score_group("en", [ReadCase(other, 0.1)])
    assert (nothing.precision, nothing.recall) == (None, None)


async def test_a_run_says_that_the_reads_are_simulated() -> None:
    def judge(question: TypedQuestion) -> tuple[float, float]:
        return (1, 0) if "Canvas" in question.state.rpartition("newest message]")[2] else (0, 1)

    report = await run_addressing(SIM, FIXTURES, ScriptedEndpoint(judge=judge))
    [together] = [score for score in report.scores if score.group == TOGETHER]
    assert (together.cases, together.unread) == (252, 0)
    assert together.precision is not None
    assert 0.5 < together.precision < 1
    assert dict(report.conditions)["reads"] == SIMULATED_READS
    text = lay_out(format_lines(report))
    assert "No weights were asked" in text
    assert '"simulated' in format_json(report)


async def test_an_endpoint_without_typed_reads_is_refused_in_words() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), logprobs=False))
    with pytest.raises(QuestionRefused, match="has no typed reads"):
        await run_addressing(SIM, FIXTURES, endpoint)


@pytest.mark.parametrize("content", ["{", "7", '{"lang": "en"}'])
def test_a_file_that_holds_no_cases_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / CASES_FILE).write_text(content)
    with pytest.raises(BenchFailed, match=r"cases\.jsonl does not hold cases"):
        read_cases(tmp_path / CASES_FILE)
