"""A server at a URL: the HTTP client that the SDK uses, which opens only addresses that are allowed.

Every request looks the name up again and connects to what was checked; nothing larger than a message is
read.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import cache

import httpx2

from tools.base import ToolError
from tools.mcp.errors import AddressNotAllowed
from tools.mcp.limits import (
    MAX_MESSAGE_BYTES,
    MAX_MESSAGE_VALUES,
    TOO_LARGE_TEXT,
    ReadThrottle,
    count_values,
    weigh_message,
)
from tools.mcp.location import ServerUrl
from tools.net.policy import DEFAULT_PORTS, USER_AGENT, NetworkPolicy
from tools.threads import run_in_thread

CONNECT_TIMEOUT_SECONDS = 5.0
DISCONNECT_TIMEOUT_SECONDS = 2.0  # for ending a session at the server
READ_SECONDS = 60.0  # without a byte, after which a response is given up

_LISTEN_METHOD = "subscriptions/listen"  # its response lasts as long as the connection


class ResponseTooLarge(httpx2.StreamError):
    """The response is too long; the SDK turns this into an error of that request alone."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE_TEXT)


async def create_client(remote: ServerUrl, read_seconds: float = READ_SECONDS) -> httpx2.AsyncClient:
    """A client for this server, to be entered and left; its headers go to the server's own origin only.

    `read_seconds` is how long an answer may be silent: that of a call is, while a person is asked.
    """
    ssl_context = await run_in_thread(_default_ssl_context)
    transport = PolicyTransport(NetworkPolicy(private=remote.private), ssl_context, read_seconds)
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **remote.headers}
    timeout = httpx2.Timeout(read_seconds, connect=CONNECT_TIMEOUT_SECONDS, pool=CONNECT_TIMEOUT_SECONDS)
    return httpx2.AsyncClient(transport=transport, headers=headers, timeout=timeout, trust_env=False)


async def offers_old_transport(remote: ServerUrl) -> bool:
    """Whether a server that has refused a request speaks the transport of 2024: HTTP with SSE."""
    headers = {"Accept": "text/event-stream"}
    try:
        async with (
            asyncio.timeout(CONNECT_TIMEOUT_SECONDS),
            await create_client(remote) as client,
            client.stream("GET", remote.url, headers=headers) as response,
        ):
            return b"event: endpoint" in await anext(response.aiter_bytes(), b"")
    except (httpx2.HTTPError, TimeoutError):
        return False


class PolicyTransport(httpx2.AsyncBaseTransport):
    """Connects to allowed addresses only, and bounds what is read of a response."""

    def __init__(self, policy: NetworkPolicy, ssl_context: ssl.SSLContext, read_seconds: float) -> None:
        self._policy = policy
        self._read_seconds = read_seconds
        self._inner = httpx2.AsyncHTTPTransport(verify=ssl_context, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.raw_host.decode().strip("[]")
        timeout = {**request.extensions["timeout"], "read": _read_timeout(request, self._read_seconds)}
        extensions = {**request.extensions, "sni_hostname": host, "timeout": timeout}
        failure: Exception | None = None
        for ip in await self._resolve_allowed(host, request.url):
            direct_request = httpx2.Request(
                request.method,
                request.url.copy_with(host=ip),
                headers=request.headers,  # `Host` holds the name
                stream=request.stream,
                extensions=extensions,
            )
            try:
                return self._limit_response(await self._inner.handle_async_request(direct_request))
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
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        # Compression was not requested, and what is packed may have any size.
        max_bytes = MAX_MESSAGE_BYTES if encoding in ("", "identity") else 0
        response.stream = _BoundedStream(response.stream, max_bytes, is_stream=is_stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    """A response of at most `max_bytes`, with no more values than can be read.

    In a stream of events this holds for each line, and lines are read no faster than ReadThrottle allows.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int, *, is_stream: bool) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        throttle = ReadThrottle()
        clock = asyncio.get_running_loop().time
        buffer = bytearray()
        async for piece in self._inner:
            buffer += piece
            if len(buffer) > self._max_bytes:
                raise ResponseTooLarge
            if self._is_stream and b"\n" in piece:
                lines, _, rest = bytes(buffer).rpartition(b"\n")
                for line in lines.split(b"\n"):
                    await asyncio.sleep(throttle.next_delay(_weigh(line), clock()))
                yield lines + b"\n"
                buffer = bytearray(rest)
        _weigh(buffer)
        yield bytes(buffer)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _weigh(message: bytes | bytearray) -> int:
    """The cost of reading a message. Raises ResponseTooLarge."""
    if count_values(message) > MAX_MESSAGE_VALUES:
        raise ResponseTooLarge
    if message.strip():
        return weigh_message(message)
    return 0


def _read_timeout(request: httpx2.Request, read_seconds: float) -> float | None:
    """Seconds without a byte after which a response is given up; None for requests that wait for events."""
    if request.method == "DELETE":
        return DISCONNECT_TIMEOUT_SECONDS
    if request.method == "GET" or request.headers.get("mcp-method") == _LISTEN_METHOD:
        return None
    return read_seconds


@cache
def _default_ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)
