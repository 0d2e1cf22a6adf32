"""A warm-up at work on a simulated endpoint, for tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from bot.agent.toolbox import Toolbox
from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.domain import LanguageModel
from bot.http_server import serve
from bot.llm.client import Llm
from bot.llm.seats import Seats
from bot.sim.vllm.server import Endpoint
from bot.turns.cache_warmup import Wanted, Warming
from tests.support.turn_harness import Desk, Model
from tools.registry import discover

HEAD = 400  # tokens of system text and tools, at the least
ROW = ("purpose", "turn", "step", "thinking", "outcome", "again")


@dataclass
class Bench:
    """A warming over a real database."""

    database: Database
    model: LanguageModel
    url: str
    lineages: tuple[bool, ...] = (False, True)
    key: str | None = None
    news: list[tuple[str, str]] = field(default_factory=list)

    def warming(self) -> Warming:
        toolbox = Toolbox(discover())
        wanted = Wanted(self.url, self.key, None, "Be brief.", lambda: toolbox, 9000, self.lineages)
        return Warming(self.database, self.model, wanted, name=lambda: "model", tell=self._tell)

    async def _tell(self, subject: str, text: str) -> None:
        self.news.append((subject, text))

    async def rows(self, *names: str) -> list[tuple[Any, ...]]:
        return await Desk(self.database, Model()).rows(model_calls, *(names or ROW))


@contextlib.asynccontextmanager
async def at_work(bench: Bench) -> AsyncIterator[Warming]:
    """A warming that runs; it is cancelled in the end."""
    async with asyncio.TaskGroup() as tasks:
        made = bench.warming()
        running = tasks.create_task(made.run())
        yield made
        running.cancel()


@contextlib.asynccontextmanager
async def warmed(database: Database, endpoint: Endpoint, **fields: Any) -> AsyncIterator[Bench]:
    """A warming at work on a simulated endpoint."""
    async with serve(endpoint.app) as url:
        model = Llm(f"{url}/v1", None, Seats(1), api_key=endpoint.api_key)
        try:
            bench = Bench(database, model, f"{url}/v1", key=endpoint.api_key, **fields)
            async with at_work(bench):
                yield bench
        finally:
            await model.close()


async def until(found: Callable[[], object]) -> None:
    """Wait for what another task does."""
    async with asyncio.timeout(30):
        while not found():  # noqa: ASYNC110 nothing tells
            await asyncio.sleep(0.005)


def finished(endpoint: Endpoint, count: int) -> Callable[[], bool]:
    return lambda: sum(request.finished is not None for request in endpoint.requests) >= count


async def closed(bench: Bench, count: int) -> list[tuple[Any, ...]]:
    """The rows, once so many of them are closed."""
    async with asyncio.timeout(30):
        while sum(outcome is not None for (outcome,) in await bench.rows("outcome")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return await bench.rows()
