"""Runs both simulators, a temporary database and, in a process of its own, the real gateway.

Owns what is simulated and what replaces it; reads neither the environment nor `.env`.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bot.canvases import OutputUnit
from bot.db.engine import Database, open_database
from bot.db.usage import breakdowns, counter_readings
from bot.db.usage.turn_steps import TurnSteps, find_turn, list_accounted_turns, load_steps
from bot.demo.gateway_process import GatewayProcess, run_gateway
from bot.demo.web import DemoWeb, serve_web
from bot.errors import CanvasgramError
from bot.http_server import serve
from bot.llm import server_api
from bot.settings import NO_BOT_TOKEN, build_settings
from bot.sim.demo_model.showcase import SHOWCASE_QUESTIONS, answer_showcase
from bot.sim.telegram.server import BotApi, SimulatedPerson
from bot.sim.vllm.server import SimulatedEndpoint, Timing

PERSON_ID = 1001  # the Telegram user id of the page's visitor
PERSON_NAME = "Ann"
OTHER_PERSON_ID = 1002
OTHER_PERSON_NAME = "Ben"
BOT_USERNAME = "canvasgram_bot"
GREETING_EXAMPLES = 3  # those most worth seeing; the page offers the others
CANVAS_SECONDS = 0.4
PREFILL_TOKENS_PER_SECOND = 3000
POLL_SECONDS = 0.1  # between two reads of the database
START_SECONDS = 180.0  # for the gateway to start polling
STOP_SECONDS = 1.0  # for what still runs to be stopped


class DemoNotStarted(CanvasgramError):
    """The gateway did not start."""


@dataclass(frozen=True, slots=True)
class RealModel:
    """An endpoint of the visitor's own: its address, and its key if it wants one."""

    url: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class DemoModel:
    """The model of the demo: its address, the simulator behind it (None: a real one), and a line about it."""

    url: str
    simulated: SimulatedEndpoint | None
    description: str


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo: Telegram as the visitor sees it, and the gateway's database.

    The visitor is the `person`, an admin; `other_person` is who else is let in. With a real model there is
    no simulated `web`.
    """

    api: BotApi
    gateway: GatewayProcess
    person: SimulatedPerson
    other_person: SimulatedPerson
    model: DemoModel
    database: Database
    web: DemoWeb | None

    async def load_delivered_turns(self, after_turn: int = 0) -> list[TurnSteps]:
        """The turns above `after_turn` whose answer was delivered and whose breakdown is stored."""
        async with self.database.read_transaction() as tx:
            return await list_accounted_turns(tx, after=after_turn)

    async def load_turn(self, item: int) -> TurnSteps | None:
        """The turn that began with this inbox item, without its texts; None: it is not begun."""
        async with self.database.read_transaction() as tx:
            turn = await find_turn(tx, item)
            return None if turn is None else await load_steps(tx, turn, with_texts=False)

    async def find_output_unit(self) -> OutputUnit:
        """What the output of the model is counted in, as far as the gateway knows it."""
        async with self.database.read_transaction() as tx:
            return await counter_readings.find_output_unit(tx)

    async def wait_for_breakdowns(self) -> list[TurnSteps]:
        """All turns, as soon as each that has ended has its breakdown."""
        while True:
            async with self.database.read_transaction() as tx:
                if await breakdowns.is_all_accounted(tx):
                    return await list_accounted_turns(tx)
            await asyncio.sleep(POLL_SECONDS)

    async def wait_until_settled(self, update_id: int, stop: asyncio.Event) -> bool:
        """Wait until this update and everything else is done; False if `stop` was set before."""
        while not stop.is_set():
            if await self._is_settled(update_id):
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), POLL_SECONDS)
        return False

    async def interrupt(self) -> None:
        """Stop what still runs as a user would, so that no call is cut; gives up after STOP_SECONDS."""
        if await self._is_settled():
            return
        update_id = self.person.send("/stop").update_id
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self.wait_until_settled(update_id, asyncio.Event())

    async def _is_settled(self, update_id: int | None = None) -> bool:
        async with self.database.read_transaction() as tx:
            return await breakdowns.is_idle(tx, update_id)


@contextlib.asynccontextmanager
async def open_demo(
    real_model: RealModel | None = None,
    endpoint: SimulatedEndpoint | None = None,
    *,
    start_seconds: float = START_SECONDS,
) -> AsyncIterator[Demo]:
    """A running gateway with its simulators; a real model replaces the simulated one.

    Raises SettingsRefused, or a CanvasgramError of the endpoint if there is none at its address.
    """
    api = BotApi(username=BOT_USERNAME)
    api.change_bot(can_read_all_group_messages=True)
    person = api.person(PERSON_ID, PERSON_NAME)
    other_person = api.person(OTHER_PERSON_ID, OTHER_PERSON_NAME)
    web = None
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="canvasgram-demo-"))
        telegram_url = await stack.enter_async_context(api.serve_on_loopback())
        gateway = await stack.enter_async_context(run_gateway())
        if real_model is not None:
            model = await _open_real_model(real_model)
            model_settings = {"model_api_key": real_model.key, "warm_up": "on"}
        else:
            model = await stack.enter_async_context(_serve_simulated_model(endpoint))
            web = await stack.enter_async_context(serve_web())
            # Without a warm-up the simulated endpoint shows the visitor's calls and nothing else.
            model_settings = {"warm_up": "off", "search_url": web.search_url}
            model_settings |= {"transcribe_url": model.url, "speech_url": model.url}
        database_url = _place_database(Path(folder))
        settings = {
            "telegram_token": api.token,
            "telegram_api_url": telegram_url,
            "model_url": model.url,
            "model_max_tokens": 2048,  # so that long answers come in several messages
            "database_url": database_url,
            "access": "open",
            "admin_ids": str(PERSON_ID),
            **model_settings,
        }
        stack.push_async_callback(gateway.close)  # before what it is connected to
        pages = web.hosts if web is not None else ()
        examples = SHOWCASE_QUESTIONS[:GREETING_EXAMPLES]
        gateway.order.set_result({"settings": settings, "pages": pages, "examples": examples})
        await _wait_until_started(api, gateway, start_seconds)
        database = await stack.enter_async_context(open_database(database_url))
        demo = Demo(api, gateway, person, other_person, model, database, web)
        stack.push_async_callback(demo.interrupt)
        yield demo


def _place_database(folder: Path) -> str:
    """The address of a database that the gateway creates."""
    return f"sqlite+aiosqlite:///{folder / 'demo.db'}"


async def _wait_until_started(api: BotApi, gateway: GatewayProcess, seconds: float) -> None:
    """Wait until the gateway polls and has set its menu, and answers wait for no import.

    Then the database is migrated, too.
    """
    try:
        async with asyncio.timeout(seconds):
            await api.wait_until(lambda: api.calls_of("getUpdates") and api.commands)
            await gateway.ready.wait()
    except TimeoutError:
        raise DemoNotStarted(
            f"The gateway did not reach the simulated Telegram within {seconds:g} s. "
            "If this machine has a proxy, let it leave 127.0.0.1 alone: NO_PROXY=127.0.0.1"
        ) from None


@contextlib.asynccontextmanager
async def _serve_simulated_model(endpoint: SimulatedEndpoint | None) -> AsyncIterator[DemoModel]:
    timing = Timing.canvas(CANVAS_SECONDS, prefill_tokens_per_s=PREFILL_TOKENS_PER_SECOND)
    simulated = endpoint or SimulatedEndpoint(
        timing=timing, seats=4, brain=answer_showcase, transcribe=lambda _: SHOWCASE_QUESTIONS[3]
    )
    async with serve(simulated.app) as address:
        description = f"{CANVAS_SECONDS:g} s a canvas; a DGX Spark takes about 1.6 s"
        yield DemoModel(f"{address}/v1", simulated, description)


async def _open_real_model(real_model: RealModel) -> DemoModel:
    url = build_settings(telegram_token=NO_BOT_TOKEN, model_url=real_model.url).model_url
    models = await server_api.fetch_models(url, real_model.key)
    name = models[0].name if models else "no model"
    return DemoModel(url, None, f"{name} at {url}")
