"""The chat route of the simulated server, its key and its door.

Owns nothing but the moments until which the door stays shut; asks the engine for everything else.
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

from bot.sim.gemma.template import render
from bot.sim.gemma.tokens import blocks_of
from bot.sim.vllm.delivery import CUT, Delivery
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import BUSY, DEAD, Refusal, Server, parse
from bot.sim.vllm.faults import Fault, Faults
from bot.sim.vllm.hosted_api import HostedAnswer, check_hosted, plain_refusal, unauthorized
from bot.sim.vllm.images import pictures, told_apart
from bot.sim.vllm.other_routes import SideParts, SideRoutes
from bot.sim.vllm.request import Job, Request
from bot.sim.vllm.response import Answer, Options
from bot.sim.vllm.script import ChatRequest
from bot.sim.vllm.sse import Head, new_id
from bot.sim.vllm.tokenize import conversation_of
from bot.sim.vllm.validation import check_chat, check_length, check_sampling, wanted_tokens

_KEY_NEEDED = ("/v1/", "/v2/", "/inference/", "/cohere/")
_LOADING = Refusal(503, "The model is still loading.", "Service Unavailable")
# A dead engine answers for a moment, then its process is gone.
_DEAD_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes work with."""

    engine: Engine
    faults: Faults
    server: Server
    side: SideParts
    api_key: str | None
    log: Callable[[Request], None]
    changed: Callable[[], None]


class Front:
    """The ASGI side of one simulated server."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._server = parts.server
        self._fingerprint = f"vllm-{parts.server.profile.version}-{secrets.token_hex(4)}"
        chat = Route("/v1/chat/completions", self._chat, methods=["POST"])
        table = [chat, *SideRoutes(parts.side).table()]
        self._routes = Starlette(routes=table, exception_handlers={HTTPException: _http_error})
        self.loading_until = 0.0
        self.refusing_until = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in: not at all, with 503, with 401, or to its route."""
        scope[CUT] = partial(_cut, send, receive)
        died = self._engine.died_at
        gone = died is not None and monotonic() - died > _DEAD_SECONDS
        if gone or monotonic() < self.refusing_until:
            await _cut(send, receive)
        elif monotonic() < self.loading_until:
            await self._refusal(_LOADING)(scope, receive, send)
        elif not self._may_enter(scope):
            await self._stranger()(scope, receive, send)
        else:
            await self._routes(scope, receive, send)

    def _may_enter(self, scope: Scope) -> bool:
        if self._parts.api_key is None or not scope["path"].startswith(_KEY_NEEDED):
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return secrets.compare_digest(given, f"Bearer {self._parts.api_key}".encode())

    async def _chat(self, http: HttpRequest) -> Response:
        log = Request({}, {key.lower(): value for key, value in http.headers.items()}, monotonic())
        self._parts.log(log)
        fault = self._parts.faults.take()
        log.fault = fault.kind if fault else None
        try:
            log.body = parse(await http.body(), http.headers.get("content-type", ""))
            job = self._admit(log, fault)
        except Refusal as refusal:
            log.status = refusal.status
            log.finished = monotonic()
            self._parts.changed()
            if refusal.status == 401:
                return self._stranger()
            return self._refusal(refusal)
        profile = self._server.profile
        head = Head(
            new_id(log.headers.get("x-request-id")), int(time()), self._server.model, self._fingerprint
        )
        make = HostedAnswer if profile.hosted else Answer
        answer = make(job, head, Options.of(log.body, profile), profile)
        return Delivery(self._engine, job, answer, self._parts.changed)

    def _stranger(self) -> Response:
        return JSONResponse(unauthorized() if self._server.profile.hosted else {"error": "Unauthorized"}, 401)

    def _refusal(self, refusal: Refusal) -> Response:
        if self._server.profile.hosted:
            told = plain_refusal(refusal)
        else:
            told = refusal.body
        return JSONResponse(told, refusal.status)

    def _admit(self, log: Request, fault: Fault | None) -> Job:
        """Everything that can go wrong before the engine works."""
        if fault and fault.kind == "unauthorized":
            raise Refusal(401, "Unauthorized")
        if (fault and fault.kind == "crash") or self._dies_of(log):
            self._engine.die()
        if self._engine.died_at is not None:
            raise DEAD
        check_chat(log.body, self._server)
        if self._server.profile.hosted:
            check_hosted(log.body)
        conversation = conversation_of(log.body, self._server.profile)
        log.prompt = render(conversation)
        log.thinking = conversation.thinking
        blocks, log.prompt_tokens = blocks_of(log.prompt)
        shown = pictures(log.body)
        check_length(log.prompt_tokens, self._server)
        check_sampling(log.body, self._server)
        if self._engine.full or (fault and fault.kind == "busy"):
            self._engine.metrics.rejected += 1
            raise BUSY
        room = self._server.context - log.prompt_tokens
        limit = min(wanted_tokens(log.body) or room, room, self._server.profile.output_cap or room)
        chat = ChatRequest(
            messages=conversation.messages,
            tools=conversation.tools,
            thinking=conversation.thinking,
            prompt=log.prompt,
            max_tokens=limit,
            body=log.body,
            continuing=conversation.continue_last,
        )
        return Job(log, chat, told_apart(blocks, shown), fault, _priority(log), pictures=shown)

    def _dies_of(self, log: Request) -> bool:
        """The preview image is killed by a request for the probabilities of its prompt."""
        return self._server.profile.old_parser and log.body.get("prompt_logprobs") is not None


def _priority(log: Request) -> int:
    return int(log.headers.get("x-vllm-priority") or log.body.get("priority") or 0)


async def _http_error(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code)


async def _cut(send: Send, receive: Receive) -> None:
    """Cut the connection with a reset: the server underneath is uvicorn, whose `send` belongs to the
    connection.
    """
    transport: asyncio.Transport = send.__self__.transport  # type: ignore[attr-defined]
    raw = transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    while (await receive())["type"] != "http.disconnect":
        pass
