"""The environment of a gateway that is killed: both simulators, bells its tools ring, and its database."""

import asyncio
import contextlib
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from starlette.types import Receive, Scope, Send

from bot.db.database_url import is_postgresql
from bot.http_server import serve
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.events import ChangeNotifier
from bot.sim.telegram.server import BotApiCall, FloodLimits
from tests.kill.gateway import PATIENCE, ForkServer, GatewayDied, GatewayProcess
from tests.support.empty_database import place_empty_database
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.faults import FaultInjection
from tests.support.telegram.server import BotApiFault, ScriptedBotApi, ScriptedPerson

ANN = 7
UNSURE = "I don't know whether my answer above reached you."
NEVER = "after 1000000"
IS_IDLE = (
    "select 1 where not exists (select 1 from inbox where state in ('new', 'running'))"
    " and not exists (select 1 from outbox where state in ('new', 'sending', 'open'))"
)
SENT_AGAIN = "I didn't know whether my answer above reached you, so here it is again."

T = TypeVar("T")


def find_zone_at_noon() -> str:
    """A time zone in which it is past noon: no daily job of the gateway comes due by itself."""
    hours_behind = time.gmtime().tm_hour - 12
    return f"Etc/GMT{hours_behind:+d}"


class Bells:
    """An HTTP server that counts what is rung, and answers only while it is not held."""

    def __init__(self) -> None:
        self.rung: Counter[str] = Counter()
        self.url = ""
        self._changes = ChangeNotifier()
        self._free = asyncio.Event()
        self._free.set()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        name = scope["path"].strip("/")
        self.rung[name] += 1
        self._changes.notify()
        await self._free.wait()
        body = f"{name} rang".encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def hold(self) -> None:
        """Let those who ring wait until `release`."""
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    async def until(self, predicate: Callable[[], T]) -> T:
        """The first true value of `predicate`, checked whenever a bell is rung."""
        return await self._changes.wait_until(predicate, PATIENCE)

    def call(self, tool: str, name: str) -> str:
        """A message part that makes the scripted model use a tool on the bell of this name."""
        return f'@@tool:{tool} {{"address": "{self.url}/{name}"}}@@'


@dataclass
class KillEnvironment:
    """`ann` is an admin; the bot is open, so that anybody may write to it."""

    api: ScriptedBotApi
    endpoint: ScriptedEndpoint
    bells: Bells
    gateway: GatewayProcess
    folder: Path
    settings: Mapping[str, object]

    @property
    def ann(self) -> ScriptedPerson:
        return self.api.person(ANN, "Ann")

    def messages(self, chat: int = ANN) -> list[ChatMessage]:
        """What the bot has in a chat now, oldest first."""
        return self.api.chat(chat).bot_messages

    def texts(self, chat: int = ANN) -> list[str]:
        return [message.text for message in self.messages(chat)]

    def doubtful_messages(self, chat: int = ANN) -> list[ChatMessage]:
        """The bot's messages that say that the delivery of an answer is in doubt."""
        return [message for message in self.messages(chat) if message.text == UNSURE]

    async def until(self, predicate: Callable[[], T]) -> T:
        """The first true value of `predicate`, checked whenever something changes in Telegram."""
        return await self.gateway.while_alive(self.api.wait_until(predicate, PATIENCE))

    async def wait_for_answers(self, *texts: str, chat: int = ANN) -> None:
        """Wait until all is answered; assert that the chat has these messages and the rows are complete."""
        await self.until(lambda: len(self.texts(chat)) >= len(texts))
        await self.wait_until_idle()
        assert self.texts(chat) == [*texts]
        self.assert_all_accounted()

    def freeze_at(self, method: str, text: str = "", *, arrives: bool, chat: int = ANN) -> FaultInjection:
        """Freeze the gateway at its next call of this kind with this text.

        `arrives`: Telegram carries the call out, and its answer is lost; else it never gets there.
        """

        def freeze_if_matching(call: BotApiCall) -> bool:
            if text not in call.text:
                return False
            self.gateway.freeze()
            return True

        return self.api.inject_fault(
            BotApiFault() if arrives else BotApiFault.drop(), method, chat_id=chat, when=freeze_if_matching
        )

    async def wait_for_requests(self, request_count: int = 1) -> None:
        """Wait until the endpoint works on `request_count` requests."""
        await self.endpoint.wait_until(lambda: self.endpoint.running >= request_count, PATIENCE)

    async def wait_for_row(self, query: str) -> None:
        """Wait until the database has a row that answers this query."""
        async with asyncio.timeout(PATIENCE):
            while not self.load_rows(query):  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.01)

    async def wait_until_idle(self) -> None:
        """Wait until all that Telegram has is stored and answered, and the answers known to be delivered."""
        await self.api.wait_until(lambda: not self.api.updates.pending_ids, PATIENCE)
        await self.wait_for_row(IS_IDLE)

    async def revive(self, wait: Callable[[], Awaitable[object]]) -> bool:
        """Wait for something, once more with another process if the gateway kills itself; whether it did.

        How many commits it takes depends on which of them are made together, and on heartbeats: a late one
        may not come. Afterwards the gateway runs, and does not kill itself.
        """
        try:
            await self.gateway.while_alive(wait())
        except GatewayDied:
            assert await self.gateway.wait_for_exit() == -signal.SIGKILL
        else:
            await self.gateway.arm(NEVER)
            return False
        await self.gateway.start()
        await wait()
        return True

    def load_rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows the database has for this query."""
        url = str(self.settings["database_url"])
        if is_postgresql(url):
            with psycopg.connect(url.replace("+psycopg", "")) as server:
                return server.execute(query.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(self.folder / "gateway.db", timeout=PATIENCE)) as connection:
            return connection.execute(query).fetchall()

    def assert_all_accounted(self) -> None:
        """Assert that items are done, turns ended, calls closed, and no finished call was repeated."""
        # A job of the gateway itself comes due by the clock, if that happens to be now.
        undone = "select id, state, error from inbox where state != 'done' and kind != 'system'"
        assert self.load_rows(undone) == []
        assert self.load_rows("select id, state from turns where state = 'running'") == []
        assert self.load_rows("select id, turn from model_calls where outcome is null") == []
        assert (
            self.load_rows("select id, turn, name from tool_calls where state != 'done' or outcome is null")
            == []
        )
        repeated_calls = (
            "select turn, step, count(*) from model_calls where outcome = 'ok' and purpose = 'turn'"
            " group by turn, step having count(*) > 1"
        )
        assert self.load_rows(repeated_calls) == []
        assert len(self.endpoint.requests) <= self.load_rows("select count(*) from model_calls")[0][0]


@contextlib.asynccontextmanager
async def open_environment(
    folder: Path, endpoint: ScriptedEndpoint | None, fork_server: ForkServer | None, **settings: object
) -> AsyncIterator[KillEnvironment]:
    """The environment, served; the test starts the gateway, which is killed when the block ends."""
    place_empty_database(folder / "gateway.db")
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    endpoint = endpoint or ScriptedEndpoint()
    bells = Bells()
    async with api.serve_on_loopback() as telegram, serve(endpoint.app) as model, serve(bells) as bells.url:
        values = {
            "telegram_token": api.token,
            "telegram_api_url": telegram,
            "model_url": f"{model}/v1",
            "database_url": f"sqlite+aiosqlite:///{folder / 'gateway.db'}",
            "admin_ids": ANN,
            "access": "open",
            "warm_up": "off",
            "log_level": "INFO",
            **settings,
        }
        environment = KillEnvironment(
            api, endpoint, bells, GatewayProcess(api, folder / "run", values, fork_server), folder, values
        )
        try:
            yield environment
        finally:
            bells.release()
            if environment.gateway.is_running:
                await environment.gateway.kill()
