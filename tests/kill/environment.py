"""What surrounds a gateway that is killed: both simulators, bells its tools ring, and its database as it was
left.
"""

import asyncio
import contextlib
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from starlette.types import Receive, Scope, Send

from bot.http_server import serve
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.events import ChangeNotifier
from bot.sim.telegram.faults import FaultInjection
from bot.sim.telegram.server import BotApi, BotApiCall, BotApiFault, FloodLimits, SimulatedPerson
from bot.sim.vllm.server import SimulatedEndpoint
from tests.kill.gateway import PATIENCE, ForkServer, GatewayProcess
from tests.support.empty_database import place_empty_database

ANN = 7
UNSURE = "I don't know whether my answer above reached you."
SENT_AGAIN = "I didn't know whether my answer above reached you; it comes again below."

T = TypeVar("T")


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
        head = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    def hold(self) -> None:
        """Let whoever rings wait."""
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    async def until(self, predicate: Callable[[], T]) -> T:
        """The first true value of `predicate`, asked again whenever a bell is rung."""
        return await self._changes.wait_until(predicate, PATIENCE)

    def call(self, tool: str, name: str) -> str:
        """What makes the scripted model use a tool on the bell of this name."""
        return f'@@tool:{tool} {{"address": "{self.url}/{name}"}}@@'


@dataclass
class KillEnvironment:
    """`ann` is an admin; the bot is open, so that anybody else may write to it, too."""

    api: BotApi
    endpoint: SimulatedEndpoint
    bells: Bells
    gateway: GatewayProcess
    folder: Path
    settings: Mapping[str, object]

    @property
    def ann(self) -> SimulatedPerson:
        return self.api.person(ANN, "Ann")

    def messages(self, chat: int = ANN) -> list[ChatMessage]:
        """What the bot has in a chat now, oldest first."""
        return self.api.chat(chat).bot_messages

    def texts(self, chat: int = ANN) -> list[str]:
        return [message.text for message in self.messages(chat)]

    def doubtful_messages(self, chat: int = ANN) -> list[ChatMessage]:
        """The bot's messages that say that it does not know what became of an answer."""
        return [message for message in self.messages(chat) if message.text == UNSURE]

    async def until(self, predicate: Callable[[], T]) -> T:
        """The first true value of `predicate`, asked again whenever something changes in Telegram."""
        return await self.gateway.while_alive(self.api.wait_until(predicate, PATIENCE))

    async def wait_for_answers(self, *texts: str, chat: int = ANN) -> None:
        """Wait until all is answered: the bot's messages of a chat are exactly these, and the account is in
        order.
        """
        await self.until(lambda: len(self.texts(chat)) >= len(texts))
        await self.wait_until_idle()
        assert self.texts(chat) == [*texts]
        self.assert_all_accounted()

    def freeze_at(self, method: str, text: str = "", *, arrives: bool, chat: int = ANN) -> FaultInjection:
        """Freeze the gateway as its next call of this kind with this text leaves it.

        `arrives`: Telegram carries it out, and answers into the void; else it never gets there.
        """

        def strikes(call: BotApiCall) -> bool:
            if text not in call.text:
                return False
            self.gateway.freeze()
            return True

        return self.api.inject_fault(
            BotApiFault() if arrives else BotApiFault.drop(), method, chat_id=chat, when=strikes
        )

    async def wait_for_requests(self, request_count: int = 1) -> None:
        """Wait until the endpoint works on so many requests."""
        await self.endpoint.wait_until(lambda: self.endpoint.running >= request_count, PATIENCE)

    async def wait_for_row(self, query: str) -> None:
        """Wait until the database has a row that answers this query."""
        async with asyncio.timeout(PATIENCE):
            while not self.load_rows(query):  # noqa: ASYNC110 another process writes it
                await asyncio.sleep(0.01)

    async def wait_until_idle(self) -> None:
        """Wait until all is answered and known to be delivered."""
        await self.wait_for_row(
            "select 1 where not exists (select 1 from inbox where state in ('new', 'running'))"
            " and not exists (select 1 from outbox where state in ('new', 'sending', 'open'))"
        )

    def load_rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database holds."""
        with contextlib.closing(sqlite3.connect(self.folder / "house.db")) as connection:
            return connection.execute(query).fetchall()

    def assert_all_accounted(self) -> None:
        """Every item is done, every turn ended, every call has its closed row, no finished one was made
        twice.
        """
        assert self.load_rows("select id, state, error from inbox where state != 'done'") == []
        assert self.load_rows("select id, state from turns where state = 'running'") == []
        assert self.load_rows("select id, turn from model_calls where outcome is null") == []
        assert (
            self.load_rows("select id, turn, name from tool_calls where state != 'done' or outcome is null")
            == []
        )
        twice = (
            "select turn, step, count(*) from model_calls where outcome = 'ok' and purpose = 'turn'"
            " group by turn, step having count(*) > 1"
        )
        assert self.load_rows(twice) == []
        assert len(self.endpoint.requests) <= self.load_rows("select count(*) from model_calls")[0][0]


@contextlib.asynccontextmanager
async def open_environment(
    folder: Path, endpoint: SimulatedEndpoint | None, fork_server: ForkServer | None, **settings: object
) -> AsyncIterator[KillEnvironment]:
    """All of it, served; the gateway is started by the test, and gone when the block ends."""
    place_empty_database(folder / "house.db")
    api, endpoint, bells = BotApi(limits=FloodLimits.unlimited()), endpoint or SimulatedEndpoint(), Bells()
    async with api.serve_on_loopback() as telegram, serve(endpoint.app) as model, serve(bells) as bells.url:
        values = {
            "telegram_token": api.token,
            "telegram_api_url": telegram,
            "model_url": f"{model}/v1",
            "database_url": f"sqlite+aiosqlite:///{folder / 'house.db'}",
            "admin_ids": ANN,
            "access": "open",
            "warm_up": "off",
            "log_level": "INFO",
            **settings,
        }
        made = KillEnvironment(
            api, endpoint, bells, GatewayProcess(api, folder / "run", values, fork_server), folder, values
        )
        try:
            yield made
        finally:
            bells.release()
            if made.gateway.is_running:
                await made.gateway.kill()
            sys.stdout.write(made.gateway.output[-20_000:])  # pytest shows it if the test failed
