"""What a screen gets and returns: the request of a logged-in admin, and a page, a fragment or a download."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias
from zoneinfo import ZoneInfo

from htpy import Node

from bot.admin.data_table import DataTable
from bot.admin.error_pages import PageRefused
from bot.canvases import CANVASES, OutputUnit
from bot.db.bounded_reader import BoundedReader
from bot.db.engine import Database
from bot.db.people.admin_changes import AdminChange
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.shares import OwnShares
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction
from bot.errors import QuestionRefused
from bot.llm.endpoint_watch import EndpointWatch
from bot.llm.seats import Seats
from bot.settings import Settings
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.tool_info import BuiltinTools

ExportForm = Literal["csv", "json"]


class ChangeAccess(Protocol):
    """Changes who may write, by the number of a person or a group, inside the caller's transaction.

    Raises ChangeRefused for what cannot be.
    """

    async def __call__(self, tx: Transaction, actor: Actor, number: int, /, *, now: float) -> AdminChange: ...


@dataclass(frozen=True, slots=True)
class AccessChanges:
    """The changes of who may write; the chat makes the same."""

    let_in: ChangeAccess
    remove: ChangeAccess
    block: ChangeAccess
    let_group_in: ChangeAccess
    leave_group: ChangeAccess


class CheckSession(Protocol):
    """Raises PageRefused if the session of a request is over by now, or its person no admin any more."""

    async def __call__(self, tx: Transaction, /, *, now: float) -> None: ...


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """What the page asks the gateway in its own process.

    `seats`: by endpoint. `endpoint_watch`: of the first one. `bot_name`: the username, without @.
    `on_limits_changed`: called once an admin has changed a limit. `own_shares`: of a replica.
    """

    seats: Mapping[str, Seats]
    endpoint_watch: EndpointWatch
    tool_registry: ToolRegistry
    bot_name: str
    on_limits_changed: Callable[[], None]
    access: AccessChanges
    own_shares: OwnShares | None = None


@dataclass(frozen=True, slots=True)
class PageDependencies:
    """What all screens use.

    `database`: for sessions and acts. `reader`: for figures. `gateway` None: this process runs none, so that
    seats are not known and nothing can be changed. `builtin_tools`: the gateway's own tools.
    """

    settings: Settings
    database: Database
    reader: BoundedReader
    builtin_tools: BuiltinTools
    gateway: RunningGateway | None = None


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who is logged in; `person` None: the owner of the machine. `csrf_token` is expected of each form."""

    person: int | None
    name: str
    zone: ZoneInfo
    csrf_token: str


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The request of an admin.

    `path`: of the page as an address has it, such as `/admin/turns`. `parts`: what stands for the `{…}` of
    the view's path. `output_unit`: what the output of models is counted in.
    """

    path: str
    parts: Mapping[str, str]
    query: Mapping[str, str]
    viewer: Viewer
    now: float
    dependencies: PageDependencies
    check_session: CheckSession
    output_unit: OutputUnit = CANVASES

    @property
    def zone(self) -> ZoneInfo:
        """The admin's time zone, in which all times are shown."""
        return self.viewer.zone

    @property
    def gateway(self) -> RunningGateway:
        """The gateway of this process. Raises PageRefused where none runs, so that nothing can be changed."""
        if self.dependencies.gateway is None:
            raise PageRefused("`canvasgram admin` only shows. Log in at the gateway's own page.", status=403)
        return self.dependencies.gateway

    @property
    def actor(self) -> Actor:
        """The admin, as the author of what an act changes."""
        return Actor(self.viewer.person, "page")

    @property
    def export(self) -> ExportForm | None:
        """The form in which the table of the page is asked for; None: the page itself."""
        match self.query.get("export"):
            case None:
                return None
            case "csv":
                return "csv"
            case "json":
                return "json"
        raise QuestionRefused("A table is exported as csv or json.")

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """Read from one snapshot; once a page, for reads of all pages take turns."""
        return self.dependencies.reader.read()

    def read_briefly(self) -> AbstractAsyncContextManager[Transaction]:
        """Read a few rows in the event loop, which every reply waits for: not what may take long."""
        return self.dependencies.reader.read_briefly()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        """Change something, in one transaction, as long as the viewer is an admin.

        Refused where no gateway runs in this process.
        """
        _ = self.gateway
        async with self.dependencies.database.transaction() as tx:
            await self.check_session(tx, now=self.now)
            yield tx


@dataclass(frozen=True, slots=True)
class ScreenPage:
    """A whole page: its title, what stands below it, and which tables can be exported from it."""

    title: str
    body: Node
    tables: Sequence[DataTable] = ()


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a page, which htmx asks for by itself, and which tables can be exported from it."""

    body: Node
    tables: Sequence[DataTable] = ()


@dataclass(frozen=True, slots=True)
class Download:
    """A file: its name and what is in it."""

    name: str
    media_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where the browser goes after an act, and the line that says there what was done."""

    path: str
    note: str = ""


Content: TypeAlias = ScreenPage | Fragment
View = Callable[[PageRequest], Awaitable[Content]]
Act = Callable[[PageRequest, Mapping[str, str]], Awaitable[Redirect | ScreenPage]]


@dataclass(frozen=True, slots=True)
class Screen:
    """One screen, at `/admin/{name}`; `place` orders the navigation.

    It leaves out those without a title, which belong to the one of the same place.
    `views` and `acts` (only by POST) are by their paths below it, such as `""` and `"/{turn}"`.
    """

    name: str
    title: str
    place: int
    views: Mapping[str, View]
    acts: Mapping[str, Act] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def path(self) -> str:
        """Its path on the page."""
        return f"{ADMIN_PATH}/{self.name}"
