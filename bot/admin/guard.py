"""Checks of requests that every page shares, and the headers that every answer has."""

import hmac
from collections.abc import Mapping

import htpy as h
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.admin.error_pages import PageRefused
from bot.admin.layout import PageFrame
from bot.admin.page_address import PageAddress
from bot.admin.page_request import Viewer

CSRF_HEADER = "x-csrf-token"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without any, browsers send forms with the origin `null`
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class AddressGuard:
    """Lets requests for the page's own address through, and gives every answer the HEADERS.

    The origin under which a request came is its `admin_origin`.
    """

    def __init__(self, app: ASGIApp, address: PageAddress, frame: PageFrame) -> None:
        self._app = app
        self._address = address
        self._frame = frame

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        request = Request(scope)
        forwarded = request.headers.get("x-forwarded-proto", scope["scheme"])
        scheme = "https" if forwarded == "https" else "http"
        try:
            scope["admin_origin"] = self._address.check(request.headers.get("host", ""), scheme)
        except PageRefused as refusal:
            page = self._frame.show_bare("Refused", h.p[str(refusal)])
            await HTMLResponse(page, refusal.status)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def check_origin(request: Request) -> None:
    """Raise PageRefused unless a form was sent from the page itself."""
    if request.headers.get("origin", "").lower() != request.scope["admin_origin"]:
        raise PageRefused(
            "This form was sent from another website. If you sent it from this page, a proxy in front "
            "replaces the Host: let it pass the Host on, and set ADMIN_URL to the address that you open.",
            status=403,
        )


def check_form(request: Request, form: Mapping[str, str], viewer: Viewer) -> None:
    """Raise PageRefused unless a form, or the header that htmx sends, has the token of the session."""
    token = form.get("csrf") or request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(token.encode(), viewer.csrf_token.encode()):
        raise PageRefused(
            "This form belongs to another login. Go back, load the page again, and try again.", status=403
        )
