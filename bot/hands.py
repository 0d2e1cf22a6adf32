"""Runs the tool calls of one step side by side; each result is stored as it comes.

Owns what becomes of a call that was cut: a person's /stop, the end of the turn's time, the death of the process.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

from bot.agent.calls import Wanted
from bot.agent.events import RunTools
from bot.agent.toolbox import Toolbox
from bot.db import calls
from bot.db.calls import StoredResult
from bot.db.engine import Database, Transaction
from bot.db.patience import patiently
from bot.domain import ToolResult
from bot.running import Running
from tools.base import ToolContext

INTERRUPTED = "This was interrupted before it ended; what it did is unknown."
NOT_RUN = "This was not run: the turn was over before."
UNKNOWN = "The process ended while this ran: its outcome is unknown. Say so, and do not run it again unasked."

ByCall = Mapping[tuple[int, str], ToolResult]
Settle = Callable[[ToolResult], None]


async def known(
    tx: Transaction, turn: int, found: Sequence[StoredResult], toolbox: Toolbox, *, now: float
) -> dict[tuple[int, str], ToolResult]:
    """The results an earlier process stored. A call it began and whose outcome is unknown gets a result that says so,
    unless its tool may run again.
    """
    results = {}
    for one in found:
        if one.outcome is not None:
            results[one.step, one.call.id] = ToolResult(one.call, one.text or "", one.outcome)
        elif not (one.call.name in toolbox.tools and toolbox.tools[one.call.name].repeatable):
            unknown = results[one.step, one.call.id] = ToolResult(one.call, UNKNOWN, "unknown")
            await calls.settle(tx, turn, one.step, unknown, now=now)
    return results


class Hands:
    """Runs the tools of one turn."""

    def __init__(
        self,
        database: Database,
        turn: int,
        toolbox: Toolbox,
        context: Callable[[str, str], ToolContext],
        results: ByCall,
    ) -> None:
        self._database = database
        self._turn = turn
        self._toolbox = toolbox
        self._context = context
        self._results = dict(results)

    async def run(self, event: RunTools, running: Running) -> tuple[ToolResult, ...]:
        """The results of a step, in the order of its calls; those known already are not run again."""
        missing = [one for one in event.calls if (event.step, one.call.id) not in self._results]
        otherwise = NOT_RUN if running.over else INTERRUPTED
        # What came is stored by tasks of its own, which the end of the turn does not cut.
        async with asyncio.TaskGroup() as storing:

            def settle(result: ToolResult) -> None:
                self._results[event.step, result.call.id] = result
                storing.create_task(self._store(event.step, result, time.time()), name=f"result {result.call.id}")

            if missing and running.over is None:
                with running.watch.at("tools"):
                    await running.work(self._together(event.step, missing, running, settle))
            for one in missing:
                if (event.step, one.call.id) not in self._results:
                    settle(ToolResult(one.call, otherwise, "interrupted"))
        return tuple(self._results[event.step, one.call.id] for one in event.calls)

    async def _together(self, step: int, wanted: Sequence[Wanted], running: Running, settle: Settle) -> None:
        async def one_of_them(one: Wanted) -> None:
            context = self._context(one.call.id, f"{self._turn} {step} {one.call.id}")
            settle(await self._toolbox.run(one.call, one.arguments, context))

        # When the turn's time is up, what has no result by then was interrupted.
        with contextlib.suppress(TimeoutError):
            async with running.clocked() as begin, asyncio.TaskGroup() as tasks:
                begin()
                for one in wanted:
                    tasks.create_task(one_of_them(one), name=f"tool {one.call.name}")

    async def _store(self, step: int, result: ToolResult, ended: float) -> None:
        async def store() -> None:
            async with self._database.transaction() as tx:
                await calls.settle(tx, self._turn, step, result, now=ended)

        await patiently(store)
