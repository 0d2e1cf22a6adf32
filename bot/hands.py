"""Runs the tool calls of one step side by side; each result is stored as it comes.

Owns what becomes of a call that was cut: a person's /stop, the end of the turn's time, the death of the process.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from bot.agent.calls import Wanted
from bot.agent.loop import RunTools
from bot.agent.toolbox import Toolbox
from bot.db import calls
from bot.db.calls import StoredResult
from bot.db.engine import Database
from bot.domain import ToolCall, ToolResult
from bot.running import Running
from tools.base import ToolContext

INTERRUPTED = "This was interrupted before it ended; what it did is unknown."
UNKNOWN = "The process ended while this ran: its outcome is unknown. Say so, and do not run it again unasked."

ByCall = Mapping[tuple[int, str], ToolResult]


def known(found: Sequence[StoredResult], toolbox: Toolbox) -> dict[tuple[int, str], ToolResult]:
    """The results an earlier process stored. A call it began and whose outcome is unknown gets a result that says so,
    unless its tool may run again.
    """
    results = {}
    for one in found:
        if one.outcome is not None:
            results[one.step, one.call.id] = ToolResult(one.call, one.text or "", one.outcome)
        elif not (one.call.name in toolbox.tools and toolbox.tools[one.call.name].repeatable):
            results[one.step, one.call.id] = ToolResult(one.call, UNKNOWN, "unknown")
    return results


class Hands:
    """Runs the tools of one turn."""

    def __init__(
        self, database: Database, turn: int, toolbox: Toolbox, context: Callable[[str], ToolContext], results: ByCall
    ) -> None:
        self._database = database
        self._turn = turn
        self._toolbox = toolbox
        self._context = context
        self._results = dict(results)

    async def run(self, event: RunTools, running: Running) -> tuple[ToolResult, ...]:
        """The results of a step, in the order of its calls; those known already are not run again."""
        missing = [one for one in event.calls if (event.step, one.call.id) not in self._results]
        await running.work(self._together(event.step, missing, running))
        for one in missing:
            if (event.step, one.call.id) not in self._results:
                await self._settle(event.step, ToolResult(one.call, INTERRUPTED, "interrupted"))
        return tuple(self._results[event.step, one.call.id] for one in event.calls)

    async def _together(self, step: int, wanted: Sequence[Wanted], running: Running) -> None:
        try:
            async with running.clocked() as begin, asyncio.TaskGroup() as tasks:
                begin()
                for one in wanted:
                    tasks.create_task(self._one(step, one.call, one.arguments), name=f"tool {one.call.name}")
        except TimeoutError:
            return  # the turn's time is up; what has no result by now was interrupted

    async def _one(self, step: int, call: ToolCall, arguments: Mapping[str, object]) -> None:
        result = await self._toolbox.run(call, arguments, self._context(call.id))
        # Cut from here on, the result is known all the same: storing it must not be torn apart.
        await asyncio.shield(self._settle(step, result))

    async def _settle(self, step: int, result: ToolResult) -> None:
        self._results[step, result.call.id] = result
        async with self._database.transaction() as tx:
            await calls.settle(tx, self._turn, step, result, now=time.time())
