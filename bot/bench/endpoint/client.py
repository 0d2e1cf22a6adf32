"""Calls an endpoint as a client of its own, streamed or whole, and times each call. Owns its connections.

The gateway always streams; only the bench also requests whole replies, because published figures were
measured that way.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from bot.bench.endpoint.result import MeasuredCall
from bot.domain import Message, ModelRequest, Reply
from bot.errors import EndpointAway, ServerAway
from bot.llm import server_api
from bot.llm.client import ModelClient
from bot.llm.dialect import PLAIN, VLLM, Dialect, find_dialect
from bot.llm.endpoint_config import SILENCE_SECONDS
from bot.llm.seats import SeatLimiter
from bot.llm.stream import StreamAccumulator, make_epoch_clock

MAX_CONCURRENT_CALLS = 4


@dataclass(frozen=True, slots=True)
class BenchTarget:
    """The endpoint that is measured; `dialect` is what it understands, as the gateway finds it.

    `version` None: it tells none.
    """

    url: str
    api_key: str | None
    model: str
    context_tokens: int | None
    version: str | None
    dialect: Dialect = VLLM


async def find_target(url: str, api_key: str | None) -> BenchTarget:
    """Find out what answers at `url`; raises ServerAway or KeyRefused."""
    listed = await server_api.fetch_model_list(url, api_key)
    served = server_api.parse_models(listed)
    if not served:
        raise ServerAway(f"The endpoint at {url} serves no model.")
    version = await server_api.fetch_version(url)
    dialect = find_dialect(listed) or (PLAIN if version is None else VLLM)
    return BenchTarget(url, api_key, served[0].name, served[0].context, version, dialect)


def build_request(text: str, max_tokens: int, *, thinking: bool = False) -> ModelRequest:
    """A prompt of one message."""
    return ModelRequest(
        (Message("user", text),), (), "none", thinking, max_tokens, session="bench", lane="bench"
    )


class BenchClient:
    """Calls one endpoint; created by `open_client`."""

    def __init__(self, target: BenchTarget, model_client: ModelClient) -> None:
        self._target = target
        self._model_client = model_client
        self._now = make_epoch_clock()

    async def open_connection(self) -> None:
        """Open the connection of streamed calls, so that the first of them is not timed with it."""
        await self._model_client.open_connection()

    async def call(self, request: ModelRequest, *, streamed: bool) -> tuple[Reply, MeasuredCall]:
        """One answer, and its timings. Raises CallFailed."""
        if streamed:
            reply = await self._model_client.call(request, lambda text: None, lambda: None)
        else:
            reply = await self._call_whole(request)
        return reply, _to_call(reply, streamed=streamed)

    async def _call_whole(self, request: ModelRequest) -> Reply:
        body = self._target.dialect.build_body(self._target.model, request, streamed=False)
        accumulator = StreamAccumulator(self._now)
        accumulator.mark_seat()
        answer = await self._model_client.ask("/chat/completions", body, timeout_seconds=SILENCE_SECONDS)
        with contextlib.suppress(ValueError):
            accumulator.add_chunk(answer.body)
        reply = accumulator.build_reply()
        if reply.finish_reason is None:
            status = f" (HTTP {answer.refusal})" if answer.refusal else ""
            raise EndpointAway(f"The endpoint sent no whole reply that can be read{status}.", reply)
        return reply


@contextlib.asynccontextmanager
async def open_client(target: BenchTarget) -> AsyncIterator[BenchClient]:
    """A client while the block runs, with seats of its own."""
    llm = ModelClient(
        target.url,
        target.model,
        SeatLimiter(MAX_CONCURRENT_CALLS),
        dialect=target.dialect,
        api_key=target.api_key,
    )
    try:
        yield BenchClient(target, llm)
    finally:
        await llm.close()


def _to_call(reply: Reply, *, streamed: bool) -> MeasuredCall:
    times = reply.times
    usage = reply.usage
    begin = times.seat or times.created
    end = times.ended or times.created
    call = MeasuredCall(
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
