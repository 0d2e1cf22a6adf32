"""Makes a chaos run: people, killer and disturber side by side, then calm, then the journal."""

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

import migrations
from bot.http_server import serve
from bot.sim.telegram.server import KEEP_ALIVE_SECONDS
from bot.sim.vllm.server import Timing
from tests.chaos.callers import name_caller
from tests.chaos.disturber import Disturber
from tests.chaos.evidence import collect_journal
from tests.chaos.journal import Journal
from tests.chaos.killer import Killer
from tests.chaos.model import ChaosModel, transcribe_as_text
from tests.chaos.people import Writer
from tests.chaos.state import ChaosOptions, ChaosRun
from tests.chaos.stores import ChaosStore, FileStore, ServerStore, bring_jobs_forward
from tests.kill.environment import open_environment
from tests.kill.gateway import ForkServer, GatewayProcess
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.postgresql import PostgresServer
from tests.support.telegram.server import BotApiFault

FIRST_CHAT = 100
MAX_WAITING_CHATS = 16  # that wait for an answer; an item that runs at more than ten deaths is set aside
CALM_SECONDS = 240.0  # in which all that is left must be done
CANVAS_SECONDS = 0.02
FIRST_REVISION = "0001"
SETTINGS = {
    "model_max_tokens": 12_000,
    "canvases_a_day": "off",
    "time_zone": "UTC",
}
IS_IDLE = """
    select not exists (select 1 from inbox where state in ('new', 'running', 'parked'))
    and not exists (select 1 from outbox where state in ('new', 'sending', 'open'))
    and not exists (select 1 from jobs where kind != 'system' and next_due is not null)
"""


async def run_chaos(
    options: ChaosOptions, folder: Path, fork_server: ForkServer, server: PostgresServer | None = None
) -> tuple[ChaosRun, Journal]:
    """Make a run in this empty folder; with several replicas, on this server."""
    brain = ChaosModel(random.Random(options.seed))
    endpoint = ScriptedEndpoint(timing=Timing(canvas_seconds=CANVAS_SECONDS), brain=brain)
    hearing = ScriptedEndpoint(transcribe=transcribe_as_text)
    async with contextlib.AsyncExitStack() as stack:
        hearing_url = await stack.enter_async_context(serve(hearing.app))
        settings: dict[str, object] = {**SETTINGS, "transcribe_url": f"{hearing_url}/v1"}
        store: ChaosStore = FileStore(folder / "gateway.db")
        if server is not None:
            settings["database_url"] = url = stack.enter_context(server.open_database())
            store = ServerStore(server, url)
        environment = await stack.enter_async_context(
            open_environment(folder, endpoint, fork_server, **settings)
        )
        brain.bells_url = environment.bells.url
        gateways = [environment.gateway]
        if server is None:
            place_old_database(folder / "gateway.db")
        for number in range(1, options.replicas):
            app = name_caller(environment.api.app, number)
            url = await stack.enter_async_context(serve(app, keep_alive_seconds=KEEP_ALIVE_SECONDS))
            own_settings = {**environment.settings, "telegram_api_url": url}
            gateways.append(
                GatewayProcess(environment.api, folder / f"run-{number}", own_settings, fork_server)
            )
        run = ChaosRun(options, environment, gateways)
        stack.push_async_callback(_kill_all, run)
        writers = [
            Writer(run, environment.api.person(FIRST_CHAT + n), run.seeded(f"chat {n}"))
            for n in range(options.chats)
        ]
        await _disturb_writers(run, store, writers)
        await _wait_until_calm(run, store, writers)
        leftovers = store.list_leftovers()
        await _kill_all(run)
        store.save_tables(folder / "tables")
        return run, collect_journal(run, store, leftovers)


async def _kill_all(run: ChaosRun) -> None:
    for gateway in run.gateways:
        if gateway.is_running:
            await gateway.kill()


async def _disturb_writers(run: ChaosRun, store: ChaosStore, writers: Sequence[Writer]) -> None:
    """Let people write while everything fails, until enough is written."""
    killers = [Killer(run, run.seeded(f"kills {number}"), number) for number in range(len(run.gateways))]
    disturber = Disturber(run, run.seeded("disturbances"), store)
    for killer in killers:
        run.environment.api.inject_fault(BotApiFault(), when=killer.count, times=None)
    disturber.prepare()
    run.environment.ann.send("hello")  # else Telegram would let nobody tell this admin anything
    free_slots = asyncio.Semaphore(MAX_WAITING_CHATS)
    async with asyncio.TaskGroup() as tasks:
        for killer in killers:
            tasks.create_task(killer.end_gateways())
        tasks.create_task(disturber.disturb())
        async with asyncio.TaskGroup() as chats:
            for writer in writers:
                chats.create_task(writer.write_all(free_slots))
        run.is_over = True
    disturber.harvest_endpoint_faults()
    run.environment.endpoint.heal()


async def _wait_until_calm(run: ChaosRun, store: ChaosStore, writers: Sequence[Writer]) -> None:
    """Let the gateways finish what is left, while people answer what they are asked."""
    for gateway in run.gateways:
        if not gateway.is_running:
            await gateway.spawn()
    deadline = time.monotonic() + CALM_SECONDS
    while time.monotonic() < deadline and not _is_idle(run, store):
        for writer in writers:
            writer.settle()
        await bring_jobs_forward(run, store)
        await asyncio.sleep(0.5)


def _is_idle(run: ChaosRun, store: ChaosStore) -> bool:
    if run.environment.api.updates.pending_ids:
        return False
    return bool(store.load_rows(IS_IDLE)[0][0]) and not store.list_leftovers()


def place_old_database(file: Path) -> None:
    """Write a database of the first schema, so that the first start has to migrate it."""
    file.unlink()
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, FIRST_REVISION)
    engine.dispose()
