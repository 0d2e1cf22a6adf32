"""`bench questions`: how often the model asks back where a request is clear, and where it is not.

Owns the cases, of which `questions_back.txt` has one a line: language, kind and words. Prints nothing.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

from bot.agent.prompt import build_prompt, format_timestamp
from bot.bench.endpoint.client import BenchClient, open_client
from bot.bench.endpoint.run import EndpointAddress, open_target
from bot.bench.harness.progress import ProgressCallback
from bot.domain import Message, ModelRequest
from bot.settings import SYSTEM_PROMPT
from bot.sim.vllm.server import SimulatedEndpoint
from bot.tables import Line, TextTable
from bot.tool_registry.toolbox import Toolbox
from tools.builtin.ask import ask
from tools.registry import discover

CASES_FILE = Path(__file__).with_name("questions_back.txt")
MAX_TOKENS = 1024

CaseKind = Literal["clear", "unclear"]


@dataclass(frozen=True, slots=True)
class QuestionCase:
    """A request in a language (ISO 639-1), and whether it is clear as it stands."""

    language: str
    kind: CaseKind
    text: str


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """To how many of a language's requests of a kind the model asked back."""

    language: str
    kind: CaseKind
    cases: int
    asked: int


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """The scores of a model; `notice`: that it is simulated (None: it is not)."""

    model: str
    notice: str | None
    scores: tuple[QuestionScore, ...]


def read_cases() -> list[QuestionCase]:
    """The cases, in the order of their file."""
    lines = CASES_FILE.read_text(encoding="utf-8").splitlines()
    words = [line.split(" ", 2) for line in lines]
    return [QuestionCase(language, cast(CaseKind, kind), text) for language, kind, text in words]


async def run_questions(
    address: EndpointAddress, on_progress: ProgressCallback, endpoint: SimulatedEndpoint | None = None
) -> QuestionReport:
    """Send each case as the first message of a chat. Raises CallFailed, ServerAway, or KeyRefused.

    Tests pass the simulated `endpoint`.
    """
    cases = read_cases()
    asked = list[QuestionCase]()
    toolbox = Toolbox(discover())
    async with open_target(address, endpoint) as (target, notice), open_client(target) as client:
        for number, case in enumerate(cases, start=1):
            if await _is_asked_back(client, case, toolbox):
                asked.append(case)
            on_progress("requests", number, len(cases))
    return QuestionReport(target.model, notice, tuple(_score(cases, asked)))


async def _is_asked_back(client: BenchClient, case: QuestionCase, toolbox: Toolbox) -> bool:
    text = format_timestamp(datetime.now(UTC)) + case.text
    prompt = build_prompt(SYSTEM_PROMPT, (), (Message("user", text),))
    request = ModelRequest(
        prompt, toolbox.definitions, "auto", False, MAX_TOKENS, session="bench", lane="bench"
    )
    reply, _ = await client.call(request, streamed=True)
    return any(call.name == ask.name for call in reply.calls)


def _score(cases: Sequence[QuestionCase], asked: Sequence[QuestionCase]) -> Iterator[QuestionScore]:
    for language, kind in dict.fromkeys((case.language, case.kind) for case in cases):
        group = [case for case in cases if (case.language, case.kind) == (language, kind)]
        yield QuestionScore(language, kind, len(group), sum(case in asked for case in group))


def format_lines(report: QuestionReport) -> Iterator[Line]:
    """A table of the scores; who never asks has 0 in all its rows, and who asks out of habit none."""
    yield f"model: {report.model}"
    if report.notice is not None:
        yield report.notice
    yield ""
    rows = [(score.language, score.kind, str(score.cases), str(score.asked)) for score in report.scores]
    yield TextTable("", ("language", "requests", "cases", "asked back"), rows, text_columns=2)


def format_json(report: QuestionReport) -> str:
    """The same for machines."""
    return json.dumps(asdict(report), indent=1, ensure_ascii=False)
