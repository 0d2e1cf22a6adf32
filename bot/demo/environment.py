"""Puts the demo's house together: both simulators, a temporary database and the real gateway, in one process.

Owns what is simulated and what takes its place; reads neither environment nor `.env`.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bot.app import factory as app
from bot.db.engine import Database, open_database
from bot.db.usage import breakdowns as accounts
from bot.db.usage.breakdowns import AccountedTurn
from bot.errors import CanvasgramError
from bot.http_server import serve
from bot.llm import server_api as server
from bot.settings import NO_BOT_TOKEN, Settings, build_settings
from bot.sim.demo_model.showcase import answer_showcase
from bot.sim.telegram.server import BotApi, SimulatedPerson
from bot.sim.vllm.server import SimulatedEndpoint, Timing

PERSON_ID = 1001  # Telegram's number of whoever sits before the page
PERSON_NAME = "Guest"
CANVAS_SECONDS = 0.4
PREFILL_TOKENS_PER_SECOND = 3000  # tokens a second
POLL_SECONDS = 0.1  # between two looks into the database
START_SECONDS = 15
STOP_SECONDS = 1.0  # seconds for the gateway to end; its database is thrown away in any case


class DemoNotStarted(CanvasgramError):
    """The gateway does not get to work."""


@dataclass(frozen=True, slots=True)
class RealModel:
    """An endpoint of the visitor's own: its address, and its key if it wants one."""

    url: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class DemoModel:
    """What answers: the endpoint's address, the simulator behind it (None: a real one), and a line about it."""

    url: str
    simulated: SimulatedEndpoint | None
    description: str


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo: Telegram as the person sees it, and what the gateway has written down."""

    api: BotApi
    person: SimulatedPerson
    model: DemoModel
    database: Database

    async def load_delivered_turns(self, after_turn: int = 0) -> list[AccountedTurn]:
        """The turns above `after` whose answer has arrived and whose account is written."""
        async with self.database.read_transaction() as tx:
            return await accounts.list_accounted_turns(tx, after=after_turn)

    async def wait_for_breakdowns(self) -> list[AccountedTurn]:
        """All turns, once each that has ended has its account."""
        while True:
            async with self.database.read_transaction() as tx:
                if await accounts.is_all_accounted(tx):
                    return await accounts.list_accounted_turns(tx)
            await asyncio.sleep(POLL_SECONDS)

    async def wait_until_settled(self, update_id: int, stop: asyncio.Event) -> bool:
        """Wait until this update and all else is done with; False when `stop` was set before."""
        while not stop.is_set():
            if await self._is_settled(update_id):
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), POLL_SECONDS)
        return False

    async def interrupt(self) -> None:
        """End what still runs as the person would, so that no call is torn apart; gives up after PATIENCE."""
        if await self._is_settled():
            return
        stopped = self.person.send("/stop").update_id
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self.wait_until_settled(stopped, asyncio.Event())

    async def _is_settled(self, update_id: int | None = None) -> bool:
        async with self.database.read_transaction() as tx:
            return await accounts.is_idle(tx, update_id)


@contextlib.asynccontextmanager
async def open_demo(
    real_model: RealModel | None = None, endpoint: SimulatedEndpoint | None = None
) -> AsyncIterator[Demo]:
    """A whole house at work; a `real` endpoint takes the place of the simulated one.

    Raises SettingsRefused or a CanvasgramError of the endpoint when there is none at its address.
    """
    api = BotApi()
    person = api.person(PERSON_ID, PERSON_NAME)
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="canvasgram-demo-"))
        telegram_url = await stack.enter_async_context(api.serve_on_loopback())
        if real_model is not None:
            model = await _open_real_model(real_model)
        else:
            model = await stack.enter_async_context(_serve_simulated_model(endpoint))
        settings = build_settings(
            telegram_token=api.token,
            telegram_api_url=telegram_url,
            model_url=model.url,
            model_api_key=real_model.key if real_model else None,
            model_max_tokens=2048,  # so that long answers come in several messages
            model_wait=60,
            database_url=f"sqlite+aiosqlite:///{Path(folder) / 'demo.db'}",
            admin_ids=str(PERSON_ID),
            warm_up="on"
            if real_model
            else "off",  # the simulated endpoint shows what the person asks, and nothing else
        )
        await stack.enter_async_context(_run_gateway(settings))
        await _wait_until_started(api)
        database = await stack.enter_async_context(open_database(settings.database_url))
        demo = Demo(api, person, model, database)
        stack.push_async_callback(demo.interrupt)
        yield demo


@contextlib.asynccontextmanager
async def _run_gateway(settings: Settings) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        gateway = tasks.create_task(app.run(settings, stop), name="gateway")
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait({gateway}, timeout=STOP_SECONDS)
            gateway.cancel()


async def _wait_until_started(api: BotApi) -> None:
    """Wait until the gateway polls and has set its menu; then the database is migrated, too."""
    try:
        await api.wait_until(lambda: api.calls_of("getUpdates") and api.commands, timeout=START_SECONDS)
    except TimeoutError:
        raise DemoNotStarted(
            f"The gateway did not reach the simulated Telegram within {START_SECONDS} s. If this machine has a proxy, "
            "let it leave 127.0.0.1 alone: NO_PROXY=127.0.0.1"
        ) from None


@contextlib.asynccontextmanager
async def _serve_simulated_model(endpoint: SimulatedEndpoint | None) -> AsyncIterator[DemoModel]:
    timing = Timing.canvas(CANVAS_SECONDS, prefill_tokens_per_s=PREFILL_TOKENS_PER_SECOND)
    simulated = endpoint or SimulatedEndpoint(timing=timing, seats=4, brain=answer_showcase)
    async with serve(simulated.app) as address:
        line = f"{CANVAS_SECONDS:g} s a canvas; a DGX Spark takes about 1.6 s"
        yield DemoModel(f"{address}/v1", simulated, line)


async def _open_real_model(real_model: RealModel) -> DemoModel:
    url = build_settings(telegram_token=NO_BOT_TOKEN, model_url=real_model.url).model_url
    served = await server.fetch_models(url, real_model.key)
    return DemoModel(url, None, f"{served[0].name if served else 'no model'} at {url}")
