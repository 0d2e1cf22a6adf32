"""Makes a chaos run: people, killer and disturber side by side, then calm, then the journal."""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

import migrations
from bot.http_server import serve
from bot.sim.telegram.server import BotApiFault
from bot.sim.vllm.server import SimulatedEndpoint, Timing
from tests.chaos.disturber import Disturber, bring_jobs_forward
from tests.chaos.evidence import collect_journal
from tests.chaos.journal import Journal
from tests.chaos.killer import Killer
from tests.chaos.model import ChaosModel, transcribe_as_text
from tests.chaos.people import Writer
from tests.chaos.state import ChaosOptions, ChaosRun
from tests.kill.environment import open_environment
from tests.kill.gateway import ForkServer

FIRST_CHAT = 100
MAX_WAITING_CHATS = (
    12  # chats that wait for an answer; an item that runs at more than ten deaths is set aside
)
CALM_SECONDS = 240.0  # in which all that is left must be done
CANVAS_SECONDS = 0.02
FIRST_REVISION = "0001"
SETTINGS = {
    "model_max_tokens": 12_000,
    "jobs_per_person": 1000,
    "jobs_total": 10_000,
    "waiting_messages": 1000,
    "canvases_a_day": "off",
    "time_zone": "UTC",
}
IS_IDLE = """
    select not exists (select 1 from inbox where state in ('new', 'running', 'parked'))
    and not exists (select 1 from outbox where state in ('new', 'sending', 'open'))
    and not exists (select 1 from jobs where kind != 'system' and next_due is not null)
"""


async def run_chaos(options: ChaosOptions, folder: Path, fork_server: ForkServer) -> tuple[ChaosRun, Journal]:
    """Make a run in this empty folder."""
    brain = ChaosModel(random.Random(options.seed))
    endpoint = SimulatedEndpoint(timing=Timing(canvas_seconds=CANVAS_SECONDS), brain=brain)
    hearing = SimulatedEndpoint(transcribe=transcribe_as_text)
    async with (
        serve(hearing.app) as hearing_url,
        open_environment(
            folder, endpoint, fork_server, transcribe_url=f"{hearing_url}/v1", **SETTINGS
        ) as environment,
    ):
        brain.bells_url = environment.bells.url
        place_old_database(folder / "gateway.db")
        run = ChaosRun(options, environment)
        writers = [
            Writer(run, environment.api.person(FIRST_CHAT + n), run.seeded(f"chat {n}"))
            for n in range(options.chats)
        ]
        await _disturb_writers(run, writers)
        await _wait_until_calm(run, writers)
        await environment.gateway.kill()
        return run, collect_journal(run)


async def _disturb_writers(run: ChaosRun, writers: Sequence[Writer]) -> None:
    """Let people write while everything fails, until enough is written."""
    killer = Killer(run, run.seeded("kills"))
    disturber = Disturber(run, run.seeded("disturbances"))
    run.environment.api.inject_fault(BotApiFault(), when=killer.count, times=None)
    disturber.prepare()
    run.environment.ann.send("hello")  # else Telegram would let nobody tell this admin anything
    free_slots = asyncio.Semaphore(MAX_WAITING_CHATS)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(killer.end_gateways())
        tasks.create_task(disturber.disturb())
        async with asyncio.TaskGroup() as chats:
            for writer in writers:
                chats.create_task(writer.write_all(free_slots))
        run.is_over = True
    disturber.harvest_endpoint_faults()
    run.environment.endpoint.heal()


async def _wait_until_calm(run: ChaosRun, writers: Sequence[Writer]) -> None:
    """Let one gateway finish what is left, while people answer what they are asked."""
    environment = run.environment
    if not environment.gateway.is_running:
        await environment.gateway.spawn()
    deadline = time.monotonic() + CALM_SECONDS
    while time.monotonic() < deadline and not _is_idle(run):
        for writer in writers:
            writer.settle()
        bring_jobs_forward(run)
        await asyncio.sleep(0.5)


def _is_idle(run: ChaosRun) -> bool:
    if run.environment.api.updates.pending_ids:
        return False
    return bool(run.environment.load_rows(IS_IDLE)[0][0])


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
