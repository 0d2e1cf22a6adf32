"""`bench questions`: how often the model asks back where a request is clear, and where it is not.

Owns the cases, of which `questions_back.txt` has one a line: language, kind and words. Prints nothing.
"""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

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


class QuestionCase(NamedTuple):
    """A request in a language (ISO 639-1), and whether it is `clear` or `unclear` as it stands."""

    language: str
    kind: str
    text: str


def read_cases() -> list[QuestionCase]:
    """The cases, in the order of their file."""
    lines = CASES_FILE.read_text(encoding="utf-8").splitlines()
    return [QuestionCase(*line.split(" ", 2)) for line in lines]


async def run_questions(
    address: EndpointAddress, on_progress: ProgressCallback, endpoint: SimulatedEndpoint | None = None
) -> list[Line]:
    """Send each case as the first message of a chat, and count the questions back by language and kind.

    Who never asks has 0 in all rows, and who asks out of habit in none. Raises CallFailed, ServerAway, or
    KeyRefused. Tests pass the simulated `endpoint`.
    """
    cases = read_cases()
    asked = Counter[tuple[str, str]]()
    toolbox = Toolbox(discover())
    async with open_target(address, endpoint) as (target, notice), open_client(target) as client:
        for number, case in enumerate(cases, start=1):
            asked[case.language, case.kind] += await _is_asked_back(client, case, toolbox)
            on_progress("requests", number, len(cases))
    totals = Counter((case.language, case.kind) for case in cases)
    rows = [(*group, str(total), str(asked[group])) for group, total in totals.items()]
    table = TextTable("", ("language", "requests", "cases", "asked back"), rows, text_columns=2)
    return [f"model: {target.model}", notice or "", table]


async def _is_asked_back(client: BenchClient, case: QuestionCase, toolbox: Toolbox) -> bool:
    text = format_timestamp(datetime.now(UTC)) + case.text
    prompt = build_prompt(SYSTEM_PROMPT, (), (Message("user", text),))
    request = ModelRequest(
        prompt, toolbox.definitions, "auto", False, MAX_TOKENS, session="bench", lane="bench"
    )
    reply, _ = await client.call(request, streamed=True)
    return any(call.name == ask.name for call in reply.calls)
