"""The routes at HTTP_PORT: `/healthz`, which reports live and ready and nothing else, and `/metrics`."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bot.errors import StoreUnavailable
from bot.monitoring.metrics import GatewayMetrics


def build_app(is_ready: Callable[[], bool], metrics: GatewayMetrics) -> ASGIApp:
    """`/healthz` is 200 while the process answers; `is_ready` says whether Telegram answered recently."""

    async def health(_: Request) -> Response:
        return JSONResponse({"live": True, "ready": is_ready()})

    async def exposition(request: Request) -> Response:
        try:
            page, media_type = await metrics.render(request.headers.get("accept", ""))
        except StoreUnavailable as error:
            return PlainTextResponse(str(error), 503)
        return Response(page, media_type=None, headers={"content-type": media_type})

    return Starlette(routes=[Route("/healthz", health), Route("/metrics", exposition)])
