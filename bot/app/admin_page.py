"""Builds the admins' page: beside a running gateway, or alone, where it only shows.

Imported only where the page is served: its libraries cost a gateway without it nothing.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping

from bot.admin.app import AdminRoutes, build_admin_app, build_admin_routes
from bot.admin.page_request import AccessChanges, PageDependencies, RunningGateway
from bot.app.gateway import Gateway
from bot.chat.actions import ActionDependencies
from bot.chat.commands.group_changes import GroupChanges
from bot.chat.commands.people_changes import PeopleChanges
from bot.db.bounded_reader import open_bounded_reader
from bot.db.engine import Database, open_database
from bot.db.people import page_sessions
from bot.db.readonly import check_readable
from bot.errors import QuestionRefused, SettingsRefused
from bot.http_server import BoundedProtocol, serve
from bot.llm.seats import Seats
from bot.settings import Settings
from bot.tool_registry.loader import build_builtin_tools


@contextlib.asynccontextmanager
async def open_admin_page(
    settings: Settings, database: Database, gateway: Gateway, seats: Mapping[str, Seats]
) -> AsyncIterator[AdminRoutes]:
    """The page of a running gateway, as routes of its app."""
    running_gateway = RunningGateway(
        seats,
        gateway.endpoint_watch,
        gateway.tool_registry,
        gateway.bot_name,
        gateway.quota.clear_cache,
        build_access_changes(gateway.action_dependencies),
        gateway.own_shares,
    )
    builtin_tools = build_builtin_tools(settings)
    async with open_bounded_reader(settings.database_url) as reader:
        yield build_admin_routes(PageDependencies(settings, database, reader, builtin_tools, running_gateway))


def build_access_changes(deps: ActionDependencies) -> AccessChanges:
    """What the chat's commands change about who may write, for the page."""
    people = PeopleChanges(deps)
    groups = GroupChanges(deps)
    return AccessChanges(people.let_in, people.remove, people.block, groups.let_in, groups.leave)


async def serve_admin_page(
    settings: Settings, port: int, announce: Callable[[str], None], stop: asyncio.Event
) -> int:
    """Serve the page alone on this machine until `stop` is set; `announce` gets a link that logs in."""
    async with (
        open_bounded_reader(settings.database_url) as reader,
        open_database(settings.database_url) as database,
    ):
        app = build_admin_app(PageDependencies(settings, database, reader, build_builtin_tools(settings)))
        async with contextlib.AsyncExitStack() as stack:
            try:
                url = await stack.enter_async_context(serve(app, port=port, protocol=BoundedProtocol))
            except OSError as error:
                raise QuestionRefused(
                    f"Port {port} cannot be used ({error.strerror}). Leave --port out to take a free one."
                ) from None
            async with database.transaction() as tx:
                token = await page_sessions.insert_link(tx, None, now=time.time())
            link = page_sessions.build_login_url(url, token)
            announce(f"The page only shows. Open this within five minutes; Ctrl-C ends it:\n  {link}")
            await stop.wait()
    return 0


async def create_login_link(settings: Settings) -> str:
    """A link that logs the owner of this machine in to the page of its gateway.

    Raises SettingsRefused, and StoreUnavailable or SchemaUnknown unless the database is of this version.
    """
    page_url = settings.admin_page_url
    if page_url is None:
        raise SettingsRefused(
            "The page is off. Example: ADMIN_PAGE=on HTTP_PORT=8080. Or `canvasgram admin` shows it now."
        )
    check_readable(settings.database_url)
    async with open_database(settings.database_url) as database, database.transaction() as tx:
        token = await page_sessions.insert_link(tx, None, now=time.time())
    return page_sessions.build_login_url(page_url, token)
