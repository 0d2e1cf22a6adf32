"""What stands before the routes: a server that is gone, that refuses or loads, and the key that it wants."""

import asyncio
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.sim.vllm.errors import VllmRefusal
from tests.support.endpoint.engine import FaultyEngine
from tests.support.endpoint.refusals import LOADING, UNAUTHORIZED

CUT_SCOPE_KEY = "canvasgram.cut"
"""Where in the scope the way to cut the connection is found."""
_KEY_PATHS = ("/v1/", "/v2/", "/inference/", "/cohere/")
# A dead engine answers for a moment, then its process is gone.
_DEAD_SECONDS = 3.0

AnswerRefusal = Callable[[VllmRefusal], Response]


class Gate:
    """The ASGI app around `app`; `answer_refusal` words a refusal as the server does."""

    def __init__(
        self, app: ASGIApp, engine: FaultyEngine, api_key: str | None, answer_refusal: AnswerRefusal
    ) -> None:
        self._app = app
        self._engine = engine
        self._api_key = api_key
        self._answer_refusal = answer_refusal
        self.loading_until = 0.0
        self.refusing_until = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in: not at all, with 503, with 401, or to its route."""
        died = self._engine.died_at
        gone = died is not None and monotonic() - died > _DEAD_SECONDS
        cut: Callable[[], Awaitable[None]] = partial(_cut_connection, send, receive)
        if gone or monotonic() < self.refusing_until:
            await cut()
        elif monotonic() < self.loading_until:
            await self._answer_refusal(LOADING)(scope, receive, send)
        elif not self._has_access(scope):
            await self._answer_refusal(UNAUTHORIZED)(scope, receive, send)
        else:
            await self._app({**scope, CUT_SCOPE_KEY: cut}, receive, send)

    def _has_access(self, scope: Scope) -> bool:
        if self._api_key is None or not scope["path"].startswith(_KEY_PATHS):
            return True
        header = dict(scope["headers"]).get(b"authorization", b"")
        return secrets.compare_digest(header, f"Bearer {self._api_key}".encode())


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
