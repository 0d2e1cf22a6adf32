"""What is asked before a turn begins: the length of a prompt and whether to think, and its rows."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.domain import Message
from bot.http_server import serve
from bot.llm import client
from bot.llm.typed_reads import TypedReader
from bot.tool_registry.toolbox import Toolbox
from bot.turns import preflight
from bot.turns.call_ledger import CallLedger
from bot.turns.endpoints import ModelEndpoint
from bot.turns.preflight import Preflight
from bot.turns.recorded_reads import RecordedReads
from bot.turns.turn_request import PreflightRequest, PreflightResult
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.gateway import ADMIN, running_gateway
from tests.support.recorded_endpoint import connect_client
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, TurnHarness
from tools.registry import discover

TOOLS = Toolbox(discover())
PROMPT = (Message("system", "Be brief."), Message("user", "How late is it?"))
ROW = ("turn", "purpose", "outcome", "prompt_tokens", "completion_tokens", "endpoint", "tools_offered")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up no read because the machine is busy."""
    monkeypatch.setattr(client, "QUICK_SECONDS", 60.0)
    monkeypatch.setattr(preflight, "QUICK_SECONDS", 60.0)


def make_request(*, count: bool = False, read: bool = False, toolbox: Toolbox = TOOLS) -> PreflightRequest:
    return PreflightRequest(ADMIN, count, read, thinking=True, prompt=PROMPT, toolbox=toolbox)


@contextlib.asynccontextmanager
async def open_preflight(
    database: Database, endpoint: ScriptedEndpoint, model_name: str = "model"
) -> AsyncIterator[Preflight]:
    async with serve(endpoint.app) as url, connect_client(url, api_key=endpoint.api_key) as model:
        ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS)
        main = ModelEndpoint("main", "http://there/v1", model, lambda: model_name, TypedReader(model))
        yield Preflight(model, RecordedReads(database, ledger, main))


async def load_rows(database: Database) -> list[tuple[Any, ...]]:
    return await TurnHarness(database, ScriptedModel()).load_rows(model_calls, *ROW)


async def test_a_judgement_is_a_row_of_the_ledger(database: Database) -> None:
    endpoint = ScriptedEndpoint(judge=lambda question: (3, 1), api_key="k")
    async with open_preflight(database, endpoint) as asked:
        result = await asked.run(make_request(read=True), ["Compare these two papers."])
    assert result == PreflightResult(None, 0.75, 1)
    [row] = await load_rows(database)
    assert row[:3] == (None, "decision", "ok")
    assert row[3] > 100
    assert row[4:] == (2, "http://there/v1", len(TOOLS.tools))


async def test_the_row_of_a_read_names_the_model_that_answered(database: Database) -> None:
    """The name is not fetched yet when the first read of a process is stored."""
    endpoint = ScriptedEndpoint(judge=lambda question: (3, 1))
    async with open_preflight(database, endpoint, model_name="unknown") as asked:
        await asked.run(make_request(read=True), ["Compare these two papers."])
    rows = await TurnHarness(database, ScriptedModel()).load_rows(model_calls, "purpose", "model")
    assert rows == [("decision", endpoint.model)]


async def test_a_count_is_exact_and_has_no_row(database: Database) -> None:
    endpoint = ScriptedEndpoint()
    async with open_preflight(database, endpoint) as asked:
        result = await asked.run(make_request(count=True), ["hi"])
        result_without_tools = await asked.run(make_request(count=True, toolbox=Toolbox(())), ["hi"])
    assert result.prompt_tokens is not None
    assert result_without_tools.prompt_tokens is not None
    assert result.prompt_tokens > result_without_tools.prompt_tokens + 300
    assert await load_rows(database) == []


async def test_an_endpoint_that_cannot_judge_is_asked_once(database: Database) -> None:
    async with open_preflight(database, ScriptedEndpoint(replace(ServerProfile(), logprobs=False))) as asked:
        first = await asked.run(make_request(read=True), ["hi"])
        second = await asked.run(make_request(read=True), ["hi"])
    assert first == PreflightResult(None, None, 1)
    assert second == PreflightResult(None, None, None)
    assert [row[:5] for row in await load_rows(database)] == [(None, "decision", "failed", None, None)]


async def test_nothing_is_asked_that_is_not_needed(database: Database) -> None:
    endpoint = ScriptedEndpoint()
    async with open_preflight(database, endpoint) as asked:
        assert await asked.run(make_request(), ["hi"]) == PreflightResult()
    assert endpoint.typed_questions == []


async def test_in_the_gateway_words_that_do_not_decide_are_judged_by_the_endpoint(tmp_path: Path) -> None:
    endpoint = ScriptedEndpoint(judge=lambda question: (19, 1))
    async with running_gateway(tmp_path, endpoint, thinking_read="auto") as gateway:
        gateway.ann.send("Voisitko auttaa minua siinä eilisessä asiassa?")
        await gateway.wait_for_texts(1)
        await gateway.api.wait_until(gateway.is_finished)
        gateway.ann.send("/usage")
        await gateway.wait_for_texts(2)
        summary = gateway.api.chat(ADMIN).bot_messages[-1]
        gateway.ann.tap(summary, "Details")
        await gateway.api.wait_until(lambda: summary.text.startswith("Answer "))
    [question] = endpoint.typed_questions
    assert "heavy work" in str(question)
    assert [request.thinking for request in endpoint.requests] == [True]
    lines = summary.text.splitlines()
    assert lines[1] == "Thinking: on"
    assert lines[2].startswith("Why: in doubt: ")
    assert lines[2].endswith(" by its words, 95% by the model")
    assert lines[3].startswith("Whether to think: ")
    assert lines[4].endswith(" in")


async def test_in_the_gateway_a_bad_answer_costs_a_turn_nothing(tmp_path: Path) -> None:
    endpoint = ScriptedEndpoint()
    answers: list[tuple[int, bytes]] = [
        (200, b"Yes, it is heavy."),
        (200, b'{"answers": [{"type": "predicate", "probability": NaN}]}'),
        (200, b'{"answers": [{"type": "refusal", "name": null}]}'),
        (400, b'{"error": {"message": "questions: at most 64 for this model"}}'),
        (501, b'{"error": {"message": "The model does not support the Decisions API"}}'),
    ]
    served_app = endpoint.app
    waiting_answers = list(answers)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/v1/decisions":
            await served_app(scope, receive, send)
            return
        status, body = waiting_answers.pop(0)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    endpoint.app = app
    async with running_gateway(tmp_path, endpoint, thinking_read="auto") as gateway:
        for number in range(1, len(answers) + 1):
            gateway.ann.send("Voisitko auttaa minua siinä eilisessä asiassa?")
            await gateway.wait_for_texts(number)
    assert waiting_answers == []
    assert len(endpoint.typed_questions) == 1  # where one route is missing, the other one is asked
    assert len(endpoint.requests) == len(answers)


async def test_a_judgement_is_no_step_of_the_turn_when_it_is_opened_again(tmp_path: Path) -> None:
    endpoint = ScriptedEndpoint(context=400, judge=lambda question: (1, 9))
    async with running_gateway(tmp_path, endpoint, model_max_tokens=256, thinking_read="auto") as gateway:
        gateway.ann.send("Voisitko auttaa minua siinä eilisessä asiassa?")
        # Admins may read first that the endpoint's context is too small.
        await gateway.api.wait_until(
            lambda: any("longer than I can read" in text for text in gateway.texts())
        )
    assert len(endpoint.typed_questions) == 1
