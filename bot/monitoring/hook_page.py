"""Takes what other programs post to hooks, as an app below `/hooks/` at HTTP_PORT.

A post is an item of the inbox, on the disk, before it is answered with 202. Nothing is written for one that
is refused.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from bot.db.engine import Database
from bot.db.queues import hooks
from bot.db.queues.hooks import Hook, PostVerdict
from bot.errors import StoreUnavailable

HOOKS_PATH = "/hooks/"  # below it is the name of a hook
BODY_SECONDS = 20.0  # for the whole of a body
_NO_HEADERS = {"cache-control": "no-store"}


class _PostRefused(Exception):
    """A post is not taken."""

    def __init__(self, status: int, reason: str, retry_seconds: int | None = None) -> None:
        super().__init__(reason)
        headers = dict(_NO_HEADERS)
        if retry_seconds is not None:
            headers["retry-after"] = str(retry_seconds)
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        if status == 405:
            headers["allow"] = "POST"
        self.answer = JSONResponse({"error": reason}, status, headers)


@dataclass(frozen=True, slots=True)
class HookReceiver:
    """Stores posts. `is_stopping`: nothing more is taken. `configured_admins` are those of the settings."""

    database: Database
    configured_admins: Collection[int]
    is_stopping: Callable[[], bool]
    clock: Callable[[], float] = time.time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a post, before any routing: most are refused where a program posts as fast as it can."""
        answer = await self._answer(Request(scope, receive))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if self.is_stopping():
            return _PostRefused(503, "The gateway is stopping.", 10).answer
        try:
            verdict = await self._receive(request)
        except _PostRefused as refused:
            return refused.answer
        except (StoreUnavailable, ClientDisconnect):
            return _PostRefused(503, "The database cannot be used now.", 10).answer
        return JSONResponse({"stored": True, "repeated": verdict.outcome == "repeated"}, 202, _NO_HEADERS)

    async def _receive(self, request: Request) -> PostVerdict:
        if request.method != "POST":
            raise _PostRefused(405, "Only POST.")
        name = request.scope["path"].removeprefix(HOOKS_PATH)
        secret = _read_secret(request.headers.get("authorization", ""))
        # GitHub names its deliveries by a header of its own.
        key = request.headers.get("idempotency-key") or request.headers.get("x-github-delivery")
        async with self.database.read_transaction() as tx:
            hook = await hooks.find_by_secret(tx, name, secret)
            if hook is None:
                raise _PostRefused(401, "There is no such hook, or this is not its secret.")
            _check_size(hook, int(request.headers.get("content-length", "0")))
            verdict = await hooks.judge_post(tx, hook, key, now=self.clock())
        if verdict.outcome == "new":
            text = await _read_body(request, hook)
            verdict = await self._store(name, secret, text, key)
        if verdict.outcome == "over limit":
            raise _PostRefused(429, "This hook takes no more posts now.", verdict.retry_seconds)
        return verdict

    async def _store(self, name: str, secret: str, text: str, key: str | None) -> PostVerdict:
        """Store a post, if its hook has not ended since it was found."""
        async with self.database.transaction() as tx:
            hook = await hooks.find_by_secret(tx, name, secret, for_update=True)
            if hook is not None and await hooks.check_right(tx, hook, self.configured_admins):
                return await hooks.store_post(tx, hook, text, key, now=self.clock())
        raise _PostRefused(401, "There is no such hook, or this is not its secret.")


def _read_secret(authorization: str) -> str:
    """Read a secret that is sent as `Bearer SECRET`, or as the password of any user; "" if it is neither."""
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
        except binascii.Error:
            return ""
    return ""


async def _read_body(request: Request, hook: Hook) -> str:
    """Read the body, and no more of it than the hook takes."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                _check_size(hook, len(body))
    except TimeoutError:
        raise _PostRefused(408, "The body took too long.") from None
    return body.decode("utf-8", "replace")


def _check_size(hook: Hook, byte_count: int) -> None:
    if byte_count > hook.max_bytes:
        raise _PostRefused(413, f"This hook takes {hook.max_bytes} bytes at most.")
