"""What a start says of the server it finds: flags it lacks, another server, a refused key."""

from dataclasses import replace
from typing import Any

import pytest

from bot.db.engine import Database
from bot.http_server import serve
from bot.llm import server_api as server
from bot.sim.vllm.server import Endpoint, Profile
from bot.turns import cache_warmup as warming
from tests.support.cache_warmup import Bench, at_work, closed, until, warmed
from tests.support.turn_harness import Model, said


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "SETTLE", 0.0)
    monkeypatch.setattr(warming, "PAUSES", (0.01,))


async def test_without_a_tool_parser_the_line_that_mends_it_is_told(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = Endpoint(replace(Profile.today(), tool_parser=False))
    async with warmed(database, endpoint) as bench:
        await until(lambda: bench.news)
    [(subject, text)] = bench.news
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
    async with warmed(database, Endpoint(profile)) as bench:
        await until(lambda: bench.news)
    assert flag in bench.news[0][1]


async def test_a_key_that_is_refused_is_told_and_nothing_is_called(database: Database) -> None:
    endpoint = Endpoint(api_key="right")
    async with serve(endpoint.app) as url:
        bench = Bench(database, Model(), f"{url}/v1", key="wrong")
        async with at_work(bench):
            await until(lambda: bench.news)
    assert "Set MODEL_API_KEY." in bench.news[0][1]
    assert endpoint.requests == []


async def test_another_server_is_told_and_tried(database: Database) -> None:
    async with warmed(database, Endpoint(Profile.hosted_api())) as bench:
        await until(lambda: len(bench.news) == 2)
    assert "does not say that it is vLLM" in bench.news[0][1]
    assert "Unknown parameter" in bench.news[1][1]


async def test_a_server_that_lists_no_models_is_called_all_the_same(database: Database) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        status, body = (200, b'{"version": "0.33.0"}') if scope["path"] == "/version" else (404, b"")
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    model = Model([said("yes")] * 4)
    async with serve(app) as url:
        bench = Bench(database, model, f"{url}/v1")
        async with at_work(bench):
            await closed(bench, 4)
    assert [request.thinking for request in model.requests] == [False, False, True, True]


async def test_one_that_is_gone_before_it_has_told_all_is_asked_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    endpoint, version = Endpoint(), server.version

    async def tell(url: str) -> str | None:
        asked.append(url)
        return await version(url if len(asked) > 1 else "http://127.0.0.1:9/v1")

    monkeypatch.setattr(server, "version", tell)
    async with warmed(database, endpoint) as bench:
        await closed(bench, 4)
    assert len(asked) == 2
