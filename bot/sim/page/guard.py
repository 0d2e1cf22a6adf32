"""Guards the chat page: lets in only clients of this machine that know its secret address.

Protects against other websites in the same browser: DNS rebinding (Host), forged requests (Origin, content
type), framing and injected scripts (headers).
"""

import hmac

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class PageGuard:
    """The ASGI app around `app`, which sees paths below `/<token>`."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._find_refusal(scope)
        if refused is not None:
            await PlainTextResponse(refused[1], refused[0])(scope, receive, send_guarded)
            return
        await self._app({**scope, "path": self._strip_token(scope["path"])}, receive, send_guarded)

    def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        port = scope["server"][1]
        if host not in {f"127.0.0.1:{port}", f"localhost:{port}"}:
            return 403, "This page is served to this machine only."
        if not hmac.compare_digest(
            scope["path"].lstrip("/").partition("/")[0].encode(), self._token.encode()
        ):
            return 404, "Not found. The address that was printed at the start holds a secret word."
        if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
            return 403, "Another site may not ask this one."
        if scope["method"] not in {"GET", "HEAD"}:
            if headers.get("origin") != f"http://{host}":
                return 403, "Another site may not ask this one."
            # A form of another site cannot send either of these without asking the server first.
            if headers.get("content-type") not in {"application/json", "application/octet-stream"}:
                return 415, "JSON or a file is wanted."
        return None

    def _strip_token(self, path: str) -> str:
        return path.removeprefix(f"/{self._token}")
