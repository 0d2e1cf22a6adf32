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

from bot.check.gauges import gauges_of
from bot.check.observations import Answer, Gauges, Route
from bot.check.response import Hearing, words_of

MOST_CALLS: Final = 40
LONGEST = 2_000_000  # characters of an answer; what is longer is none
_BUSY = 503

Enough = Callable[[Hearing], bool]


class Lost(Exception):
    """One request came to nothing; its text says how."""


class Busy(Lost):
    """The endpoint refused one request because it has too many."""


class Spent(Exception):
    """All calls a check may make have been made."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests a check may make, how long each may take, and the pauses before gauges are read, in
    seconds.
    """

    calls: int = MOST_CALLS
    call_seconds: float = 90.0
    route_seconds: float = 10.0
    pauses: tuple[float, ...] = (0.05, 0.3, 0.8)


class Wire:
    """The way to one endpoint at `url`, which ends in /v1."""

    def __init__(self, http: httpx.AsyncClient, url: str, key: str | None, limits: Limits) -> None:
        self._http = http
        self._url = url
        self._key = key
        self.limits = limits
        self.calls = 0

    async def route(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        with_key: bool = True,
    ) -> Route:
        """Ask a plain route; a path with a slash in front stands at the server's root, any other beside the
        chat.
        """
        if path.startswith("/"):
            address = f"{self._url.removesuffix('/v1')}{path}"
        else:
            address = f"{self._url}/{path}"
        self._count()
        seconds = self.limits.route_seconds
        with _translated(seconds):
            async with asyncio.timeout(seconds):
                answer = await self._http.request(method, address, headers=self._headers(with_key), json=body)
        return Route(answer.status_code, _object(answer.text), answer.text)

    async def gauges(self) -> Gauges | None:
        """What runs and waits now; None where the server does not tell."""
        try:
            page = await self.route("GET", "/metrics")
        except Lost:
            return None
        if page.ok:
            return gauges_of(page.text)
        return None

    async def ask(self, body: Mapping[str, Any], *, enough: Enough | None = None) -> Answer:
        """Make a model call, streamed if its body says so; it is left in the middle once `enough` is true of
        it.

        A refusal (4xx) is an answer. Raises Busy for 503, and Lost for all else that came to nothing,
        time-outs too.
        """
        self._count()
        hearing = Hearing(time.monotonic())
        seconds = self.limits.call_seconds
        with _translated(seconds):
            async with asyncio.timeout(seconds), self._posted(body) as answer:
                if answer.status_code != 200:
                    return await self._refused(answer, hearing)
                async for chunk in _chunks(answer, streamed=bool(body.get("stream"))):
                    hearing.take(chunk, time.monotonic())
                    if enough is not None and enough(hearing):
                        break
        heard = hearing.answer(200, time.monotonic())
        if heard.finish is None and enough is None:
            raise Lost("it broke the reply off")
        return heard

    @asynccontextmanager
    async def _posted(self, body: Mapping[str, Any]) -> AsyncIterator[httpx.Response]:
        address = f"{self._url}/chat/completions"
        async with self._http.stream("POST", address, headers=self._headers(True), json=body) as answer:
            yield answer

    async def _refused(self, answer: httpx.Response, hearing: Hearing) -> Answer:
        text = (await answer.aread()).decode("utf-8", "replace")
        words = words_of(_object(text) or text, self._key)
        if answer.status_code >= 500:
            lost = Busy if answer.status_code == _BUSY else Lost
            raise lost(f"it failed with HTTP {answer.status_code}: {words}")
        return replace(hearing.answer(answer.status_code, time.monotonic()), words=words)

    def _headers(self, with_key: bool) -> dict[str, str]:
        if with_key and self._key:
            return {"Authorization": f"Bearer {self._key}"}
        return {}

    def _count(self) -> None:
        if self.calls >= self.limits.calls:
            raise Spent
        self.calls += 1


@contextmanager
def _translated(seconds: float) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, httpx.TimeoutException):
        raise Lost(f"no answer within {seconds:g} s") from None
    except httpx.ConnectError:
        raise Lost("nothing answers there") from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise Lost("it cut the connection") from None
    except (ValueError, RecursionError):
        raise Lost("it sent what cannot be read") from None


async def _chunks(answer: httpx.Response, *, streamed: bool) -> AsyncIterator[Any]:
    """The JSON of a body: that of each event, or all of it; an error in mid-stream raises Lost."""
    if not streamed:
        yield json.loads(await answer.aread())
        return
    size = 0
    async for line in answer.aiter_lines():
        size += len(line)
        if size > LONGEST:
            raise ValueError("more than an answer")
        if not line.startswith("data:") or line.endswith("[DONE]"):
            continue
        chunk = json.loads(line.removeprefix("data:"))
        if isinstance(chunk, dict) and chunk.get("error"):
            raise Lost(f"it failed in the middle of a reply: {words_of(chunk)}")
        yield chunk


def _object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, dict):
        return body
    return {}
