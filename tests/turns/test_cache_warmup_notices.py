"""What admins are notified of about the server at start: missing flags, another server, a refused key."""

from dataclasses import replace
from typing import Any

import pytest

from bot.db.engine import Database
from bot.http_server import serve
from bot.llm import server_api
from bot.turns import cache_warmup
from tests.support.cache_warmup import (
    WarmupHarness,
    open_warmup_harness,
    running_warmup,
    wait_for_closed_rows,
    wait_until,
)
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.turn_harness import ScriptedModel, make_reply


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_warmup, "START_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(cache_warmup, "BACKOFF_SECONDS", (0.01,))


async def test_without_a_tool_parser_the_notice_names_the_flags_to_add(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), tool_parser=False))
    async with open_warmup_harness(database, endpoint) as harness:
        await wait_until(lambda: harness.admin_notices)
    [(subject, text)] = harness.admin_notices
    assert subject == "server calls"
    assert "--enable-auto-tool-choice --tool-call-parser gemma4" in text
    assert len(endpoint.requests) == 1
    assert text.endswith(caplog.messages[-1])


@pytest.mark.parametrize(
    ("profile", "flag"),
    [
        (replace(ServerProfile(), reasoning_parser=False), "--reasoning-parser gemma4"),
        (replace(ServerProfile(), prompt_details=False), "--enable-prompt-tokens-details"),
    ],
)
async def test_flags_whose_absence_shows_in_replies_are_named(
    database: Database, profile: ServerProfile, flag: str
) -> None:
    async with open_warmup_harness(database, ScriptedEndpoint(profile)) as harness:
        await wait_until(lambda: harness.admin_notices)
    assert flag in harness.admin_notices[0][1]


async def test_a_server_that_sends_no_usage_is_reported(database: Database) -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("no_usage", times=None)
    async with open_warmup_harness(database, endpoint) as harness:
        await wait_until(lambda: harness.admin_notices)
    assert "no usage with its streams" in harness.admin_notices[0][1]


async def test_a_refused_key_is_reported_and_nothing_is_called(database: Database) -> None:
    endpoint = ScriptedEndpoint(api_key="right")
    async with serve(endpoint.app) as url:
        harness = WarmupHarness(database, ScriptedModel(), f"{url}/v1", api_key="wrong")
        async with running_warmup(harness):
            await wait_until(lambda: harness.admin_notices)
    assert "Set MODEL_API_KEY." in harness.admin_notices[0][1]
    assert endpoint.requests == []


async def test_another_server_is_reported_and_called(database: Database) -> None:
    async with open_warmup_harness(database, ScriptedEndpoint(ServerProfile.hosted_api())) as harness:
        await wait_until(lambda: len(harness.admin_notices) == 2)
    assert "does not say that it is vLLM" in harness.admin_notices[0][1]
    assert "Unknown parameter" in harness.admin_notices[1][1]


async def test_a_server_that_lists_no_models_is_called_nevertheless(database: Database) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        is_version = scope["path"] == "/version"
        status = 200 if is_version else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b'{"version": "0.33.0"}' if is_version else b""})

    model = ScriptedModel([make_reply("yes")] * 4)
    async with serve(app) as url:
        harness = WarmupHarness(database, model, f"{url}/v1")
        async with running_warmup(harness):
            await wait_for_closed_rows(harness, 4)
    assert [request.thinking for request in model.requests] == [False, False, True, True]


async def test_an_endpoint_that_goes_away_during_the_inspection_is_inspected_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested_urls: list[str] = []
    endpoint = ScriptedEndpoint()
    original_fetch = server_api.fetch_version

    async def fetch_version(url: str) -> str | None:
        requested_urls.append(url)
        return await original_fetch(url if len(requested_urls) > 1 else "http://127.0.0.1:9/v1")

    monkeypatch.setattr(server_api, "fetch_version", fetch_version)
    async with open_warmup_harness(database, endpoint) as harness:
        await wait_for_closed_rows(harness, 4)
    assert len(requested_urls) == 2
