"""The routes at HTTP_PORT.

`/healthz` reports live and ready, of a replica what it holds, and nothing else; then `/metrics`, and where
sign-ins of tools come back.
"""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.db.shares import OwnShares
from bot.errors import StoreUnavailable
from bot.monitoring.hook_page import HOOKS_PATH
from bot.monitoring.metrics import GatewayMetrics
from bot.monitoring.sign_in_page import WaitingSignIns, build_sign_in_route


class PortApp:
    """What HTTP_PORT serves: `hooks` below their path, else `pages`.

    Without them: only that the process is alive, and not ready.
    """

    pages: ASGIApp | None = None
    hooks: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.hooks if scope["path"].startswith(HOOKS_PATH) else self.pages
        status = 200 if scope["path"] == "/healthz" else 503
        answer = app or JSONResponse({"live": True, "ready": False}, status)
        await answer(scope, receive, send)

    def close(self) -> None:
        """Serve nothing more."""
        self.pages = None
        self.hooks = None


def build_app(
    is_ready: Callable[[], bool],
    metrics: GatewayMetrics,
    sign_ins: WaitingSignIns,
    more_routes: Sequence[BaseRoute] = (),
    own_shares: OwnShares | None = None,
) -> ASGIApp:
    """`/healthz` is 200 while the process answers; `is_ready` says whether messages are answered now.

    `sign_ins`: those whose page may come back. `more_routes`: what else is served on the port.
    `own_shares`: of a replica.
    """

    async def health(_: Request) -> Response:
        state: dict[str, object] = {"live": True, "ready": is_ready()}
        if own_shares is not None:
            state["replica"] = _describe_replica(own_shares)
        return JSONResponse(state)

    async def exposition(request: Request) -> Response:
        try:
            page, media_type = await metrics.render(request.headers.get("accept", ""))
        except StoreUnavailable as error:
            return PlainTextResponse(str(error), 503)
        return Response(page, media_type=None, headers={"content-type": media_type})

    return Starlette(
        routes=[
            Route("/healthz", health),
            Route("/metrics", exposition),
            build_sign_in_route(sign_ins),
            *more_routes,
        ]
    )


def _describe_replica(own_shares: OwnShares) -> dict[str, object]:
    """What it holds; unless its locks are confirmed, others may hold that by now."""
    state: dict[str, object] = {
        "id": own_shares.life,
        "leads": own_shares.is_leader,
        "shares": sorted(own_shares.holds),
        "locks_confirmed": own_shares.is_confirmed(),
    }
    if own_shares.other_schema is not None:
        state["other_schema"] = own_shares.other_schema
    return state
