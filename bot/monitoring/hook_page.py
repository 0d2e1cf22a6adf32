"""Takes what other programs post to hooks, as an app below `/hooks/` at HTTP_PORT.

A post is an item of the inbox, on the disk, before it is answered with 202. Nothing is written for one that
is refused.
"""

import asyncio
import base64
import binascii
import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from bot.db.engine import Database
from bot.db.queues import hooks
from bot.db.queues.hooks import Hook, LimitReached
from bot.errors import StoreUnavailable

HOOKS_PATH = "/hooks/"  # below it is the name of a hook
BODY_SECONDS = 20.0  # for the whole of a body
KNOWN_SECONDS = 0.1  # for so long a limit that was reached holds without a look at the database
_SOON = {"retry-after": "10"}


@dataclass(frozen=True, slots=True)
class HookReceiver:
    """Stores posts. `is_stopping`: nothing more is taken. `configured_admins` are those of the settings."""

    database: Database
    configured_admins: Collection[int]
    is_stopping: Callable[[], bool]
    clock: Callable[[], float] = time.time
    _known_limits: dict[bytes, tuple[float, float]] = field(default_factory=dict)
    """Of hooks with their secrets: until when they are known to take nothing, and the seconds to wait."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a post, before any routing: most are refused where a program posts as fast as it can."""
        try:
            is_new = await self._receive(Request(scope, receive))
            answer = _build_answer(202, {"stored": True, "repeated": not is_new})
        except HTTPException as refusal:
            answer = _build_answer(refusal.status_code, {"error": refusal.detail}, refusal.headers)
        except LimitReached as limit:
            retry_after = {"retry-after": str(limit.retry_seconds)}
            answer = _build_answer(429, {"error": "This hook takes no more posts now."}, retry_after)
        except (StoreUnavailable, ClientDisconnect):
            answer = _build_answer(503, {"error": "The database cannot be used now."}, _SOON)
        await answer(scope, receive, send)

    async def _receive(self, request: Request) -> bool:
        """Store a post; False: it was stored before. Raises HTTPException, LimitReached."""
        if self.is_stopping():
            raise HTTPException(503, "The gateway is stopping.", _SOON)
        if request.method != "POST":
            raise HTTPException(405, "Only POST.", {"allow": "POST"})
        name = request.scope["path"].removeprefix(HOOKS_PATH)
        secret = _read_secret(request.headers.get("authorization", ""))
        # GitHub names its deliveries by a header of its own.
        key = request.headers.get("idempotency-key") or request.headers.get("x-github-delivery")
        hook_digest = hashlib.sha256(f"{name} {secret}".encode("utf-8", "replace")).digest()
        known_until, retry_seconds = self._known_limits.get(hook_digest, (0.0, 0.0))
        if key is None and self.clock() < known_until:
            raise LimitReached(retry_seconds)
        async with self.database.read_transaction() as tx:
            hook = await hooks.find_by_secret(tx, name, secret)
            if hook is None:
                raise _build_unknown()
            _check_size(hook, int(request.headers.get("content-length", "0")))
            try:
                if not await hooks.is_new(tx, hook, key, now=self.clock()):
                    return False
            except LimitReached as limit:
                self._known_limits[hook_digest] = (self.clock() + KNOWN_SECONDS, limit.retry_seconds)
                raise
        text = await _read_body(request, hook)
        async with self.database.transaction() as tx:  # the hook may have ended meanwhile
            hook = await hooks.find_by_secret(tx, name, secret, for_update=True)
            if hook is not None and await hooks.check_right(tx, hook, self.configured_admins):
                return await hooks.store_post(tx, hook, text, key, now=self.clock())
        raise _build_unknown()  # outside of what may have ended the hook


def _build_answer(status: int, content: object, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(content, status, {"cache-control": "no-store", **(headers or {})})


def _build_unknown() -> HTTPException:
    reason = "There is no such hook, or this is not its secret."
    return HTTPException(401, reason, {"www-authenticate": "Bearer"})


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
        raise HTTPException(408, "The body took too long.") from None
    return body.decode("utf-8", "replace")


def _check_size(hook: Hook, byte_count: int) -> None:
    if byte_count > hook.max_bytes:
        raise HTTPException(413, f"This hook takes {hook.max_bytes} bytes at most.")
