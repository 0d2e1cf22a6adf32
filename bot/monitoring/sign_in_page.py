"""The page to which the sign-in of a tool sends a browser back; it shows nothing of what it was sent.

The link may have been sent on: then the account of one person is about to be connected to another. So the
page says who asked for it, and only its button hands over what came back.
"""

from html import escape
from typing import Protocol
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bot.tool_registry.sign_in_flows import SIGN_IN_PATH, SignInRequest
from tools.mcp.sign_in import SignInAnswer, parse_answer

TAKEN_PAGE = "Thank you. You can close this page, and go back to where you asked for the link."
CLOSED_PAGE = "This sign-in is not open any more. Ask for another link."
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
}
_QUESTION_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Connect an account</title>
<h1>Connect an account</h1>
<p>{question}</p>
<p>If you did not ask for this yourself, close this page.</p>
<form method="post"><button>Connect</button></form>
</html>
"""


class WaitingSignIns(Protocol):
    """The sign-ins whose page may send something back."""

    def find_request(self, state: str) -> SignInRequest | None:
        """Return whose sign-in waits for what has this state."""
        ...

    def receive(self, answer: SignInAnswer) -> bool:
        """Take what the page of a sign-in sent back; False if it was not waited for."""
        ...


def build_sign_in_route(sign_ins: WaitingSignIns) -> Route:
    """Build the page as a route of an app."""

    async def take_answer(request: Request) -> Response:
        answer = parse_answer(str(request.url))
        waiting = None if answer is None else sign_ins.find_request(answer.state)
        if answer is None or waiting is None:
            return PlainTextResponse(CLOSED_PAGE, 400, _HEADERS)
        if request.method != "POST" and answer.error is None:
            question = escape(_ask_to_connect(waiting))
            return HTMLResponse(_QUESTION_PAGE.format(question=question), headers=_HEADERS)
        sign_ins.receive(answer)
        return PlainTextResponse(TAKEN_PAGE, headers=_HEADERS)

    return Route(SIGN_IN_PATH, take_answer, methods=["GET", "POST"])


def _ask_to_connect(request: SignInRequest) -> str:
    """Ask whether to connect which account to whom."""
    account = f"your account at {request.source.name} ({urlsplit(request.source.address).hostname})"
    asker = f"“{request.name}”"
    if request.person:
        asker += f" (number {request.person} in Telegram)"
    if request.is_personal:
        return f"Connect {account} to {asker}? The bot then uses it for what they ask."
    return f"Connect {account} to this bot, for everyone who may use its tools? {asker} asked for it."


def build_sign_in_app(sign_ins: WaitingSignIns) -> ASGIApp:
    """Build an app that has only this page."""
    return Starlette(routes=[build_sign_in_route(sign_ins)])
