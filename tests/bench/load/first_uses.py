"""Uses once, before a long run, what a gateway else uses first at some moment of it.

Its libraries are imported then, which would look like growth: a system job may be due at any time, and an
admin may look at the page.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from bot.admin.screens import load_screens
from bot.bench.harness.gateway_process import ADMIN_ID, BenchFailed
from bot.db.engine import Database, open_database
from bot.db.queues import jobs
from bot.db.queues.system_jobs import list_statuses
from tests.bench.harness.page_viewer import list_paths, open_page
from tests.bench.harness.stage import FIRST_CHAT_ID, PATIENCE_SECONDS, Stage
from tests.bench.load.busy_minute import RANKING_OPENING

FIRST_QUESTION = 0  # no other question has this number
ANY_OPENING = ""
COMMANDS = {"/usage all": RANKING_OPENING, "/remind in 1 minute tea": "⏰"}
"""What an admin sends, and how the answer begins."""

LOOK_SECONDS = 0.5


async def use_all_parts(stage: Stage, database_file: Path, page_settings: dict[str, str]) -> None:
    """Ask a question, run every system job, open every screen of the page, and use two commands."""
    stage.write_question(FIRST_QUESTION, chat_index=0)  # a screen shows its turn
    await stage.wait_for_text(FIRST_CHAT_ID, ANY_OPENING, count=0)
    await _run_system_jobs(database_file)
    async with open_page(database_file, page_settings, list_paths(load_screens())) as viewer:
        await viewer.open_all()
    admin = stage.api.person(ADMIN_ID)
    for command, opening in COMMANDS.items():
        admin.send(command)
        await stage.wait_for_text(ADMIN_ID, opening, count=0)


async def _run_system_jobs(database_file: Path) -> None:
    async with open_database(f"sqlite+aiosqlite:///{database_file}") as database:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await _wait_until(partial(_order_system_jobs, database))  # made after the gateway's start
                await _wait_until(partial(_are_system_jobs_over, database))
        except TimeoutError:
            raise BenchFailed(f"the system jobs were not done within {PATIENCE_SECONDS:g} s") from None


async def _wait_until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await is_so():
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _order_system_jobs(database: Database) -> bool:
    """Order each; False while there are none."""
    async with database.transaction() as tx:
        system_jobs = await jobs.list_system_jobs(tx)
        for job in system_jobs:
            await jobs.run_now(tx, job.id, jobs.build_inbox_row(job), now=time.time())
    return bool(system_jobs)


async def _are_system_jobs_over(database: Database) -> bool:
    async with database.read_transaction() as tx:
        return all(status.state in {"done", "dead"} for status in await list_statuses(tx))
