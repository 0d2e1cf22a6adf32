"""Serves `/healthz`, `/metrics`, hooks, sign-ins and the admins' page; imports only what is served."""

import contextlib
import errno
import importlib.metadata
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from bot.app.gateway import Gateway
from bot.db.database_url import find_database_file
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.errors import CanvasgramError, SettingsRefused
from bot.llm.seats import Seats
from bot.settings import Settings

if TYPE_CHECKING:
    from bot.admin.app import AdminRoutes
    from bot.monitoring.health import PortApp

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")

log = logging.getLogger(__name__)


class PortBusy(CanvasgramError):
    """Another program has HTTP_PORT, perhaps only for a moment: a start after it may succeed."""


@contextlib.asynccontextmanager
async def listen(settings: Settings) -> AsyncIterator["PortApp | None"]:
    """Listen on HTTP_PORT while the block runs; None: it is not set."""
    if settings.http_port is None:
        yield None
        return
    from bot.http_server import BoundedProtocol, serve
    from bot.monitoring.health import PortApp

    is_encrypted = settings.admin_page == "off" or settings.admin_url is not None
    if not is_encrypted and settings.http_host not in LOOPBACK_HOSTS:
        log.warning(
            "HTTP_HOST=%s serves the admins' page unencrypted to all who reach that port. "
            "Put TLS before it and set ADMIN_URL, or unset HTTP_HOST",
            settings.http_host,
            extra={"action": "settings.open"},
        )
    app = PortApp()
    server = serve(app, host=settings.http_host, port=settings.http_port, protocol=BoundedProtocol)
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            refusal = PortBusy if error.errno == errno.EADDRINUSE else SettingsRefused
            raise refusal(
                f"HTTP_PORT {settings.http_port} cannot be used ({error.strerror}). Example: HTTP_PORT=8081"
            ) from None
        yield app


@contextlib.asynccontextmanager
async def serve_monitoring(
    port_app: "PortApp | None",
    settings: Settings,
    gateway: Gateway,
    database: Database,
    seats_by_endpoint: Mapping[str, Seats],
) -> AsyncIterator[None]:
    """Serve what is set to be served on HTTP_PORT while the block runs."""
    async with contextlib.AsyncExitStack() as stack:
        if port_app is not None:
            from bot.db.usage.ended import EndedWatcher
            from bot.maintenance.backup import build_backup_directory
            from bot.monitoring.health import build_app
            from bot.monitoring.hook_page import HookReceiver
            from bot.monitoring.metrics import GatewayMetrics, GatewayState

            watcher = EndedWatcher(database)
            await retry_until_available(watcher.begin)
            database_file = find_database_file(settings.database_url)
            metrics = GatewayMetrics(
                watcher,
                seats_by_endpoint,
                gateway.tool_registry.is_known,
                importlib.metadata.version("canvasgram"),
                GatewayState(
                    gateway.is_ready,
                    None if database_file is None else database_file.parent,
                    build_backup_directory(settings),
                    gateway.own_shares,
                ),
            )
            routes: AdminRoutes = []
            if settings.admin_page == "on":
                from bot.app.admin_page import open_admin_page

                page = open_admin_page(settings, database, gateway, seats_by_endpoint)
                routes = await stack.enter_async_context(page)
            port_app.pages = build_app(
                gateway.is_ready, metrics, gateway.sign_ins, routes, gateway.own_shares
            )
            port_app.hooks = HookReceiver(database, settings.admin_ids, lambda: gateway.worker.is_draining)
            stack.callback(port_app.close)
        yield
