"""Sends requests to an endpoint through the OpenAI client, reads the streams, translates all errors.

Owns the connections; the only module that knows the client, which takes half a second to import: `client.py`
imports it after the start. Connections, requests, the event stream and its errors are the client's, but
chunks are read as plain JSON: the client's typed chunks cost more processor time than a whole turn of ours.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import httpx2
from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI, AsyncStream

from bot.agent.reply_parser import extract_visible_text
from bot.agent.sanitize import to_sendable
from bot.domain import BRAKE_FINISH_REASON, ModelRequest, Reply
from bot.errors import REFUSING, CallFailed, EndpointAway, EndpointRefused, PromptTooLong
from bot.llm.diagnostics import is_unsupported_input
from bot.llm.dialect import VLLM, find_dialect
from bot.llm.endpoint_config import CONNECT_SECONDS, EndpointConfig, RouteAnswer
from bot.llm.stream import StreamAccumulator

# vLLM drops idle connections after 5 s; a request on one that it is just dropping would fail.
KEEPALIVE_SECONDS = 3.0
# What came is shown so much later: many servers send why a reply ended after its last block, and an answer of
# one canvas was sent without its last word and edited some ms later. It also bounds the work of many chunks.
SHOW_SECONDS = 0.02
MAX_MESSAGE_CHARS = 200  # characters of the endpoint's own message that users see

_BUSY_STATUSES = {408, 429, 503}
_UNFINISHED_REASONS = {None, "abort", "error"}
_CONNECTION_LOST = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)


class EndpointConnection:
    """The connections to one endpoint; `model` is the model's name there, None until it was fetched.

    `dialect`: what it understands, as far as its list of models was seen.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.model = config.model
        self.dialect = config.dialect
        self._config = config
        http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(config.silence_seconds, connect=CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_SECONDS
            ),
            trust_env=False,
            # Certificates take 30 ms to load; no redirect is followed.
            verify=not config.url.startswith("http://"),
        )
        self._client = AsyncOpenAI(
            base_url=config.url, api_key=config.api_key or "none", max_retries=0, http_client=http
        )
        # The client takes these from the environment; they are for OpenAI, and no endpoint of ours shall see
        # them.
        self._client.organization = None
        self._client.project = None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def warm_up(self) -> None:
        """Ask for the models once, so that the first call does not pay for the connection.

        A failure is left to that call.
        """
        with contextlib.suppress(APIError, ValueError):
            await self._list_models()

    async def ask(self, url: str, body: Mapping[str, Any], *, with_model: bool = False) -> RouteAnswer:
        """Post to a route, at an address or a path below `/v1`; never raises for what the endpoint does.

        `with_model`: the body names the model.
        """
        try:
            if with_model:
                body = {"model": await self._find_model(), **body}
            answer = await self._client.post(url, body=body, cast_to=object)
        except APIStatusError as error:
            if error.param == "model" and self._config.model is None:
                self.model = None  # another one is served now
                return RouteAnswer()
            return RouteAnswer(refusal=error.status_code)
        except (APIError, ValueError, RecursionError):
            return RouteAnswer()
        if isinstance(answer, dict):
            return RouteAnswer(answer)
        return RouteAnswer()

    async def read_reply(
        self, request: ModelRequest, accumulator: StreamAccumulator, on_block: Callable[[str], None]
    ) -> Reply:
        """Send the request and read its stream to the end; raises CallFailed with the partial reply."""
        try:
            is_ended = await self._read_stream(request, accumulator, on_block)
        except APIError as error:
            raise self._translate_error(error, accumulator.build_reply(is_ended=False)) from None
        except (ValueError, RecursionError):
            partial = accumulator.build_reply(is_ended=False)
            raise EndpointAway("The endpoint sent what cannot be read.", partial) from None
        if accumulator.finish_reason in _UNFINISHED_REASONS:
            raise EndpointAway("The endpoint broke the reply off.", accumulator.build_reply(is_ended=False))
        return accumulator.build_reply(is_ended=is_ended)

    async def _read_stream(
        self, request: ModelRequest, accumulator: StreamAccumulator, on_block: Callable[[str], None]
    ) -> bool:
        """Read the stream to its end; False: it was closed before, because the model thought too long."""
        text_before = request.messages[-1].text if request.continue_final_message else ""
        max_thinking_tokens = request.max_thinking_tokens

        def show_text() -> None:
            visible_text = extract_visible_text(text_before + accumulator.text)
            if visible_text and accumulator.finish_reason is None:
                on_block(visible_text)

        with _delay_calls(show_text, SHOW_SECONDS) as show_soon:
            async with self._open_stream(request) as chunks:
                async for chunk in chunks:
                    if accumulator.add_chunk(chunk):
                        show_soon()
                    if accumulator.is_full:
                        return False
                    if max_thinking_tokens is not None and accumulator.has_only_thought(max_thinking_tokens):
                        accumulator.finish_reason = BRAKE_FINISH_REASON
                        return False
                media_type = chunks.response.headers.get("content-type", "nothing").partition(";")[0]
                if accumulator.finish_reason is None and media_type != "text/event-stream":
                    partial = accumulator.build_reply(is_ended=False)
                    raise EndpointAway(f"The endpoint's answer is no stream but {media_type}.", partial)
        return True

    @contextlib.asynccontextmanager
    async def _open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncStream[object]]:
        model = await self._find_model()
        body = self.dialect.build_body(model, request)
        headers = self.dialect.build_headers(request)
        try:
            stream = await self._post(body, headers)
        except APIConnectionError as error:
            if not isinstance(error.__cause__, _CONNECTION_LOST):
                raise
            # A pooled connection may close under the request; nothing has come back, so it may be sent again.
            stream = await self._post(body, headers)
        async with stream:
            yield stream

    async def _find_model(self) -> str:
        """The name of the model to ask; the first that is listed, if none is set."""
        if self.model is None:
            listed = await self._list_models()
            try:
                self.model = str(listed["data"][0]["id"])  # type: ignore[index]  # else no list of models
            except (LookupError, TypeError):
                raise ValueError("no model is served") from None
        return self.model

    async def _list_models(self) -> object:
        """The list of models; where it shows another server than vLLM, that is spoken to in its dialect."""
        listed = await self._client.get("/models", cast_to=object)
        if self._config.dialect is VLLM:
            self.dialect = find_dialect(listed) or VLLM
        return listed

    async def _post(self, body: dict[str, Any], headers: dict[str, str]) -> AsyncStream[object]:
        return await self._client.post(
            "/chat/completions",
            body=body,
            options={"headers": headers},
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _translate_error(self, error: APIError, partial: Reply) -> CallFailed:
        match error:
            case APITimeoutError():
                return EndpointAway(
                    f"The endpoint was silent for {self._config.silence_seconds:g} s.", partial
                )
            case APIConnectionError(__cause__=httpx2.ConnectError()) if not partial.blocks:
                return EndpointAway("The endpoint cannot be reached.", partial)
            case APIConnectionError():
                return EndpointAway("The endpoint cut the connection.", partial)
            case APIStatusError():
                return self._translate_status(error, partial)
            case APIError(code="503") if not partial.blocks:
                # Over its queue limit vLLM answers a stream with 503, or with 200 and this as the only event.
                return EndpointAway(self._describe_busy(503, error), partial)
        return EndpointAway("The endpoint failed in the middle of the reply.", partial)

    def _translate_status(self, error: APIStatusError, partial: Reply) -> CallFailed:
        status = error.status_code
        if status in _BUSY_STATUSES or (
            status >= 500 and not is_unsupported_input(status, _find_words(error))
        ):
            return EndpointAway(self._describe_busy(status, error), partial)
        setting_names = self._config.setting_names
        if status in {401, 403}:
            return EndpointRefused(f"The endpoint does not accept the key: set {setting_names.key}.", partial)
        if error.param == "input_tokens" or "maximum context length" in error.message:
            return PromptTooLong("The prompt is longer than the endpoint's context.", partial)
        if status == 404 and error.param == "model":
            return self._translate_unknown_model(partial)
        if status == 404:
            reason = f"The endpoint has no chat route there: {setting_names.url} should end in /v1."
            return EndpointRefused(reason, partial)
        return EndpointRefused(REFUSING.format(status, self._clean_text(error.message)), partial)

    def _describe_busy(self, status: int, error: APIError) -> str:
        words = self._clean_text(_find_words(error))
        if not words:
            return f"The endpoint is busy or not ready (HTTP {status})."
        return f"The endpoint is busy or not ready. {REFUSING.format(status, words)}"

    def _translate_unknown_model(self, partial: Reply) -> CallFailed:
        if self._config.model is not None:
            reason = (
                f"The endpoint does not serve the model {self.model}: set {self._config.setting_names.model}."
            )
            return EndpointRefused(reason, partial)
        self.model = None  # the next call fetches the list again
        return EndpointAway("The endpoint serves another model now.", partial)

    def _clean_text(self, text: str) -> str:
        """What the endpoint says, without the key and what it repeats of the request."""
        text = text.split("'input'")[0]
        if self._config.api_key:
            text = text.replace(self._config.api_key, "[hidden]")
        return to_sendable(" ".join(text.split()))[:MAX_MESSAGE_CHARS]


@contextlib.contextmanager
def _delay_calls(call: Callable[[], None], seconds: float) -> Iterator[Callable[[], None]]:
    """Call so long after it was asked for, once for all who ask until then; never after the end."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def ask() -> None:
        nonlocal timer
        if timer is None:
            timer = loop.call_later(seconds, run)

    def run() -> None:
        nonlocal timer
        timer = None
        call()

    try:
        yield ask
    finally:
        if timer is not None:
            timer.cancel()


def _find_words(error: APIError) -> str:
    """What the endpoint says of an error; empty if that is nothing, or a proxy's page."""
    body = error.body
    if isinstance(body, Mapping):
        return str(body.get("message") or "")
    if isinstance(body, str) and not body.startswith("<"):
        return body
    return ""
