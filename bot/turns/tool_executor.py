"""Runs the tool calls of one step side by side; each result is stored as it comes.

Owns what becomes of a call that was cut: a person's /stop, the end of the turn's time, the death of the
process.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.agent.events import RunTools
from bot.agent.tool_calls import Wanted
from bot.agent.toolbox import Toolbox, told
from bot.db.conversations import calls
from bot.db.conversations.calls import StoredResult
from bot.db.engine import Database, Transaction
from bot.db.retry import patiently
from bot.domain import ToolResult
from bot.turns.approvals import Waiting
from bot.turns.handle import Running
from bot.turns.tool_policy import Gate, Sorted
from tools.base import ToolContext
from tools.builtin.read_more import read_more

INTERRUPTED = "This was interrupted before it ended; what it did is unknown."
NOT_RUN = "This was not run: the turn was over before."
UNKNOWN = (
    "This was interrupted while it ran: its outcome is unknown. Say so, and do not run it again unasked."
)
SIDE_BY_SIDE = 4  # calls of one turn that run at once

ByCall = Mapping[tuple[int, str], ToolResult]
Settle = Callable[[ToolResult], None]


@dataclass(frozen=True, slots=True)
class Parked:
    """The step cannot end before a person has answered about these calls; all others have their results."""

    waiting: tuple[Waiting, ...]


async def known(
    tx: Transaction, turn: int, found: Sequence[StoredResult], toolbox: Toolbox, *, now: float
) -> dict[tuple[int, str], ToolResult]:
    """The results that are stored already. A call that began and whose outcome is unknown gets a result that
    says so, unless its tool may run again; one that waits for a person has none.
    """
    results = {}
    for one in found:
        if one.outcome is not None:
            results[one.step, one.call.id] = ToolResult(
                one.call, one.text or "", one.outcome, images=one.images
            )
        elif one.began and not (one.call.name in toolbox.tools and toolbox.tools[one.call.name].repeatable):
            unknown = results[one.step, one.call.id] = ToolResult(one.call, UNKNOWN, "unknown")
            await calls.settle(tx, turn, one.step, unknown, now=now)
    return results


class Hands:
    """Runs the tools of one turn, once its gate has judged them."""

    def __init__(
        self,
        database: Database,
        turn: int,
        toolbox: Toolbox,
        gate: Gate,
        context: Callable[[str, str], ToolContext],
        results: ByCall,
    ) -> None:
        self.gate = gate
        self._database = database
        self._turn = turn
        self._toolbox = toolbox
        self._context = context
        self._results = dict(results)
        self._sorted = Sorted()

    async def want(self, tx: Transaction, event: RunTools, *, now: float) -> None:
        """Write down what is about to run, what has to wait and what was refused, before anything of the step
        runs.
        """
        self._sorted = await self.gate.sort(tx, event, self._results, now=now)
        ready = [one.call for one in self._sorted.ready]
        refused = (*event.refused, *self._sorted.refused)
        await calls.want(tx, self._turn, event.step, ready, refused, now=now)
        if self._sorted.waiting:
            await calls.hold(tx, self._turn, event.step, [one.call.call for one in self._sorted.waiting])
        if ready and self.gate.has_asked:
            await calls.let_run(tx, self._turn, event.step, ready, now=now)

    async def run(self, event: RunTools, running: Running) -> tuple[ToolResult, ...] | Parked:
        """The results of a step, in the order of its calls; those known already are not run again."""
        if any(map(self._runs_once, self._sorted.ready)):
            running.acting_since = time.monotonic()
        else:
            running.acting_since = None
        try:
            return await self._run(event, running)
        finally:
            running.acting_since = None

    def _runs_once(self, one: Wanted) -> bool:
        tool = self._toolbox.tools.get(one.call.name)
        return tool is None or not tool.repeatable

    async def _run(self, event: RunTools, running: Running) -> tuple[ToolResult, ...] | Parked:
        self._results |= {(event.step, refused.call.id): refused for refused in self._sorted.refused}
        # What came is stored by tasks of its own, which the end of the turn does not cut.
        async with asyncio.TaskGroup() as storing:

            def settle(result: ToolResult) -> None:
                self._results[event.step, result.call.id] = result
                storing.create_task(
                    self._store(event.step, result, time.time()), name=f"result {result.call.id}"
                )

            otherwise = NOT_RUN if running.over else INTERRUPTED
            if self._sorted.ready and running.over is None:
                with running.watch.at("tools"):
                    await running.work(self._together(event.step, self._sorted.ready, running, settle))
            for one in self._without_result(event.step, self._sorted.ready):
                settle(ToolResult(one.call, otherwise, "interrupted"))
            if self._sorted.waiting and running.over is None:
                return Parked(self._sorted.waiting)
            for one in self._without_result(event.step, [held.call for held in self._sorted.waiting]):
                settle(ToolResult(one.call, NOT_RUN, "interrupted"))
        return tuple(self._results[event.step, one.call.id] for one in event.calls)

    def _without_result(self, step: int, wanted: Sequence[Wanted]) -> list[Wanted]:
        return [one for one in wanted if (step, one.call.id) not in self._results]

    async def _together(self, step: int, wanted: Sequence[Wanted], running: Running, settle: Settle) -> None:
        room = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one_of_them(one: Wanted) -> None:
            async with room:
                settle(await self._one(step, one))

        # When the turn's time is up, what has no result by then was interrupted.
        with contextlib.suppress(TimeoutError):
            async with running.clocked() as begin, asyncio.TaskGroup() as tasks:
                begin()
                for one in wanted:
                    tasks.create_task(one_of_them(one), name=f"tool {one.call.name}")

    async def _one(self, step: int, one: Wanted) -> ToolResult:
        context = self._context(one.call.id, f"{self._turn} {step} {one.call.id}")
        result = await self._toolbox.run(one.call, one.arguments, context)
        if result.whole is None or read_more.name not in self._toolbox.tools:
            return result
        number = await patiently(lambda: self._number(step, one.call.id))
        return replace(
            result, text=told(self._toolbox.tools[one.call.name], result.whole, result.size, number)
        )

    async def _number(self, step: int, call: str) -> int:
        """By which the model goes on reading a result that was cut."""
        async with self._database.reading() as tx:
            return await calls.number(tx, self._turn, step, call)

    async def _store(self, step: int, result: ToolResult, ended: float) -> None:
        async def store() -> None:
            async with self._database.transaction() as tx:
                await calls.settle(tx, self._turn, step, result, now=ended)

        await patiently(store)
