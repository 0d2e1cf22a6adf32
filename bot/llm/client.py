"""Calls the endpoint through the OpenAI client: seats, streaming, timing. Owns the connections; translates
all errors.

The only file that knows the client. Its typed chunks cost more processor time than a whole turn of ours, so
chunks are read as plain JSON; connections, requests, the event stream and its errors are the client's.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx2
from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI, AsyncStream

from bot.agent.reply_parser import shown
from bot.agent.sanitize import sendable
from bot.domain import ModelRequest, Reply
from bot.errors import REFUSING, CallFailed, EndpointAway, EndpointRefused, PromptTooLong
from bot.llm.dialect import VLLM, Dialect
from bot.llm.seats import Seats
from bot.llm.stream import Reading, epoch_clock

SILENCE = 120.0  # seconds without a byte after which a stream counts as dead; a first canvas may be slow
CONNECT = 10.0
# vLLM drops idle connections after 5 s; using one it is just dropping would fail.
IDLE = 3.0
SHOWN = 200  # characters of the endpoint's own words that are told

_BUSY = {408, 429, 503}


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings that mend what an endpoint refuses."""

    url: str = "MODEL_URL"
    model: str = "MODEL_NAME"
    key: str = "MODEL_API_KEY"


class Llm:
    """A LanguageModel: one endpoint, one model, `seats` shared by all calls.

    `dialect` says what the endpoint understands; what it does not is not sent. `knobs` are named where it
    refuses.

    Without a `model` it is the first one the endpoint names, asked before the first call.
    """

    knobs: ClassVar[Knobs] = Knobs()

    def __init__(
        self,
        url: str,
        model: str | None,
        seats: Seats,
        *,
        dialect: Dialect = VLLM,
        api_key: str | None = None,
        silence: float = SILENCE,
    ) -> None:
        self.dialect = dialect
        self._wanted = model
        self._model = model
        self._seats = seats
        self._key = api_key
        self._silence = silence
        http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(silence, connect=CONNECT, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE),
            trust_env=False,
        )
        self._client = AsyncOpenAI(base_url=url, api_key=api_key or "none", max_retries=0, http_client=http)
        # The client takes these from the environment; they are OpenAI's, and no endpoint of ours shall see
        # them.
        self._client.organization = self._client.project = None

    @property
    def name(self) -> str:
        """The model as the endpoint calls it; `unknown` until it was asked."""
        return self._model or "unknown"

    @property
    def idle(self) -> bool:
        """Whether a person's call would have a seat at once."""
        return self._seats.idle

    @property
    def seats(self) -> Seats:
        """The seats of all its calls."""
        return self._seats

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def waiting(self, lane: str) -> int | None:
        """How many calls get a seat before this lane's; None if it does not wait."""
        return self._seats.waiting(lane)

    async def call(
        self,
        request: ModelRequest,
        on_block: Callable[[str], None],
        on_seat: Callable[[], None],
        on_cut: Callable[[Reply], None] | None = None,
    ) -> Reply:
        """See LanguageModel.call."""
        reading = Reading(epoch_clock())
        try:
            async with self._seats.held(request.lane, request.priority):
                reading.seated()
                on_seat()
                return await self._read(request, reading, on_block)
        except asyncio.CancelledError:
            if on_cut is not None:
                on_cut(reading.reply(ended=False))
            raise

    async def _read(self, request: ModelRequest, reading: Reading, on_block: Callable[[str], None]) -> Reply:
        begun = request.messages[-1].text if request.continues else ""
        try:
            async with self._stream(request) as chunks:
                async for chunk in chunks:
                    text = reading.take(chunk)
                    if text and (visible := shown(begun + text)):
                        on_block(visible)
                    if request.brake is not None and reading.only_thought(request.brake):
                        reading.finish_reason = "brake"
                        return reading.reply(ended=False)
        except APIError as error:
            raise self._translated(error, reading.reply(ended=False)) from None
        except (ValueError, RecursionError):
            raise EndpointAway("The endpoint sent what cannot be read.", reading.reply(ended=False)) from None
        if reading.finish_reason in {None, "abort", "error"}:
            raise EndpointAway("The endpoint broke the reply off.", reading.reply(ended=False))
        return reading.reply()

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncIterator[AsyncStream[object]]:
        if self._model is None:
            self._model = await self._first_model()
        body = self.dialect.body(self._model, request)
        headers = self.dialect.headers(request)
        try:
            stream = await self._post(body, headers)
        except APIConnectionError as error:
            if not isinstance(
                error.__cause__, httpx2.ReadError | httpx2.WriteError | httpx2.RemoteProtocolError
            ):
                raise
            # A pooled connection may close under the request; nothing has come back, so it may be sent once
            # more.
            stream = await self._post(body, headers)
        async with stream:
            yield stream

    async def _first_model(self) -> str:
        listed = await self._client.get("/models", cast_to=object)
        try:
            return str(listed["data"][0]["id"])  # type: ignore[index]  # whatever is not so is no list of models
        except (LookupError, TypeError):
            raise ValueError("no model is served") from None

    async def _post(self, body: dict[str, Any], headers: dict[str, str]) -> AsyncStream[object]:
        return await self._client.post(
            "/chat/completions",
            body=body,
            options={"headers": headers},
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _translated(self, error: APIError, partial: Reply) -> CallFailed:
        if isinstance(error, APITimeoutError):
            return EndpointAway(f"The endpoint was silent for {self._silence:g} s.", partial)
        if isinstance(error, APIConnectionError):
            reached = partial.blocks or not isinstance(error.__cause__, httpx2.ConnectError)
            return EndpointAway(
                "The endpoint cut the connection." if reached else "The endpoint cannot be reached.", partial
            )
        if not isinstance(error, APIStatusError):
            return EndpointAway("The endpoint failed in the middle of the reply.", partial)
        return self._refused(error, partial)

    def _refused(self, error: APIStatusError, partial: Reply) -> CallFailed:
        status = error.status_code
        if status in _BUSY or status >= 500:
            return EndpointAway(f"The endpoint is busy or not ready (HTTP {status}).", partial)
        if status in {401, 403}:
            return EndpointRefused(f"The endpoint does not accept the key: set {self.knobs.key}.", partial)
        if error.param == "input_tokens" or "maximum context length" in error.message:
            return PromptTooLong("The prompt is longer than the endpoint's context.", partial)
        if status == 404 and error.param == "model" and self._wanted is None:
            self._model = None
            return EndpointAway("The endpoint serves another model now.", partial)
        if status == 404 and error.param == "model":
            why = f"The endpoint does not serve the model {self._model}: set {self.knobs.model}."
            return EndpointRefused(why, partial)
        if status == 404:
            why = f"The endpoint has no chat route there: {self.knobs.url} should end in /v1."
            return EndpointRefused(why, partial)
        return EndpointRefused(REFUSING.format(status, self._words(error)), partial)

    def _words(self, error: APIStatusError) -> str:
        """What the endpoint said, without what it repeats of the request."""
        told = error.message.split("'input'")[0]
        if self._key:
            told = told.replace(self._key, "[hidden]")
        return sendable(" ".join(told.split()))[:SHOWN]
