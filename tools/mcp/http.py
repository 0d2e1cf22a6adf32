"""A server at a URL: the HTTP client that the SDK speaks through, which opens no other address than it may.

Every request looks the name up anew and connects to what was checked; nothing larger than a message is read.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import cache

import httpx2

from tools.base import ToolError
from tools.mcp.errors import AddressNotAllowed
from tools.mcp.limits import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, ReadThrottle, count_values, weigh_message
from tools.mcp.location import ServerUrl
from tools.net.policy import DEFAULT_PORTS, NetworkPolicy
from tools.threads import run_in_thread

CONNECT_TIMEOUT_SECONDS = 5.0  # seconds
DISCONNECT_TIMEOUT_SECONDS = 2.0  # seconds that saying goodbye to a server may take

TOO_LARGE_TEXT = "is too large to be taken, or packed"

_LISTEN_METHOD = "subscriptions/listen"  # a request that is answered as long as the connection lasts


class ResponseTooLarge(httpx2.StreamError):
    """The answer is longer than one may be; the SDK makes an error of it for the request alone."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE_TEXT)


async def create_client(remote: ServerUrl, policy: NetworkPolicy | None = None) -> httpx2.AsyncClient:
    """A client for this server, to be entered and left; its headers go to the server's own origin only."""
    policy = policy or NetworkPolicy(private=remote.private)
    guard = PolicyTransport(
        policy,
        await run_in_thread(_default_ssl_context) if policy.ssl_context is None else policy.ssl_context,
    )
    headers = {"User-Agent": "Canvasgram/0.1", "Accept-Encoding": "identity", **remote.headers}
    timeout = httpx2.Timeout(60.0, connect=CONNECT_TIMEOUT_SECONDS, pool=CONNECT_TIMEOUT_SECONDS)
    return httpx2.AsyncClient(transport=guard, headers=headers, timeout=timeout, trust_env=False)


class PolicyTransport(httpx2.AsyncBaseTransport):
    """Connects to what is within reach only, and bounds what is read of an answer."""

    def __init__(self, policy: NetworkPolicy, ssl_context: ssl.SSLContext) -> None:
        self._policy = policy
        self._inner = httpx2.AsyncHTTPTransport(verify=ssl_context, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.raw_host.decode().strip("[]")
        timeout = {**request.extensions["timeout"], "read": _read_timeout(request)}
        extensions = {**request.extensions, "sni_hostname": host, "timeout": timeout}
        failure: Exception | None = None
        for ip in await self._resolve_allowed(host, request.url):
            there = httpx2.Request(
                request.method,
                request.url.copy_with(host=ip),
                headers=request.headers,  # the name is in its Host
                stream=request.stream,
                extensions=extensions,
            )
            try:
                return self._limit_response(await self._inner.handle_async_request(there))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _resolve_allowed(self, host: str, url: httpx2.URL) -> list[str]:
        try:
            return await self._policy.resolve_allowed(host, url.port or DEFAULT_PORTS[url.scheme])
        except ToolError as error:
            raise AddressNotAllowed(str(error).rstrip(".")) from error

    def _limit_response(self, response: httpx2.Response) -> httpx2.Response:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        # What is packed was not asked for, and may be any size.
        is_packed = response.headers.get("content-encoding", "identity").strip().lower() not in (
            "",
            "identity",
        )
        response.stream = _BoundedStream(
            response.stream, 0 if is_packed else MAX_MESSAGE_BYTES, is_stream=is_stream
        )
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    """An answer of `most` bytes at most, and so many parts that it can be read; of a stream of events this is
    said of each line, and it goes on not faster than its pace.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int, *, is_stream: bool) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = ReadThrottle()
        clock = asyncio.get_running_loop().time
        kept = bytearray()
        async for piece in self._inner:
            kept += piece
            if len(kept) > self._max_bytes:
                raise ResponseTooLarge
            if self._is_stream and b"\n" in piece:
                lines, _, rest = bytes(kept).rpartition(b"\n")
                for line in lines.split(b"\n"):
                    await asyncio.sleep(pace.next_delay(_weigh(line), clock()))
                yield lines + b"\n"
                kept = bytearray(rest)
        _weigh(kept)
        yield bytes(kept)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _weigh(message: bytes | bytearray) -> int:
    """What reading it costs. Raises TooLarge."""
    if count_values(message) > MAX_MESSAGE_VALUES:
        raise ResponseTooLarge
    if message.strip():
        return weigh_message(message)
    return 0


def _read_timeout(request: httpx2.Request) -> float | None:
    """Seconds without a byte after which an answer is given up; what waits for news waits for ever."""
    if request.method == "DELETE":
        return DISCONNECT_TIMEOUT_SECONDS
    if request.method == "GET" or request.headers.get("mcp-method") == _LISTEN_METHOD:
        return None
    return 60.0


@cache
def _default_ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)
