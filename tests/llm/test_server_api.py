"""The endpoint's other routes: what is parsed from them, and the errors when they are missing."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.errors import KeyRefused, ServerAway
from bot.http_server import serve
from bot.llm import server_api
from bot.llm.server_api import ServedModel, ServerCounters
from tests.support.endpoint.server import ScriptedEndpoint

MODELS = {
    "object": "list",
    "data": [{"id": "gemma4", "max_model_len": 32768}, {"id": "other"}, {"no": "id"}, 7],
}


@contextlib.asynccontextmanager
async def serve_routes(**routes: Any) -> AsyncIterator[str]:
    """An endpoint whose routes return these (status, body) pairs; yields its URL with /v1."""

    def answer(response: tuple[int, Any]) -> Any:
        async def reply(request: Request) -> Response:
            if request.url.path.startswith("/v1") and request.headers.get("authorization") not in {
                None,
                "Bearer k",
            }:
                return Response(json.dumps({"error": "Unauthorized"}), 401, media_type="application/json")
            status, body = response
            if not isinstance(body, str):
                body = json.dumps(body)
            return PlainTextResponse(body, status)

        return reply

    paths = {"models": "/v1/models", "version": "/version", "health": "/health"}
    paths |= {"metrics": "/metrics", "readiness": "/readiness"}
    table = [Route(paths[name], answer(response)) for name, response in routes.items()]
    async with serve(Starlette(routes=table)) as url:
        yield f"{url}/v1"


async def test_models_are_listed_with_their_context() -> None:
    async with serve_routes(models=(200, MODELS)) as url:
        assert await server_api.fetch_models(url, "k") == (
            ServedModel("gemma4", 32768),
            ServedModel("other", None),
        )


async def test_a_wrong_key_and_a_missing_one_get_different_errors() -> None:
    async with serve_routes(models=(401, {"error": "Unauthorized"})) as url:
        with pytest.raises(KeyRefused, match="wants a key"):
            await server_api.fetch_models(url)
        with pytest.raises(KeyRefused, match="wants another key") as caught:
            await server_api.fetch_models(url, "wrong-key")
        assert "wrong-key" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((503, ""), r"is not ready \(HTTP 503\)"),
        ((404, {"detail": "Not Found"}), "is no model endpoint"),
        ((200, "<html>"), "is no model endpoint"),
        ((200, []), "is no model endpoint"),
        ((200, {"data": 5}), "is no model endpoint"),
    ],
)
async def test_a_server_that_is_no_endpoint_is_reported(answer: tuple[int, Any], expected: str) -> None:
    async with serve_routes(models=answer) as url:
        with pytest.raises(ServerAway, match=expected):
            await server_api.fetch_models(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://name.invalid/v1", "http://\x7f/v1"])
async def test_a_url_without_a_server_is_reported(url: str) -> None:
    with pytest.raises(ServerAway, match="Nothing answers at"):
        await server_api.fetch_models(url)
    assert not await server_api.check_health(url)


async def test_the_version_is_known_or_none() -> None:
    async with serve_routes(version=(200, {"version": "0.33.0"})) as url:
        assert await server_api.fetch_version(url) == "0.33.0"
    async with serve_routes(version=(200, {"version": None})) as url:
        assert await server_api.fetch_version(url) is None
    async with serve_routes() as url:
        assert await server_api.fetch_version(url) is None


@pytest.mark.parametrize(("status", "up"), [(200, True), (404, True), (503, False), (500, False)])
async def test_a_server_is_healthy_unless_it_says_otherwise(status: int, up: bool) -> None:
    async with serve_routes(health=(status, "")) as url:
        assert await server_api.check_health(url) is up


@pytest.mark.parametrize(("healthy", "up"), [(1, True), (0, False), ("1", False)])
async def test_a_router_is_up_while_one_of_its_servers_is(healthy: object, up: bool) -> None:
    readiness = {"status": "ready", "healthy_workers": healthy, "total_workers": 2}
    async with serve_routes(health=(503, "Unhealthy servers: [...]"), readiness=(200, readiness)) as url:
        assert await server_api.check_health(url) is up


async def test_certificates_are_verified() -> None:
    async with serve_routes(version=(200, {"version": "0.33.0"})) as url:
        with pytest.raises(ServerAway, match="Nothing answers at https://"):
            await server_api.fetch_version(url.replace("http://", "https://"))


PAGE = """# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="a b}"} 1.5e+03
vllm:prompt_tokens_total{engine="1",model_name="a"} 7.0
vllm:prompt_tokens_created{engine="1",model_name="a"} 1.79e+09
vllm:generation_tokens_total 12 1795164185000
vllm:request_success_total{engine="0",finished_reason="stop"} 2.0
vllm:request_success_total{engine="0",finished_reason="length"} 1.0
vllm:diffusion_num_denoising_steps_total{engine="0"} NaN
vllm:diffusion_num_committed_tokens_total{engine="0"} 1e999
"""


async def test_counters_are_summed_over_engines_and_labels() -> None:
    async with serve_routes(metrics=(200, PAGE)) as url:
        assert await server_api.fetch_counters(url, "k") == ServerCounters(1507, None, 12, 3, None, 0)


@pytest.mark.parametrize("answer", [(404, PAGE), (200, "python_info 1.0"), (200, "")])
async def test_a_server_without_such_counters_has_none(answer: tuple[int, str]) -> None:
    async with serve_routes(metrics=answer) as url:
        assert await server_api.fetch_counters(url) is None


async def test_counters_without_a_server_are_unknown() -> None:
    assert await server_api.fetch_counters("http://127.0.0.1:9/v1") is None


async def test_a_sample_that_is_no_number_counts_as_zero() -> None:
    async with serve_routes(metrics=(200, "vllm:prompt_tokens_total 1.2.3")) as url:
        assert await server_api.fetch_counters(url) == ServerCounters(0)


async def test_the_counters_of_the_simulator_are_parsed() -> None:
    async with serve(ScriptedEndpoint().app) as url:
        assert await server_api.fetch_counters(f"{url}/v1") == ServerCounters(0, 0, 0, 0, 0, 0)


async def test_certificates_are_checked_however_the_scheme_is_written(monkeypatch: pytest.MonkeyPatch):
    contexts: list[ssl.SSLContext] = []

    def certificates() -> ssl.SSLContext:
        contexts.append(ssl.create_default_context())
        return contexts[-1]

    monkeypatch.setattr(server_api, "_certificates", certificates)
    with pytest.raises(ServerAway):
        await server_api.fetch_version("HTTPS://127.0.0.1:9")
    assert len(contexts) == 1
