"""`/healthz`: tells live from ready and nothing else. A plain ASGI app; app.py serves it when HTTP_PORT is set."""

import json
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send


def health(is_ready: Callable[[], bool]) -> ASGIApp:
    """200 while the process answers; `ready` says whether Telegram was heard lately."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        known = scope["path"] == "/healthz"
        body = json.dumps({"live": True, "ready": is_ready()}).encode() if known else b"{}"
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200 if known else 404, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app
