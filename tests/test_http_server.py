"""Clients that bring no request, or an endless one, cannot use up what the gateway has; IPv6."""

import asyncio
import contextlib
import re
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

    async def __aenter__(self) -> "_Client":
        self.reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._data)
        return self

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
        await read_to_end(slow.reader)
        slow_has_ended.set()
        assert b"answered" in await read_to_end(waiting.reader)


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * 100_000,
        REQUEST + b"X: " + b"a" * 100_000,
        REQUEST + b"X: a\r\n" * 20_000,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 100_000,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 100_000,
    ],
    ids=("address", "a header", "headers", "a chunk's head", "trailers"),
)
async def test_a_request_without_an_end_is_refused_and_no_other_one_is(
    data: bytes, caplog: pytest.LogCaptureFixture
):
    has_ended = asyncio.Event()

    async def answer(_: Request) -> Response:
        await has_ended.wait()
        return PlainTextResponse("answered")

    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    async with serve(app, protocol=BoundedProtocol) as url, _Client(url, data) as client:
        received = await read_to_end(client.reader)
        has_ended.set()
        large = REQUEST + b"Connection: close\r\nX: " + b"a" * 60_000 + b"\r\n\r\n"
        async with _Client(url, large) as other:
            assert b"answered" in await read_to_end(other.reader)
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "head",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nHost: x\r\n\r\n",
        REQUEST + b"A b: c\r\n\r\n",
        REQUEST + b"X: a\0b\r\n\r\n",
        REQUEST + b"Content-Length: -1\r\n\r\n",
        REQUEST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_answered_so_without_a_traceback(
    head: bytes, caplog: pytest.LogCaptureFixture
):
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("answered"))])
    async with serve(app, protocol=BoundedProtocol) as url, _Client(url, head) as client:
        received = await read_to_end(client.reader)
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert received.endswith(b"\r\n\r\nInvalid HTTP request received.")
    assert not [record for record in caplog.records if record.exc_info]


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"


@pytest.mark.parametrize("piece_bytes", [1, 1000])
@pytest.mark.parametrize(
    "body", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
async def test_a_request_that_offers_another_protocol_is_read_with_its_body(body: bytes, piece_bytes: int):
    """As clients of Java and `curl --http2` send it; those that come after it are answered, too."""

    class _PieceProtocol(BoundedProtocol):
        def data_received(self, data: bytes) -> None:
            for start in range(0, len(data), piece_bytes):
                super().data_received(data[start : start + piece_bytes])

    async def answer(request: Request) -> Response:
        return PlainTextResponse(f"<{request.method} {(await request.body()).decode()}>")

    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    post = b"POST / HTTP/1.1\r\nHost: x\r\n" + UPGRADE + body
    last = REQUEST + b"Upgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n"
    requests = post + REQUEST + UPGRADE + b"\r\n" + last
    async with serve(app, protocol=_PieceProtocol) as url, _Client(url, requests) as client:
        received = await read_to_end(client.reader)
    assert re.findall(rb"<.*>", received) == [b"<POST abc>", b"<GET >", b"<GET >"]


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
        assert not await read_to_end(third.reader)
        assert not first.reader.at_eof()
        assert not second.reader.at_eof()


async def test_at_its_end_what_is_being_answered_is_sent_and_what_waits_is_closed():
    asked = asyncio.Event()
    leaving = asyncio.Event()

    async def answer(_: Request) -> Response:
        asked.set()
        await leaving.wait()
        return PlainTextResponse("answered")

    app = Starlette(routes=[Route("/", answer)])
    async with contextlib.AsyncExitStack() as clients:
        async with serve(app) as url:
            waiting = await clients.enter_async_context(_Client(url, b""))
            busy = await clients.enter_async_context(_Client(url, REQUEST + b"\r\n"))
            await asked.wait()
            asyncio.get_running_loop().call_soon(leaving.set)
        assert (await read_to_end(busy.reader)).endswith(b"answered")
        assert await read_to_end(waiting.reader) == b""


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
