"""Runs a warm-up against a simulated endpoint."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.domain import LanguageModel
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.tool_registry.toolbox import Toolbox
from bot.translations.translator import ENGLISH, Translatable
from bot.turns.cache_warmup import CacheWarmup, WarmupConfig
from bot.turns.call_ledger import CallLedger
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, TurnHarness
from tools.registry import discover

MIN_HEAD_TOKENS = 400  # of system text and tools
COLUMNS = ("purpose", "turn", "step", "thinking", "outcome", "again")


@dataclass
class WarmupHarness:
    """A warm-up over a real database."""

    database: Database
    model: LanguageModel
    url: str
    lineages: tuple[bool, ...] = (False, True)
    api_key: str | None = None
    admin_notices: list[tuple[str, str]] = field(default_factory=list)

    def build_warmup(self) -> CacheWarmup:
        toolbox = Toolbox(discover())
        config = WarmupConfig(self.url, self.api_key, None, "Be brief.", lambda: toolbox, 9000, self.lineages)
        ledger = CallLedger(self.database, shutdown_seconds=SHUTDOWN_SECONDS)
        return CacheWarmup(
            ledger, self.model, config, model_name=lambda: "model", notify_admins=self._notify_admins
        )

    async def _notify_admins(self, subject: str, text: Translatable) -> None:
        self.admin_notices.append((subject, text(ENGLISH)))

    async def load_rows(self, *column_names: str) -> list[tuple[Any, ...]]:
        return await TurnHarness(self.database, ScriptedModel()).load_rows(
            model_calls, *(column_names or COLUMNS)
        )


@contextlib.asynccontextmanager
async def running_warmup(harness: WarmupHarness) -> AsyncIterator[CacheWarmup]:
    """Run a warm-up while the block runs."""
    async with asyncio.TaskGroup() as tasks:
        warmup = harness.build_warmup()
        running = tasks.create_task(warmup.run())
        yield warmup
        running.cancel()


@contextlib.asynccontextmanager
async def open_warmup_harness(
    database: Database, endpoint: ScriptedEndpoint, **fields: Any
) -> AsyncIterator[WarmupHarness]:
    """Run a warm-up against this endpoint while the block runs."""
    async with serve(endpoint.app) as url:
        model = ModelClient(f"{url}/v1", None, SeatLimiter(1), api_key=endpoint.api_key)
        try:
            harness = WarmupHarness(database, model, f"{url}/v1", api_key=endpoint.api_key, **fields)
            async with running_warmup(harness):
                yield harness
        finally:
            await model.close()


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait until another task has made the condition true."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(0.005)


def requests_finished(endpoint: ScriptedEndpoint, count: int) -> Callable[[], bool]:
    return lambda: sum(request.finished_at is not None for request in endpoint.requests) >= count


async def wait_for_closed_rows(harness: WarmupHarness, count: int) -> list[tuple[Any, ...]]:
    """The rows, once `count` of them are closed."""
    async with asyncio.timeout(60):
        while await count_closed_rows(harness) < count:  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(0.005)
    return await harness.load_rows()


async def count_closed_rows(harness: WarmupHarness) -> int:
    return sum(outcome is not None for (outcome,) in await harness.load_rows("outcome"))
