"""Sends the requests of a check: counts them, bounds each in time, and translates what goes wrong.

The only file of the room that sends anything. Owns the count; judges nothing.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import httpx

from bot.check.gauges import parse_gauges
from bot.check.observations import Gauges, ProbeResponse, RouteResponse
from bot.check.response import ResponseAccumulator, parse_error_message

MAX_CALLS: Final = 40
MAX_RESPONSE_CHARACTERS = 2_000_000  # characters of an answer; what is longer is none
_HTTP_BUSY = 503

StopCondition = Callable[[ResponseAccumulator], bool]


class CallLost(Exception):
    """One request came to nothing; its text says how."""


class EndpointBusy(CallLost):
    """The endpoint refused one request because it has too many."""


class CallBudgetSpent(Exception):
    """All calls a check may make have been made."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """How many requests a check may make, how long each may take, and the pauses before gauges are read, in
    seconds.
    """

    max_calls: int = MAX_CALLS
    call_seconds: float = 90.0
    route_seconds: float = 10.0
    pause_seconds: tuple[float, ...] = (0.05, 0.3, 0.8)


class ProbeClient:
    """The way to one endpoint at `url`, which ends in /v1."""

    def __init__(self, http: httpx.AsyncClient, url: str, key: str | None, limits: CheckLimits) -> None:
        self._http = http
        self._url = url
        self._key = key
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
        """Ask a plain route; a path with a slash in front stands at the server's root, any other beside the
        chat.
        """
        if path.startswith("/"):
            address = f"{self._url.removesuffix('/v1')}{path}"
        else:
            address = f"{self._url}/{path}"
        self._count_call()
        seconds = self.limits.route_seconds
        with _translate_errors(seconds):
            async with asyncio.timeout(seconds):
                answer = await self._http.request(method, address, headers=self._headers(with_key), json=body)
        return RouteResponse(answer.status_code, _parse_object(answer.text), answer.text)

    async def read_gauges(self) -> Gauges | None:
        """What runs and waits now; None where the server does not tell."""
        try:
            page = await self.request_route("GET", "/metrics")
        except CallLost:
            return None
        if page.ok:
            return parse_gauges(page.text)
        return None

    async def call_model(
        self, body: Mapping[str, Any], *, stop_when: StopCondition | None = None
    ) -> ProbeResponse:
        """Make a model call, streamed if its body says so; it is left in the middle once `enough` is true of
        it.

        A refusal (4xx) is an answer. Raises Busy for 503, and Lost for all else that came to nothing,
        time-outs too.
        """
        self._count_call()
        hearing = ResponseAccumulator(time.monotonic())
        seconds = self.limits.call_seconds
        with _translate_errors(seconds):
            async with asyncio.timeout(seconds), self._post_stream(body) as answer:
                if answer.status_code != 200:
                    return await self._read_refusal(answer, hearing)
                async for chunk in _iterate_chunks(answer, streamed=bool(body.get("stream"))):
                    hearing.add_chunk(chunk, time.monotonic())
                    if stop_when is not None and stop_when(hearing):
                        break
        heard = hearing.build_response(200, time.monotonic())
        if heard.finish is None and stop_when is None:
            raise CallLost("it broke the reply off")
        return heard

    @asynccontextmanager
    async def _post_stream(self, body: Mapping[str, Any]) -> AsyncIterator[httpx.Response]:
        address = f"{self._url}/chat/completions"
        async with self._http.stream("POST", address, headers=self._headers(True), json=body) as answer:
            yield answer

    async def _read_refusal(
        self, response: httpx.Response, accumulator: ResponseAccumulator
    ) -> ProbeResponse:
        text = (await response.aread()).decode("utf-8", "replace")
        words = parse_error_message(_parse_object(text) or text, self._key)
        if response.status_code >= 500:
            lost = EndpointBusy if response.status_code == _HTTP_BUSY else CallLost
            raise lost(f"it failed with HTTP {response.status_code}: {words}")
        return replace(
            accumulator.build_response(response.status_code, time.monotonic()), error_message=words
        )

    def _headers(self, with_key: bool) -> dict[str, str]:
        if with_key and self._key:
            return {"Authorization": f"Bearer {self._key}"}
        return {}

    def _count_call(self) -> None:
        if self.calls >= self.limits.max_calls:
            raise CallBudgetSpent
        self.calls += 1


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
    """The JSON of a body: that of each event, or all of it; an error in mid-stream raises Lost."""
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
            raise CallLost(f"it failed in the middle of a reply: {parse_error_message(chunk)}")
        yield chunk


def _parse_object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, dict):
        return body
    return {}
