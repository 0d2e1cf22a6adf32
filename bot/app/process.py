"""The process of a gateway: opens database, Telegram and endpoints, has the gateway built, and runs it."""

import asyncio
import contextlib
import importlib.metadata
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING

from bot.app.factory import DEFAULT_OPTIONS, Models, ProcessContext, RunOptions, build
from bot.app.first_admin import FirstAdminLink
from bot.app.gateway import Gateway
from bot.app.monitoring_server import listen, serve_monitoring
from bot.app.replica import ReplicaLink, build_seats, open_replica_link
from bot.chat.access import Access
from bot.db.database_url import describe_database, find_database_file
from bot.db.engine import Database, open_database
from bot.db.migration_process import migrate_in_process
from bot.db.retry import OutageLog, report_failures, retry_until_available
from bot.llm.client import ModelClient
from bot.llm.seats import Seats
from bot.settings import Settings, reveal
from bot.telegram.bot_identity import list_guest_mode_problems
from bot.telegram.client import TelegramBot, open_bot, run_unless_stopped
from bot.turns.endpoints import ModelEndpoint, open_fallback_endpoint
from bot.usage.timers import TurnTimers
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from bot.monitoring.health import PortApp

log = logging.getLogger(__name__)


async def run(
    settings: Settings,
    stop: asyncio.Event,
    announce: Callable[[str], None] = log.warning,
    *,
    options: RunOptions = DEFAULT_OPTIONS,
) -> int:
    """Run the gateway until `stop` is set; returns the exit code.

    Raises a CanvasgramError if it cannot start. While there is no admin, `announce` gets the link by which a
    user becomes the first one.
    """
    timers = options.timers or TurnTimers()
    outage_log = OutageLog()
    async with contextlib.AsyncExitStack() as stack:

        async def open_store() -> Database:
            opening = open_database(settings.database_url, outage_log, stop, for_gateway=True)
            with report_failures(outage_log):
                return await stack.enter_async_context(opening)

        async def migrate() -> str | None:
            with report_failures(outage_log):
                return await run_in_thread(migrate_in_process, settings.database_url)

        database = await run_unless_stopped(stop, retry_until_available(open_store), None)
        if database is None:
            return 0
        port_app = await stack.enter_async_context(listen(settings))
        began_at = time.monotonic()
        copy_path = await run_unless_stopped(stop, retry_until_available(migrate), None)
        if copy_path:
            log.info(
                "the database was migrated in %.0f s; a copy is at %s",
                time.monotonic() - began_at,
                copy_path,
                extra={"action": "app.migrated"},
            )
        token = settings.telegram_token.get_secret_value()
        opened_bot = open_bot(token, settings.telegram_api_url, stop, settings.telegram_proxy)
        async with opened_bot as bot:
            if bot is not None:
                async with (
                    open_replica_link(settings.database_url, database) as link,
                    _open_models(settings, link) as models,
                ):
                    process = ProcessContext(timers, outage_log, link)
                    build_gateway = partial(
                        build, settings, database, bot, models, process=process, options=options
                    )
                    await _run_with_bot(settings, stop, announce, database, bot, build_gateway, port_app)
    return 0


async def _run_with_bot(  # noqa: PLR0913  # each was opened by itself
    settings: Settings,
    stop: asyncio.Event,
    announce: Callable[[str], None],
    database: Database,
    bot: TelegramBot,
    build_gateway: Callable[[], Coroutine[None, None, Gateway]],
    port_app: "PortApp | None",
) -> None:
    gateway = await run_unless_stopped(stop, build_gateway(), None)
    if gateway is None:
        return
    _log_start(settings, bot, gateway.access)
    if settings.guest_mode == "on":
        for problem in list_guest_mode_problems(bot):
            log.warning("%s", problem, extra={"action": "app.guest_mode"})
    first_admin_link = FirstAdminLink(database, gateway.access, bot.username, announce)
    await run_unless_stopped(stop, first_admin_link.show_if_due(), None)
    seats_by_endpoint = _list_seats(gateway.model, gateway.action_dependencies.turns.fallback_endpoint)
    async with serve_monitoring(port_app, settings, gateway, database, seats_by_endpoint):
        await gateway.run(stop, first_admin_link)
    log.info("stopped; what waits is stored", extra={"action": "app.stopped"})


def _log_start(settings: Settings, bot: TelegramBot, access: Access) -> None:
    database_file = find_database_file(settings.database_url)
    log.info(
        "Canvasgram %s runs as @%s; database %s; people: %d, admins among them: %d",
        importlib.metadata.version("canvasgram"),
        bot.username,
        describe_database(settings.database_url) if database_file is None else database_file.absolute(),
        len(access.list_speakers()),
        len(access.list_admins()),
        extra={"action": "app.started"},
    )


@contextlib.asynccontextmanager
async def _open_models(settings: Settings, link: ReplicaLink | None) -> AsyncIterator[Models]:
    model = ModelClient(
        settings.model_url,
        settings.model_name,
        build_seats(link, "main", settings.model_seats),
        api_key=reveal(settings.model_api_key),
    )
    try:
        fallback_seats = build_seats(link, "fallback", settings.fallback_seats)
        async with open_fallback_endpoint(settings, fallback_seats) as fallback:
            yield model, fallback
    finally:
        await model.close()


def _list_seats(model: ModelClient, fallback: ModelEndpoint | None) -> Mapping[str, Seats]:
    """The seats of each endpoint, by its role."""
    seats = {"main": model.seats}
    if fallback is not None and isinstance(fallback.model, ModelClient):
        seats["fallback"] = fallback.model.seats
    return seats
