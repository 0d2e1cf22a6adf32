"""Single calls of the bench: endpoints that cannot be called and failing replies are reported in words."""

import asyncio
import json

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.bench.endpoint.client import BenchTarget, build_request, find_target, open_client
from bot.errors import EndpointAway, ServerAway
from bot.http_server import serve
from bot.sim.vllm.server import Timing
from tests.support.bench_endpoint import build_bench_endpoint


async def test_a_server_without_a_model_is_named() -> None:
    async def none(request: Request) -> Response:
        return Response(json.dumps({"data": []}), media_type="application/json")

    async with serve(Starlette(routes=[Route("/v1/models", none)])) as url:
        with pytest.raises(ServerAway, match="serves no model"):
            await find_target(f"{url}/v1", None)


@pytest.mark.parametrize(
    ("fault", "model", "complaint"),
    [
        (None, "zzz", r"no whole reply .*\(HTTP 404\)"),
        ("reset", "diffusiongemma", "no whole reply"),
        ("busy", "diffusiongemma", r"no whole reply .*\(HTTP 503\)"),
    ],
)
async def test_failures_of_whole_replies_are_described(fault: str | None, model: str, complaint: str) -> None:
    endpoint = build_bench_endpoint(Timing.instant())
    if fault:
        endpoint.inject_fault(fault, times=None)  # type: ignore[arg-type]  # a plain str
    async with (
        serve(endpoint.app) as url,
        open_client(BenchTarget(f"{url}/v1", "k", model, None, "0.33.0")) as client,
    ):
        with pytest.raises(EndpointAway, match=complaint):
            await client.call(build_request("hello", 256), streamed=False)


async def test_a_whole_reply_that_cannot_be_read_or_never_comes_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = asyncio.Event()

    async def answer(request: Request) -> Response:
        if silent.is_set():
            await asyncio.sleep(60)
        return Response('{"choices": []}', media_type="application/json")

    app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    async with serve(app) as url:
        async with open_client(BenchTarget(f"{url}/v1", None, "m", None, None)) as client:
            with pytest.raises(EndpointAway, match="no whole reply"):
                await client.call(build_request("hello", 256), streamed=False)
        monkeypatch.setattr("bot.bench.endpoint.client.SILENCE_SECONDS", 0.05)
        silent.set()
        async with open_client(BenchTarget(f"{url}/v1", None, "m", None, None)) as client:
            with pytest.raises(EndpointAway, match="no whole reply"):
                await client.call(build_request("hello", 256), streamed=False)
