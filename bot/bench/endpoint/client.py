"""Makes one call to an endpoint as a client of its own, streamed or whole, and times it. Owns its
connections.

The gateway always streams; only measuring also asks for whole replies, because published figures were made
so.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import httpx

from bot.bench.endpoint.result import Call
from bot.domain import Message, ModelRequest, Reply
from bot.errors import EndpointAway, EndpointRefused, ServerAway
from bot.llm import server_api as server
from bot.llm.client import CONNECT, SILENCE, Llm
from bot.llm.dialect import PLAIN, VLLM, Dialect
from bot.llm.seats import Seats
from bot.llm.stream import Reading, epoch_clock

AT_ONCE = 4
WORDS = 200  # characters of a refusal that are told


@dataclass(frozen=True, slots=True)
class Target:
    """The endpoint that is measured. `version` None: it is no vLLM, and is asked in the common protocol
    alone.
    """

    url: str
    key: str | None
    model: str
    context: int | None
    version: str | None

    @property
    def dialect(self) -> Dialect:
        """What it understands."""
        if self.version is None:
            return PLAIN
        return VLLM


async def find(url: str, key: str | None) -> Target:
    """Look who answers at `url`; raises ServerAway or KeyRefused."""
    served = await server.models(url, key)
    if not served:
        raise ServerAway(f"The endpoint at {url} serves no model.")
    return Target(url, key, served[0].name, served[0].context, await server.version(url))


def asking(text: str, most: int, *, thinking: bool = False) -> ModelRequest:
    """A prompt of one message."""
    return ModelRequest((Message("user", text),), (), "none", thinking, most, session="bench", lane="bench")


class Caller:
    """Calls one endpoint; build it with `calling`."""

    def __init__(self, target: Target, llm: Llm, http: httpx.AsyncClient) -> None:
        self._target = target
        self._llm = llm
        self._http = http
        self._now = epoch_clock()

    async def call(self, request: ModelRequest, *, streamed: bool) -> tuple[Reply, Call]:
        """One answer, and how long it took. Raises CallFailed."""
        reply = await (self._streamed(request) if streamed else self._whole(request))
        return reply, _timed(reply, streamed=streamed)

    async def _streamed(self, request: ModelRequest) -> Reply:
        return await self._llm.call(request, lambda text: None, lambda: None)

    async def _whole(self, request: ModelRequest) -> Reply:
        body = self._target.dialect.body(self._target.model, request) | {"stream": False}
        del body["stream_options"]
        reading = Reading(self._now)
        reading.seated()
        try:
            response = await self._http.post(f"{self._target.url}/chat/completions", json=body)
            if not response.is_success:
                raise _refused(response, reading)
            reading.take(_as_chunk(response.json()))
        except httpx.TimeoutException:
            raise EndpointAway(
                f"The endpoint was silent for {SILENCE:g} s.", reading.reply(ended=False)
            ) from None
        except httpx.HTTPError:
            raise EndpointAway("The endpoint cut the connection.", reading.reply(ended=False)) from None
        except (ValueError, LookupError, TypeError):
            raise EndpointAway("The endpoint sent what cannot be read.", reading.reply(ended=False)) from None
        return reading.reply()


@contextlib.asynccontextmanager
async def calling(target: Target) -> AsyncIterator[Caller]:
    """A caller while the block runs, with seats of its own."""
    llm = Llm(target.url, target.model, Seats(AT_ONCE), dialect=target.dialect, api_key=target.key)
    headers = {"Authorization": f"Bearer {target.key}"} if target.key else {}
    timeout = httpx.Timeout(SILENCE, connect=CONNECT, pool=None)
    try:
        async with httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as http:
            yield Caller(target, llm, http)
    finally:
        await llm.close()


def _as_chunk(body: Any) -> dict[str, Any]:
    """A whole reply as the one chunk it would be."""
    choice = body["choices"][0]
    message = dict(choice["message"])
    message["tool_calls"] = [
        one | {"index": place} for place, one in enumerate(message.get("tool_calls") or ())
    ]
    return dict(body) | {"choices": [{"delta": message, "finish_reason": choice.get("finish_reason")}]}


def _refused(response: httpx.Response, reading: Reading) -> EndpointAway | EndpointRefused:
    partial = reading.reply(ended=False)
    status = response.status_code
    if status >= 500 or status in {408, 429}:
        return EndpointAway(f"The endpoint is busy or not ready (HTTP {status}).", partial)
    words = " ".join(response.text.split())[:WORDS]
    return EndpointRefused(f"The endpoint refused the request (HTTP {status}): {words}", partial)


def _timed(reply: Reply, *, streamed: bool) -> Call:
    times = reply.times
    usage = reply.usage
    begin = times.seat or times.created
    end = times.ended or times.created
    call = Call(
        end - begin,
        usage.completion_tokens,
        prompt=usage.prompt_tokens,
        cached=usage.cached_tokens,
        reasoning=usage.reasoning_tokens,
        finish=reply.finish_reason,
    )
    if not streamed or times.first_block is None or times.last_block is None:
        return call
    return replace(call, first=times.first_block - begin, last=times.last_block - begin, blocks=reply.blocks)
