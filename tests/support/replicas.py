"""Several gateway processes on one PostgreSQL database; each has its role and its address of Telegram."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy.engine import make_url

from bot.domain import SHARE_COUNT, Lane
from bot.http_server import serve
from bot.sim.telegram.server import KEEP_ALIVE_SECONDS, BotApiCall, FloodLimits
from tests.chaos.callers import find_caller, name_caller
from tests.kill.environment import UNSURE
from tests.kill.gateway import PATIENCE, ForkServer, GatewayProcess
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.postgresql import PostgresServer
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

CHATS = range(100, 112)
COUNT_UNSENT = "select count(*) from outbox where state in ('new', 'sending', 'open')"


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Where a replica runs: `launch` starts it there, with the addresses of the simulators and the server."""

    launch: Sequence[str]
    simulator_host: str
    server_host: str


@dataclass
class Replicas:
    """Both simulators, and processes on one database; `calls` to Telegram with the replica's number."""

    api: ScriptedBotApi
    endpoint: ScriptedEndpoint
    processes: list[GatewayProcess]
    server: PostgresServer
    database: str
    calls: list[tuple[int, BotApiCall]] = field(default_factory=list)

    @property
    def leader(self) -> int:
        """The number of the replica that asked for updates last."""
        return next(caller for caller, call in reversed(self.calls) if call.method == "getUpdates")

    def record(self, call: BotApiCall) -> bool:
        """Note who makes a call; it is not hit."""
        self.calls.append((find_caller(), call))
        return False

    def texts(self, chat: int) -> list[str]:
        return [message.text for message in self.api.chat(chat).bot_messages]

    def send_to_all(self, text: str) -> None:
        for chat in CHATS:
            self.api.person(chat, f"Person {chat}").send(text)

    async def hold_answer(self, chat: int) -> None:
        """Have a person write, and the model stop in the middle of the answer until it is released."""
        self.endpoint.hold()
        self.api.person(chat, f"Person {chat}").send("hello")
        await self.endpoint.wait_until(lambda: self.endpoint.running >= 1)

    def list_polls(self, number: int, since: int) -> list[float]:
        """When this replica asked for updates, of all calls from the one of this number on."""
        calls = self.calls[since:]
        return [call.arrived_at for caller, call in calls if caller == number and call.method == "getUpdates"]

    async def wait_for_answers(self, count: int, seconds: float = PATIENCE) -> None:
        """Wait until each chat has so many finished answers, and that is stored: a kill would undo it."""
        await self.api.wait_until(lambda: all(self._has_answers(chat, count) for chat in CHATS), seconds)
        async with asyncio.timeout(seconds):
            while self.load_rows(COUNT_UNSENT) != [(0,)]:  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.02)

    def _has_answers(self, chat: int, count: int) -> bool:
        messages = [message for message in self.api.chat(chat).bot_messages if message.text != UNSURE]
        return len(messages) >= count and not any(message.buttons for message in messages)

    def load_rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.server.execute(query, self.database)

    async def wait_for_row(self, query: str) -> None:
        """Wait until the database has a row that answers this query."""
        async with asyncio.timeout(PATIENCE):
            while not self.load_rows(query):  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.02)

    async def wait_for_shares(self, number: int, count: int) -> None:
        """Wait until this replica holds so many shares; those of one that stands still it gets after 12 s."""
        process = self.processes[number]
        async with asyncio.timeout(2 * PATIENCE):
            while not self._holds(process, count):  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.02)

    def _holds(self, process: GatewayProcess, count: int) -> bool:
        [*_, life] = [line.split()[-3] for line in process.output.splitlines() if "takes part" in line]
        query = f"select count(*) from share_holds where ended_at is null and life = {life}"
        return self.load_rows(query) == [(count,)]

    async def wait_for_parts(self) -> None:
        """Wait until all shares are held, and no replica has more than its part."""
        part = math.ceil(SHARE_COUNT / len(self.processes))
        async with asyncio.timeout(PATIENCE):
            while not self._are_parted(part):  # noqa: ASYNC110  # other processes write it
                await asyncio.sleep(0.02)

    def _are_parted(self, part: int) -> bool:
        query = "select count(*) from share_holds where ended_at is null group by life"
        counts = [count for (count,) in self.load_rows(query)]
        return max(counts, default=0) <= part and sum(counts) == SHARE_COUNT

    def find_holder(self, chat: int) -> int:
        """The number of the replica that has this chat."""
        query = f"select life from share_holds where ended_at is null and share = {Lane(chat).share}"
        [(life,)] = self.load_rows(query)
        text = f"replica {life} takes part"
        return next(number for number, process in enumerate(self.processes) if text in process.output)


@contextlib.asynccontextmanager
async def run_replicas(
    folder: Path,
    server: PostgresServer,
    fork_server: ForkServer | None,
    count: int,
    places: Mapping[int, ReplicaPlace] = MappingProxyType({}),
    **settings: object,
) -> AsyncIterator[Replicas]:
    """Run so many gateways until the block ends; each holds its part of the shares when it begins.

    Those with a number in `places` run there, the others here.
    """
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    endpoint = ScriptedEndpoint(seats=2 * len(CHATS))
    async with contextlib.AsyncExitStack() as stack:
        url = make_url(stack.enter_context(server.open_database()))
        replicas = Replicas(api, endpoint, [], server, url.database or "")
        api.inject_fault(BotApiFault(), when=replicas.record, times=None)
        stack.push_async_callback(_kill_all, replicas)
        for number in range(count):
            place = places.get(number) or ReplicaPlace((), "127.0.0.1", str(server.folder))
            app = name_caller(api.app, number)
            telegram_url = await stack.enter_async_context(
                serve(app, host=place.simulator_host, keep_alive_seconds=KEEP_ALIVE_SECONDS)
            )
            model_url = await stack.enter_async_context(serve(endpoint.app, host=place.simulator_host))
            own_url = url.set(username=create_role(server, number), password="secret").update_query_dict(
                {"host": place.server_host}
            )
            values = {
                "telegram_token": api.token,
                "telegram_api_url": telegram_url,
                "model_url": f"{model_url}/v1",
                "database_url": own_url.render_as_string(hide_password=False),
                "admin_ids": "7",
                "access": "open",
                "warm_up": "off",
                "thinking_read": "off",
                "model_seats": 2 * len(CHATS),
                **settings,
            }
            process = GatewayProcess(
                api, folder / str(number), values, None if place.launch else fork_server, place.launch
            )
            replicas.processes.append(process)
            await process.spawn()
        await stack.enter_async_context(api.serve_on_loopback())  # its end cuts calls that are open
        for process in replicas.processes:
            await process.wait_for_output("takes part")
        await replicas.wait_for_parts()
        await api.wait_until(lambda: any(call.method == "getUpdates" for call in api.calls), PATIENCE)
        yield replicas


async def _kill_all(replicas: Replicas) -> None:
    for process in replicas.processes:
        if process.is_running:
            await process.kill()


def create_role(server: PostgresServer, number: int) -> str:
    """Create the role of a replica, unless there is one."""
    name = f"replica_{number}"
    if not server.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"):
        server.execute(f"CREATE ROLE {name} SUPERUSER LOGIN PASSWORD 'secret'")
    return name
