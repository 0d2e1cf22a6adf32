"""The page to which the sign-in of a tool sends a browser back; it shows nothing of what it was sent."""

from collections.abc import Callable
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bot.tool_registry.sign_in_flows import SIGN_IN_PATH
from tools.mcp.sign_in import SignInAnswer, parse_answer

TAKEN_PAGE = "Thank you. You can close this page, and go back to where you asked for the link."
CLOSED_PAGE = "This sign-in is not open any more. Ask for another link."
_HEADERS = {"cache-control": "no-store", "referrer-policy": "no-referrer"}

ReceiveAnswer: TypeAlias = Callable[[SignInAnswer], bool]
"""Takes what the page of a sign-in sent back, and says whether it was waited for."""


def build_sign_in_route(receive_answer: ReceiveAnswer) -> Route:
    """Build the page as a route of an app."""

    async def take_answer(request: Request) -> Response:
        answer = parse_answer(str(request.url))
        if answer is None or not receive_answer(answer):
            return PlainTextResponse(CLOSED_PAGE, 400, _HEADERS)
        return PlainTextResponse(TAKEN_PAGE, headers=_HEADERS)

    return Route(SIGN_IN_PATH, take_answer)


def build_sign_in_app(receive_answer: ReceiveAnswer) -> ASGIApp:
    """Build an app that has only this page."""
    return Starlette(routes=[build_sign_in_route(receive_answer)])
