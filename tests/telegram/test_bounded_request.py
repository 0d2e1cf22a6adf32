"""Every call to the Bot API ends, also when its answer comes byte by byte."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from telegram import InputFile
from telegram.error import TimedOut
from telegram.request import RequestData
from telegram.request._requestparameter import RequestParameter

from bot.http_server import serve
from bot.telegram.bounded_request import BoundedRequest

ENOUGH_SECONDS = 60.0  # far below the silence for which the client would wait


async def trickle(_: Request) -> StreamingResponse:
    async def send_bytes() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)  # the slow server

    return StreamingResponse(send_bytes())


async def answer(request: Request) -> Response:
    return Response(str(len(await request.body())))


@contextlib.asynccontextmanager
async def open_request(read_timeout: float) -> AsyncIterator[tuple[BoundedRequest, str]]:
    routes = [Route("/trickle", trickle), Route("/answer", answer, methods=["POST"])]
    async with serve(Starlette(routes=routes)) as url, BoundedRequest(read_timeout=read_timeout) as request:
        yield request, url


@pytest.mark.parametrize("own_timeout", [True, False])
async def test_an_answer_that_comes_byte_by_byte_ends_at_the_time_limit_of_its_call(own_timeout: bool):
    timeouts: dict[str, Any] = {"read_timeout": 0.2} if own_timeout else {}
    async with open_request(1000 if own_timeout else 0.2) as (request, url), asyncio.timeout(ENOUGH_SECONDS):
        with pytest.raises(TimedOut):
            await request.do_request(f"{url}/trickle", "GET", **timeouts)


async def test_an_upload_has_time_for_its_size():
    data = RequestData([RequestParameter.from_input("document", InputFile(b"x" * 2_000_000))])
    async with open_request(0.0) as (request, url):
        status, body = await request.do_request(f"{url}/answer", "POST", data, read_timeout=60.0)
    assert status == 200
    assert int(body) > 2_000_000
