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
from bot.agent.tool_calls import CheckedCall
from bot.agent.toolbox import Toolbox, render_result
from bot.db.conversations import calls
from bot.db.conversations.calls import StoredResult
from bot.db.engine import Database, Transaction
from bot.db.retry import retry_until_available
from bot.domain import ToolResult
from bot.turns.approvals import PendingCall
from bot.turns.handle import TurnHandle
from bot.turns.tool_policy import PolicyDecisions, ToolPolicy
from tools.base import ToolContext
from tools.builtin.read_more import read_more

INTERRUPTED = "This was interrupted before it ended; what it did is unknown."
NOT_RUN = "This was not run: the turn was over before."
UNKNOWN = (
    "This was interrupted while it ran: its outcome is unknown. Say so, and do not run it again unasked."
)
MAX_PARALLEL_CALLS = 4  # calls of one turn that run at once

ResultsByCall = Mapping[tuple[int, str], ToolResult]
OnResult = Callable[[ToolResult], None]


@dataclass(frozen=True, slots=True)
class PendingApprovals:
    """The step cannot end before a person has answered about these calls; all others have their results."""

    pending_calls: tuple[PendingCall, ...]


async def load_results(
    tx: Transaction, turn: int, stored_results: Sequence[StoredResult], toolbox: Toolbox, *, now: float
) -> dict[tuple[int, str], ToolResult]:
    """The results that are stored already. A call that began and whose outcome is unknown gets a result that
    says so, unless its tool may run again; one that waits for a person has none.
    """
    results = {}
    for one in stored_results:
        if one.outcome is not None:
            results[one.step, one.call.id] = ToolResult(
                one.call, one.text or "", one.outcome, images=one.images
            )
        elif one.has_begun and not (
            one.call.name in toolbox.tools and toolbox.tools[one.call.name].repeatable
        ):
            unknown = results[one.step, one.call.id] = ToolResult(one.call, UNKNOWN, "unknown")
            await calls.store_tool_result(tx, turn, one.step, unknown, now=now)
    return results


class ToolExecutor:
    """Runs the tools of one turn, once its gate has judged them."""

    def __init__(
        self,
        database: Database,
        turn: int,
        toolbox: Toolbox,
        policy: ToolPolicy,
        context_for: Callable[[str, str], ToolContext],
        known_results: ResultsByCall,
    ) -> None:
        self.policy = policy
        self._database = database
        self._turn = turn
        self._toolbox = toolbox
        self._context_for = context_for
        self._results = dict(known_results)
        self._decisions = PolicyDecisions()

    async def register_calls(self, tx: Transaction, event: RunTools, *, now: float) -> None:
        """Write down what is about to run, what has to wait and what was refused, before anything of the step
        runs.
        """
        self._decisions = await self.policy.evaluate(tx, event, self._results, now=now)
        ready = [one.call for one in self._decisions.ready]
        refused = (*event.refused, *self._decisions.refused)
        await calls.insert_tool_calls(tx, self._turn, event.step, ready, refused, now=now)
        if self._decisions.pending_calls:
            await calls.hold_tool_calls(
                tx, self._turn, event.step, [one.call.call for one in self._decisions.pending_calls]
            )
        if ready and self.policy.has_questions:
            await calls.start_tool_calls(tx, self._turn, event.step, ready, now=now)

    async def run(self, event: RunTools, handle: TurnHandle) -> tuple[ToolResult, ...] | PendingApprovals:
        """The results of a step, in the order of its calls; those known already are not run again."""
        if any(map(self._is_unrepeatable, self._decisions.ready)):
            handle.side_effects_since = time.monotonic()
        else:
            handle.side_effects_since = None
        try:
            return await self._run_step(event, handle)
        finally:
            handle.side_effects_since = None

    def _is_unrepeatable(self, checked_call: CheckedCall) -> bool:
        tool = self._toolbox.tools.get(checked_call.call.name)
        return tool is None or not tool.repeatable

    async def _run_step(
        self, event: RunTools, handle: TurnHandle
    ) -> tuple[ToolResult, ...] | PendingApprovals:
        self._results |= {(event.step, refused.call.id): refused for refused in self._decisions.refused}
        # What came is stored by tasks of its own, which the end of the turn does not cut.
        async with asyncio.TaskGroup() as storing:

            def settle(result: ToolResult) -> None:
                self._results[event.step, result.call.id] = result
                storing.create_task(
                    self._store_result(event.step, result, time.time()), name=f"result {result.call.id}"
                )

            otherwise = NOT_RUN if handle.stop_reason else INTERRUPTED
            if self._decisions.ready and handle.stop_reason is None:
                with handle.timer.measure("tools"):
                    await handle.run_cancellable(
                        self._run_parallel(event.step, self._decisions.ready, handle, settle)
                    )
            for one in self._select_unfinished(event.step, self._decisions.ready):
                settle(ToolResult(one.call, otherwise, "interrupted"))
            if self._decisions.pending_calls and handle.stop_reason is None:
                return PendingApprovals(self._decisions.pending_calls)
            for one in self._select_unfinished(
                event.step, [held.call for held in self._decisions.pending_calls]
            ):
                settle(ToolResult(one.call, NOT_RUN, "interrupted"))
        return tuple(self._results[event.step, one.call.id] for one in event.calls)

    def _select_unfinished(self, step: int, checked_calls: Sequence[CheckedCall]) -> list[CheckedCall]:
        return [one for one in checked_calls if (step, one.call.id) not in self._results]

    async def _run_parallel(
        self, step: int, checked_calls: Sequence[CheckedCall], handle: TurnHandle, on_result: OnResult
    ) -> None:
        room = asyncio.Semaphore(MAX_PARALLEL_CALLS)

        async def one_of_them(one: CheckedCall) -> None:
            async with room:
                on_result(await self._run_call(step, one))

        # When the turn's time is up, what has no result by then was interrupted.
        with contextlib.suppress(TimeoutError):
            async with handle.deadline() as begin, asyncio.TaskGroup() as tasks:
                begin()
                for one in checked_calls:
                    tasks.create_task(one_of_them(one), name=f"tool {one.call.name}")

    async def _run_call(self, step: int, checked_call: CheckedCall) -> ToolResult:
        context = self._context_for(checked_call.call.id, f"{self._turn} {step} {checked_call.call.id}")
        result = await self._toolbox.run(checked_call.call, checked_call.arguments, context)
        if result.full_text is None or read_more.name not in self._toolbox.tools:
            return result
        number = await retry_until_available(lambda: self._find_result_number(step, checked_call.call.id))
        return replace(
            result,
            text=render_result(
                self._toolbox.tools[checked_call.call.name], result.full_text, result.full_length, number
            ),
        )

    async def _find_result_number(self, step: int, call_id: str) -> int:
        """By which the model goes on reading a result that was cut."""
        async with self._database.read_transaction() as tx:
            return await calls.find_result_number(tx, self._turn, step, call_id)

    async def _store_result(self, step: int, result: ToolResult, ended_at: float) -> None:
        async def store() -> None:
            async with self._database.transaction() as tx:
                await calls.store_tool_result(tx, self._turn, step, result, now=ended_at)

        await retry_until_available(store)
