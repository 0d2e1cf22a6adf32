"""Clients that bring no request cannot use up the open files of the gateway; IPv6."""

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.http_server import BoundedProtocol, serve
from bot.sim.telegram.server import MAX_WAIT_SECONDS

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n"


class _QuickProtocol(BoundedProtocol):
    request_seconds = 0.02


class _Client:
    """A connection that sends `data`."""

    def __init__(self, url: str, data: bytes) -> None:
        self._port = urlsplit(url).port
        self._data = data

    async def __aenter__(self) -> asyncio.StreamReader:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._data)
        return reader

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server ends the connection."""
    received = b""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        try:
            while chunk := await reader.read(1000):
                received += chunk
        except ConnectionResetError:
            pass
    return received


@pytest.mark.parametrize("data", [b"", REQUEST, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"])
async def test_a_connection_without_a_whole_request_ends_and_a_long_answer_does_not(data: bytes):
    slow_has_ended = asyncio.Event()

    async def answer(request: Request) -> Response:
        if request.method == "GET":
            await slow_has_ended.wait()
        return PlainTextResponse("answered")

    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    async with (
        serve(app, protocol=_QuickProtocol) as url,
        _Client(url, REQUEST + b"Connection: close\r\n\r\n") as waiting,
        _Client(url, data) as slow,
    ):
        await read_to_end(slow)
        slow_has_ended.set()
        assert b"answered" in await read_to_end(waiting)


async def test_more_connections_than_there_may_be_are_ended_at_once():
    class _TwoConnections(BoundedProtocol):
        max_connections = 2

    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("answered"))])
    async with (
        serve(app, protocol=_TwoConnections) as url,
        _Client(url, b"") as first,
        _Client(url, REQUEST) as second,
        _Client(url, REQUEST + b"\r\n") as third,
    ):
        assert not await read_to_end(third)
        assert not first.at_eof()
        assert not second.at_eof()


def can_listen_on_ipv6() -> bool:
    """Whether this machine has the address; a container may have none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not can_listen_on_ipv6(), reason="this machine has no ::1")
async def test_it_listens_on_an_address_of_ipv6():
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("answered"))])
    async with serve(app, host="::1") as url, httpx.AsyncClient(timeout=None) as http:
        assert url.startswith("http://[::1]:")
        assert (await http.get(url)).text == "answered"
