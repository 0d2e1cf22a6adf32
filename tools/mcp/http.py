"""A server at a URL: the HTTP client that the SDK speaks through, which opens no other address than it may.

Every request looks the name up anew and connects to what was checked; nothing larger than a message is read.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import cache

import httpx2

from tools.base import ToolError
from tools.mcp.errors import NotAllowed
from tools.mcp.limits import LARGEST, PARTS, Pace, parts, weight
from tools.mcp.location import Remote
from tools.net.policy import PORTS, Reach
from tools.threads import in_thread

CONNECTING = 5.0  # seconds
LEAVING = 2.0  # seconds that saying goodbye to a server may take

TOO_LARGE = "is too large to be taken, or packed"

_LISTENS = "subscriptions/listen"  # a request that is answered as long as the connection lasts


class TooLarge(httpx2.StreamError):
    """The answer is longer than one may be; the SDK makes an error of it for the request alone."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE)


async def client(remote: Remote, reach: Reach | None = None) -> httpx2.AsyncClient:
    """A client for this server, to be entered and left; its headers go to the server's own origin only."""
    reach = reach or Reach(private=remote.private)
    guard = Guard(reach, await in_thread(_usual_roots) if reach.trust is None else reach.trust)
    headers = {"User-Agent": "Canvasgram/0.1", "Accept-Encoding": "identity", **remote.headers}
    timeout = httpx2.Timeout(60.0, connect=CONNECTING, pool=CONNECTING)
    return httpx2.AsyncClient(transport=guard, headers=headers, timeout=timeout, trust_env=False)


class Guard(httpx2.AsyncBaseTransport):
    """Connects to what is within reach only, and bounds what is read of an answer."""

    def __init__(self, reach: Reach, trust: ssl.SSLContext) -> None:
        self._reach = reach
        self._inner = httpx2.AsyncHTTPTransport(verify=trust, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.raw_host.decode().strip("[]")
        timeout = {**request.extensions["timeout"], "read": _patience(request)}
        extensions = {**request.extensions, "sni_hostname": host, "timeout": timeout}
        failure: Exception | None = None
        for ip in await self._allowed(host, request.url):
            there = httpx2.Request(
                request.method,
                request.url.copy_with(host=ip),
                headers=request.headers,  # the name is in its Host
                stream=request.stream,
                extensions=extensions,
            )
            try:
                return self._bounded(await self._inner.handle_async_request(there))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _allowed(self, host: str, url: httpx2.URL) -> list[str]:
        try:
            return await self._reach.addresses(host, url.port or PORTS[url.scheme])
        except ToolError as error:
            raise NotAllowed(str(error).rstrip(".")) from error

    def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        # What is packed was not asked for, and may be any size.
        is_packed = response.headers.get("content-encoding", "identity").strip().lower() not in (
            "",
            "identity",
        )
        response.stream = _Bounded(response.stream, 0 if is_packed else LARGEST, is_stream=is_stream)
        return response


class _Bounded(httpx2.AsyncByteStream):
    """An answer of `most` bytes at most, and so many parts that it can be read; of a stream of events this is
    said of each line, and it goes on not faster than its pace.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, most: int, *, is_stream: bool) -> None:
        self._inner = inner
        self._most = most
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = Pace()
        clock = asyncio.get_running_loop().time
        kept = bytearray()
        async for piece in self._inner:
            kept += piece
            if len(kept) > self._most:
                raise TooLarge
            if self._is_stream and b"\n" in piece:
                lines, _, rest = bytes(kept).rpartition(b"\n")
                for line in lines.split(b"\n"):
                    await asyncio.sleep(pace.wait(_weighed(line), clock()))
                yield lines + b"\n"
                kept = bytearray(rest)
        _weighed(kept)
        yield bytes(kept)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _weighed(message: bytes | bytearray) -> int:
    """What reading it costs. Raises TooLarge."""
    if parts(message) > PARTS:
        raise TooLarge
    if message.strip():
        return weight(message)
    return 0


def _patience(request: httpx2.Request) -> float | None:
    """Seconds without a byte after which an answer is given up; what waits for news waits for ever."""
    if request.method == "DELETE":
        return LEAVING
    if request.method == "GET" or request.headers.get("mcp-method") == _LISTENS:
        return None
    return 60.0


@cache
def _usual_roots() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)
