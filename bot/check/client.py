"""Sends the requests of a check: counts them, limits the time of each, and translates errors.

The only module of this package that sends anything. Owns the count of calls; judges nothing.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import httpx

from bot.check.observations import Gauges, ProbeResponse, RouteResponse
from bot.check.response import ResponseAccumulator, parse_error_message
from bot.llm.diagnostics import is_unsupported_input
from bot.llm.server_api import parse_samples
from bot.llm.stream import parse_count

MAX_CALLS: Final = 40
MAX_RESPONSE_CHARACTERS = 2_000_000  # a longer answer is an error
_HTTP_BUSY = 503


class CallLost(Exception):
    """One request failed; the text says how."""


class EndpointBusy(CallLost):
    """The endpoint rejected one request because it has too many."""


class CallBudgetSpent(Exception):
    """The check has made all calls that it may make."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """How many requests a check may make, how long each may take, and the pauses between reads of gauges.

    All times are seconds.
    """

    max_calls: int = MAX_CALLS
    call_seconds: float = 90.0
    route_seconds: float = 10.0
    pause_seconds: tuple[float, ...] = (0.05, 0.3, 0.8)


class ProbeClient:
    """The HTTP client of one endpoint at `url`, which ends in /v1.

    `servers`: the addresses of all servers behind it; empty: it is the only one.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        key: str | None,
        limits: CheckLimits,
        servers: tuple[str, ...] = (),
    ) -> None:
        self._http = http
        self._url = url
        self._key = key
        self._servers = servers or (url.removesuffix("/v1"),)
        self.limits = limits
        self.calls = 0

    async def request_route(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        with_key: bool = True,
    ) -> RouteResponse:
        """Request a route other than the chat.

        A path with a leading slash begins at the server's root, any other at `url`.
        """
        if path.startswith("/"):
            address = f"{self._url.removesuffix('/v1')}{path}"
        else:
            address = f"{self._url}/{path}"
        return await self._request(method, address, body, with_key=with_key)

    async def read_gauges(self) -> Gauges | None:
        """What runs and waits now at all servers; None where one of them does not report it."""
        total: Gauges | None = None
        for server in self._servers:
            gauges = await self.read_gauges_of(server)
            if gauges is None:
                return None
            total = gauges if total is None else total.add(gauges)
        return total

    async def read_gauges_of(self, server: str) -> Gauges | None:
        """What runs and waits at one server now; None where it does not report it."""
        try:
            page = await self._request("GET", f"{server}/metrics", None, with_key=True)
        except CallLost:
            return None
        if page.ok:
            return parse_gauges(page.text)
        return None

    async def _request(
        self, method: Literal["GET", "POST"], address: str, body: Mapping[str, Any] | None, *, with_key: bool
    ) -> RouteResponse:
        self._count_call()
        seconds = self.limits.route_seconds
        with _translate_errors(seconds):
            async with asyncio.timeout(seconds):
                response = await self._http.request(
                    method, address, headers=self._headers(with_key), json=body
                )
        return RouteResponse(response.status_code, _parse_object(response.text), response.text)

    async def call_model(
        self, body: Mapping[str, Any], *, session: str = "check", is_aborted: bool = False
    ) -> ProbeResponse:
        """Make a model call, streamed if its body says so; `is_aborted`: abort it after its first block.

        A router keeps the calls of one `session` at one server.

        A refusal (4xx, or a 500 that names images or tools) is a response. Raises EndpointBusy for 503, and
        CallLost for every other failure, time-outs included.
        """
        self._count_call()
        accumulator = ResponseAccumulator(time.monotonic)
        address = f"{self._url}/chat/completions"
        headers = {**self._headers(True), "X-Session-ID": session}
        seconds = self.limits.call_seconds
        with _translate_errors(seconds):
            async with (
                asyncio.timeout(seconds),
                self._http.stream("POST", address, headers=headers, json=body) as stream,
            ):
                if stream.status_code != 200:
                    return await self._read_refusal(stream)
                async for chunk in _iterate_chunks(stream, streamed=bool(body.get("stream"))):
                    accumulator.add_chunk(chunk)
                    if is_aborted and accumulator.blocks:
                        break
        response = accumulator.build_response()
        if response.reply.finish_reason is None and not is_aborted:
            raise CallLost("it broke the reply off")
        return response

    async def _read_refusal(self, response: httpx.Response) -> ProbeResponse:
        text = (await response.aread()).decode("utf-8", "replace")
        message = parse_error_message(_parse_object(text) or text, self._key)
        failure = f"it failed with HTTP {response.status_code}: {message}"
        if response.status_code == _HTTP_BUSY:
            raise EndpointBusy(failure)
        if response.status_code >= 500 and not is_unsupported_input(response.status_code, message):
            raise CallLost(failure)
        return ProbeResponse(response.status_code, message)

    def _headers(self, with_key: bool) -> dict[str, str]:
        if with_key and self._key:
            return {"Authorization": f"Bearer {self._key}"}
        return {}

    def _count_call(self) -> None:
        if self.calls >= self.limits.max_calls:
            raise CallBudgetSpent
        self.calls += 1


def parse_gauges(page: str) -> Gauges | None:
    """The gauges of a `/metrics` page, summed over engines; None if it lacks what runs and waits."""
    samples = parse_samples(page)
    running = samples.get("num_requests_running")
    waiting = samples.get("num_requests_waiting")
    if running is None or waiting is None:
        return None
    steps = samples.get("diffusion_num_denoising_steps_total")
    committed = samples.get("diffusion_num_committed_tokens_total")
    return Gauges(running, waiting, steps, committed)


@contextmanager
def _translate_errors(seconds: float) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, httpx.TimeoutException):
        raise CallLost(f"no answer within {seconds:g} s") from None
    except httpx.ConnectError:
        raise CallLost("nothing answers there") from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise CallLost("it cut the connection") from None
    except (ValueError, RecursionError):
        raise CallLost("it sent what cannot be read") from None


async def _iterate_chunks(response: httpx.Response, *, streamed: bool) -> AsyncIterator[Any]:
    """The JSON of each event, or of the whole body; an error event raises CallLost, or EndpointBusy."""
    if not streamed:
        yield json.loads(await response.aread())
        return
    size = 0
    async for line in response.aiter_lines():
        size += len(line)
        if size > MAX_RESPONSE_CHARACTERS:
            raise ValueError("more than an answer")
        if not line.startswith("data:") or line.endswith("[DONE]"):
            continue
        chunk = json.loads(line.removeprefix("data:"))
        if isinstance(chunk, dict) and chunk.get("error"):
            raise _translate_error_event(chunk)
        yield chunk


def _translate_error_event(event: Mapping[str, Any]) -> CallLost:
    """Over its queue limit vLLM answers a stream with 503, or with 200 and an error event of that code."""
    failure = f"it failed in the middle of a reply: {parse_error_message(event)}"
    if parse_count(event["error"], "code") == _HTTP_BUSY:
        return EndpointBusy(failure)
    return CallLost(failure)


def _parse_object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, dict):
        return body
    return {}
