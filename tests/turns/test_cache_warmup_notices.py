"""What a start says of the server it finds: flags it lacks, another server, a refused key."""

from dataclasses import replace
from typing import Any

import pytest

from bot.db.engine import Database
from bot.http_server import serve
from bot.llm import server_api as server
from bot.sim.vllm.server import Profile, SimulatedEndpoint
from bot.turns import cache_warmup as warming
from tests.support.cache_warmup import (
    WarmupHarness,
    open_warmup_harness,
    running_warmup,
    wait_for_closed_rows,
    wait_until,
)
from tests.support.turn_harness import ScriptedModel, make_reply


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "START_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(warming, "BACKOFF_SECONDS", (0.01,))


async def test_without_a_tool_parser_the_line_that_mends_it_is_told(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = SimulatedEndpoint(replace(Profile.today(), tool_parser=False))
    async with open_warmup_harness(database, endpoint) as bench:
        await wait_until(lambda: bench.admin_notices)
    [(subject, text)] = bench.admin_notices
    assert subject == "server calls"
    assert "--enable-auto-tool-choice --tool-call-parser gemma4" in text
    assert len(endpoint.requests) == 1
    assert text.endswith(caplog.messages[-1])


@pytest.mark.parametrize(
    ("profile", "flag"),
    [
        (replace(Profile.today(), reasoning_parser=False), "--reasoning-parser gemma4"),
        (replace(Profile.today(), prompt_details=False), "--enable-prompt-tokens-details"),
    ],
)
async def test_flags_whose_lack_shows_in_replies_are_named(
    database: Database, profile: Profile, flag: str
) -> None:
    async with open_warmup_harness(database, SimulatedEndpoint(profile)) as bench:
        await wait_until(lambda: bench.admin_notices)
    assert flag in bench.admin_notices[0][1]


async def test_a_key_that_is_refused_is_told_and_nothing_is_called(database: Database) -> None:
    endpoint = SimulatedEndpoint(api_key="right")
    async with serve(endpoint.app) as url:
        bench = WarmupHarness(database, ScriptedModel(), f"{url}/v1", api_key="wrong")
        async with running_warmup(bench):
            await wait_until(lambda: bench.admin_notices)
    assert "Set MODEL_API_KEY." in bench.admin_notices[0][1]
    assert endpoint.requests == []


async def test_another_server_is_told_and_tried(database: Database) -> None:
    async with open_warmup_harness(database, SimulatedEndpoint(Profile.hosted_api())) as bench:
        await wait_until(lambda: len(bench.admin_notices) == 2)
    assert "does not say that it is vLLM" in bench.admin_notices[0][1]
    assert "Unknown parameter" in bench.admin_notices[1][1]


async def test_a_server_that_lists_no_models_is_called_all_the_same(database: Database) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        status, body = (200, b'{"version": "0.33.0"}') if scope["path"] == "/version" else (404, b"")
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    model = ScriptedModel([make_reply("yes")] * 4)
    async with serve(app) as url:
        bench = WarmupHarness(database, model, f"{url}/v1")
        async with running_warmup(bench):
            await wait_for_closed_rows(bench, 4)
    assert [request.thinking for request in model.requests] == [False, False, True, True]


async def test_one_that_is_gone_before_it_has_told_all_is_asked_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    endpoint, version = SimulatedEndpoint(), server.fetch_version

    async def tell(url: str) -> str | None:
        asked.append(url)
        return await version(url if len(asked) > 1 else "http://127.0.0.1:9/v1")

    monkeypatch.setattr(server, "fetch_version", tell)
    async with open_warmup_harness(database, endpoint) as bench:
        await wait_for_closed_rows(bench, 4)
    assert len(asked) == 2
