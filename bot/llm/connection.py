"""Sends requests to an endpoint over httpx2, reads the streams, translates all errors.

Owns the connections. Chunks are read as plain JSON; httpx2 reads the event stream that they come in. It is
imported by `client.py` after the start, and its certificates are loaded then.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import httpx2

from bot.agent.reply_parser import extract_visible_text
from bot.agent.sanitize import to_sendable
from bot.domain import ModelRequest, Reply
from bot.errors import REFUSING, CallFailed, EndpointAway, EndpointRefused, PromptTooLong
from bot.llm.diagnostics import is_unsupported_input
from bot.llm.endpoint_config import CONNECT_SECONDS, EndpointConfig, RouteAnswer
from bot.llm.stream import StreamAccumulator

# vLLM drops idle connections after 5 s; a request on one that it is just dropping would fail.
KEEPALIVE_SECONDS = 3.0
MAX_MESSAGE_CHARS = 200  # characters of the endpoint's own message that users see

_DRAIN_SECONDS = 0.1  # for what follows the end of a stream; read to its end, a connection can be kept
_UNSUPPORTED_STATUSES = {400, 404, 405, 422, 501}
_BUSY_STATUSES = {408, 429, 503}
_UNFINISHED_REASONS = {None, "abort", "error"}
_CONNECTION_LOST = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
_TRANSPORT_ERRORS = (httpx2.RequestError, ssl.SSLError, anyio.EndOfStream)  # the latter two may come through


class _ErrorAnswer(Exception):
    """An error that the endpoint answers with: instead of a reply, or within one, where `status` is None."""

    def __init__(self, status: int | None, body: object) -> None:
        super().__init__(status)
        self.status = status
        self.words = ""
        self.code = ""
        self.param: object = None
        if isinstance(body, str) and not body.startswith("<"):  # else it is a proxy's page
            self.words = body
        if isinstance(body, Mapping):
            details = body.get("error", body)
            self._read_details(details if isinstance(details, Mapping) else {"message": details})

    def _read_details(self, details: Mapping[str, Any]) -> None:
        self.words = str(details.get("message") or "")
        self.code = str(details.get("code"))
        self.param = details.get("param")


class EndpointConnection:
    """The connections to one endpoint; `model` is the model's name there, None until it was fetched."""

    def __init__(self, config: EndpointConfig) -> None:
        self.model = config.model
        self._config = config
        self._http = httpx2.AsyncClient(
            base_url=config.url,
            headers={"authorization": f"Bearer {config.api_key}"} if config.api_key else None,
            timeout=httpx2.Timeout(config.silence_seconds, connect=CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_SECONDS
            ),
            trust_env=False,
            # Certificates take 30 ms to load; no redirect is followed.
            verify=not config.url.startswith("http://"),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def warm_up(self) -> None:
        """Ask for the models once, so that the first call does not pay for the connection.

        A failure is left to that call.
        """
        with contextlib.suppress(*_TRANSPORT_ERRORS):
            await self._http.get("/models")

    async def ask(self, url: str, body: Mapping[str, Any]) -> RouteAnswer:
        """Post to a route, at an address or a path below `/v1`; never raises for what the endpoint does."""
        try:
            response = await self._http.post(url, json=body)
            if not response.is_success:
                return RouteAnswer(is_unsupported=response.status_code in _UNSUPPORTED_STATUSES)
            answer = response.json()
        except (*_TRANSPORT_ERRORS, ValueError, RecursionError):
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
        except _ErrorAnswer as error:
            raise self._translate_answer(error, accumulator.build_reply(is_ended=False)) from None
        except (httpx2.SSEError, httpx2.DecodingError, ValueError, RecursionError):
            partial = accumulator.build_reply(is_ended=False)
            raise EndpointAway("The endpoint sent what cannot be read.", partial) from None
        except _TRANSPORT_ERRORS as error:
            raise self._translate_transport(error, accumulator.build_reply(is_ended=False)) from None
        if accumulator.finish_reason in _UNFINISHED_REASONS:
            raise EndpointAway("The endpoint broke the reply off.", accumulator.build_reply(is_ended=False))
        return accumulator.build_reply(is_ended=is_ended)

    async def _read_stream(
        self, request: ModelRequest, accumulator: StreamAccumulator, on_block: Callable[[str], None]
    ) -> bool:
        """Read the stream to its end; False: it was closed before, because the model thought too long."""
        text_before = request.messages[-1].text if request.continue_final_message else ""
        max_thinking_tokens = request.max_thinking_tokens
        async with (
            self._open_stream(request) as response,
            contextlib.aclosing(_read_chunks(response)) as chunks,
        ):
            async for chunk in chunks:
                text = accumulator.add_chunk(chunk)
                if text and (visible_text := extract_visible_text(text_before + text)):
                    on_block(visible_text)
                if max_thinking_tokens is not None and accumulator.has_only_thought(max_thinking_tokens):
                    accumulator.finish_reason = "brake"
                    return False
        return True

    @contextlib.asynccontextmanager
    async def _open_stream(self, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        if self.model is None:
            self.model = await self._fetch_first_model()
        body = self._config.dialect.build_body(self.model, request)
        headers = self._config.dialect.build_headers(request)
        try:
            response = await self._post(body, headers)
        except _CONNECTION_LOST:
            # A pooled connection may close under the request; nothing has come back, so it may be sent again.
            response = await self._post(body, headers)
        try:
            yield response
        finally:
            await response.aclose()

    async def _fetch_first_model(self) -> str:
        response = await self._http.get("/models")
        await _check_status(response)
        try:
            return str(response.json()["data"][0]["id"])  # anything else is no list of models
        except (LookupError, TypeError):
            raise ValueError("no model is served") from None

    async def _post(self, body: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
        request = self._http.build_request("POST", "/chat/completions", json=body, headers=headers)
        response = await self._http.send(request, stream=True)
        await _check_status(response)
        return response

    def _translate_transport(self, error: Exception, partial: Reply) -> CallFailed:
        match error:
            case httpx2.TimeoutException():
                reason = f"The endpoint was silent for {self._config.silence_seconds:g} s."
            case httpx2.ConnectError() if not partial.blocks:
                reason = "The endpoint cannot be reached."
            case _:
                reason = "The endpoint cut the connection."
        return EndpointAway(reason, partial)

    def _translate_answer(self, error: _ErrorAnswer, partial: Reply) -> CallFailed:
        if error.status is not None:
            return self._translate_status(error, error.status, partial)
        if error.code == "503" and not partial.blocks:
            # Over its queue limit vLLM answers a stream with 503, or with 200 and this as the only event.
            return EndpointAway(self._describe_busy(503, error), partial)
        return EndpointAway("The endpoint failed in the middle of the reply.", partial)

    def _translate_status(self, error: _ErrorAnswer, status: int, partial: Reply) -> CallFailed:
        if status in _BUSY_STATUSES or (status >= 500 and not is_unsupported_input(status, error.words)):
            return EndpointAway(self._describe_busy(status, error), partial)
        setting_names = self._config.setting_names
        if status in {401, 403}:
            return EndpointRefused(f"The endpoint does not accept the key: set {setting_names.key}.", partial)
        if error.param == "input_tokens" or "maximum context length" in error.words:
            return PromptTooLong("The prompt is longer than the endpoint's context.", partial)
        if status == 404 and error.param == "model":
            return self._translate_unknown_model(partial)
        if status == 404:
            reason = f"The endpoint has no chat route there: {setting_names.url} should end in /v1."
            return EndpointRefused(reason, partial)
        return EndpointRefused(
            REFUSING.format(status, self._clean_text(error.words) or "it gives no reason"), partial
        )

    def _describe_busy(self, status: int, error: _ErrorAnswer) -> str:
        words = self._clean_text(error.words)
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


async def _check_status(response: httpx2.Response) -> None:
    """Raise what the endpoint answers instead of what was asked for."""
    if response.is_success:
        return
    try:
        text = (await response.aread()).decode(errors="replace").strip()
    finally:
        await response.aclose()
    body: object = text
    with contextlib.suppress(ValueError, RecursionError):
        body = json.loads(text)
    raise _ErrorAnswer(response.status_code, body)


async def _read_chunks(response: httpx2.Response) -> AsyncGenerator[object]:
    """The chunks of a stream, until the endpoint says that it is done."""
    events = aiter(httpx2.EventSource(response))
    async for event in events:
        if event.data.startswith("[DONE]"):
            await _drain(events)
            return
        chunk = event.json()
        if isinstance(chunk, Mapping) and chunk.get("error"):
            raise _ErrorAnswer(None, chunk)
        yield chunk


async def _drain(events: AsyncIterator[object]) -> None:
    """Read what is left of a response, which is complete, so that its connection can be kept."""
    with contextlib.suppress(TimeoutError, *_TRANSPORT_ERRORS):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in events:
                pass
