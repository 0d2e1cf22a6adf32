"""The chat route of the simulated server: its key, its refusals, its answer.

Owns only the times until which it refuses everything; calls the engine for the rest.
"""

import asyncio
import secrets
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic, time

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bot.sim.gemma.template import render_prompt
from bot.sim.gemma.tokens import split_blocks
from bot.sim.vllm.delivery import CUT_SCOPE_KEY, CompletionResponse
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import (
    ENGINE_BUSY,
    ENGINE_DEAD,
    QUEUE_FULL_EVENT,
    ServerInfo,
    VllmRefusal,
    parse_body,
)
from bot.sim.vllm.faults import EndpointFault, EndpointFaultQueue
from bot.sim.vllm.hosted_api import (
    HostedCompletionEncoder,
    build_refusal_body,
    build_unauthorized_body,
    check_hosted_fields,
)
from bot.sim.vllm.images import image_digests, tag_image_blocks
from bot.sim.vllm.other_routes import OtherRouteDependencies, OtherRoutes
from bot.sim.vllm.other_servers import OtherServerEncoder
from bot.sim.vllm.request import EngineJob, RequestRecord
from bot.sim.vllm.response import CompletionEncoder, ReplyOptions
from bot.sim.vllm.script import ChatRequest
from bot.sim.vllm.sse import DONE, CompletionHead, format_event, new_completion_id
from bot.sim.vllm.tokenize import to_template_input
from bot.sim.vllm.validation import check_chat, check_length, check_sampling, requested_max_tokens

_KEY_PATHS = ("/v1/", "/v2/", "/inference/", "/cohere/")
_LOADING = VllmRefusal(503, "The model is still loading.", "Service Unavailable")
# A dead engine answers for a moment, then its process is gone.
_DEAD_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ChatRouteDependencies:
    """What the routes work with."""

    engine: Engine
    faults: EndpointFaultQueue
    server_info: ServerInfo
    other_routes: OtherRouteDependencies
    api_key: str | None
    log_request: Callable[[RequestRecord], None]
    on_change: Callable[[], None]


class EndpointApp:
    """The ASGI side of one simulated server."""

    def __init__(self, dependencies: ChatRouteDependencies) -> None:
        self._dependencies = dependencies
        self._engine = dependencies.engine
        self._server_info = dependencies.server_info
        self._fingerprint = f"vllm-{dependencies.server_info.profile.version}-{secrets.token_hex(4)}"
        chat = Route("/v1/chat/completions", self._chat, methods=["POST"])
        table = [chat, *OtherRoutes(dependencies.other_routes).build_routes()]
        self._routes = Starlette(
            routes=table, exception_handlers={HTTPException: _http_error, VllmRefusal: _send_refusal}
        )
        self.loading_until = 0.0
        self.refusing_until = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in: not at all, with 503, with 401, or to its route."""
        scope[CUT_SCOPE_KEY] = partial(_cut_connection, send, receive)
        died = self._engine.died_at
        gone = died is not None and monotonic() - died > _DEAD_SECONDS
        if gone or monotonic() < self.refusing_until:
            await _cut_connection(send, receive)
        elif monotonic() < self.loading_until:
            await self._refusal_response(_LOADING)(scope, receive, send)
        elif not self._has_access(scope):
            await self._unauthorized_response()(scope, receive, send)
        else:
            await self._routes(scope, receive, send)

    def _has_access(self, scope: Scope) -> bool:
        if self._dependencies.api_key is None or not scope["path"].startswith(_KEY_PATHS):
            return True
        header = dict(scope["headers"]).get(b"authorization", b"")
        return secrets.compare_digest(header, f"Bearer {self._dependencies.api_key}".encode())

    async def _chat(self, http_request: HttpRequest) -> Response:
        log = RequestRecord(
            {}, {key.lower(): value for key, value in http_request.headers.items()}, monotonic()
        )
        self._dependencies.log_request(log)
        fault = self._dependencies.faults.take()
        log.fault_kind = fault.kind if fault else None
        try:
            log.body = parse_body(await http_request.body(), http_request.headers.get("content-type", ""))
            job = self._admit(log, fault)
        except VllmRefusal as refusal:
            log.status = refusal.status
            log.finished_at = monotonic()
            self._dependencies.on_change()
            if refusal.status == 401:
                return self._unauthorized_response()
            if refusal is QUEUE_FULL_EVENT:
                log.status = 200
                return Response(format_event(refusal.body) + DONE, media_type="text/event-stream")
            return self._refusal_response(refusal)
        profile = self._server_info.profile
        head = CompletionHead(
            new_completion_id(log.headers.get("x-request-id")),
            int(time()),
            self._server_info.model,
            self._fingerprint,
        )
        make = HostedCompletionEncoder if profile.hosted else CompletionEncoder
        if profile.server is not None:
            make = OtherServerEncoder
        answer = make(job, head, ReplyOptions.from_body(log.body, profile), profile)
        return CompletionResponse(self._engine, job, answer, self._dependencies.on_change)

    def _unauthorized_response(self) -> Response:
        return JSONResponse(
            build_unauthorized_body() if self._server_info.profile.hosted else {"error": "Unauthorized"}, 401
        )

    def _refusal_response(self, refusal: VllmRefusal) -> Response:
        if self._server_info.profile.hosted:
            body = build_refusal_body(refusal)
        else:
            body = refusal.body
        return JSONResponse(body, refusal.status)

    def _admit(self, log: RequestRecord, fault: EndpointFault | None) -> EngineJob:
        """Check everything that can fail before the engine works."""
        if fault and fault.kind == "unauthorized":
            raise VllmRefusal(401, "Unauthorized")
        if (fault and fault.kind == "crash") or self._kills_engine(log):
            self._engine.die()
        if self._engine.died_at is not None:
            raise ENGINE_DEAD
        check_chat(log.body, self._server_info)
        if self._server_info.profile.hosted:
            check_hosted_fields(log.body)
        conversation = to_template_input(log.body, self._server_info.profile)
        log.prompt = render_prompt(conversation)
        log.thinking = conversation.thinking
        blocks, log.prompt_tokens = split_blocks(log.prompt, self._server_info.profile.image_tokens)
        digests = image_digests(log.body)
        check_length(log.prompt_tokens, self._server_info)
        check_sampling(log.body, self._server_info)
        if self._engine.is_full:
            raise self._reject(log)
        if fault and fault.kind == "busy":
            self._engine.metrics.rejected += 1
            raise ENGINE_BUSY
        room = self._server_info.context_tokens - log.prompt_tokens
        limit = min(
            requested_max_tokens(log.body) or room, room, self._server_info.profile.output_cap or room
        )
        chat = ChatRequest(
            messages=conversation.messages,
            tools=conversation.tools,
            thinking=conversation.thinking,
            prompt=log.prompt,
            max_tokens=limit,
            body=log.body,
            is_continuation=conversation.continue_last,
        )
        return EngineJob(
            log,
            chat,
            tag_image_blocks(blocks, digests, self._server_info.profile.image_tokens),
            fault,
            _priority(log),
            image_digests=digests,
        )

    def _reject(self, log: RequestRecord) -> VllmRefusal:
        """What a request over the queue limit gets: of streamed ones every second is told in its stream.

        vLLM checks the limit as the stream begins, so there it is chance.
        """
        self._engine.metrics.rejected += 1
        if log.body.get("stream") and self._engine.metrics.rejected % 2 == 0:
            return QUEUE_FULL_EVENT
        return ENGINE_BUSY

    def _kills_engine(self, log: RequestRecord) -> bool:
        """Whether the request asks for the probabilities of its prompt, which kills the preview image."""
        return self._server_info.profile.old_parser and log.body.get("prompt_logprobs") is not None


def _priority(log: RequestRecord) -> int:
    return int(log.headers.get("x-vllm-priority") or log.body.get("priority") or 0)


async def _http_error(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code)


async def _send_refusal(_: HttpRequest, error: Exception) -> Response:
    """A refusal of a route beside the chat, as vLLM sends it."""
    assert isinstance(error, VllmRefusal)
    return JSONResponse(error.body, error.status)


async def _cut_connection(send: Send, receive: Receive) -> None:
    """Cut the connection with a reset.

    The server underneath is uvicorn, whose `send` belongs to the connection.
    """
    transport: asyncio.Transport = send.__self__.transport  # type: ignore[attr-defined]
    raw = transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    while (await receive())["type"] != "http.disconnect":
        pass
