"""Runs the tool calls of one step side by side; each result is stored as soon as it is there.

Owns what becomes of an interrupted call: by /stop, by the end of the turn's time, by the death of the
process.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bot.agent.answer_sources import build_answer_links
from bot.agent.events import RunTools
from bot.agent.notices import format_tool_progress
from bot.agent.tool_calls import CheckedCall
from bot.db.conversations import calls
from bot.db.engine import Database
from bot.db.queues import outbox_files
from bot.db.retry import retry_until_available
from bot.db.transaction import Transaction
from bot.domain import AnswerLinks, Channel, ToolCall, ToolResult
from bot.tool_registry.secret_scanner import mask_words
from bot.tool_registry.toolbox import TakeFiles, Toolbox, render_result
from bot.translations.translator import translatable
from bot.turns.approval_questions import PendingCall
from bot.turns.file_allowance import FileAllowance
from bot.turns.handle import TurnHandle
from bot.turns.prepared_turn import PreparedTurn
from bot.turns.tool_policy import PolicyDecisions, ResultsByCall, ToolPolicy
from tools.base import QUESTION_SECONDS, AskPerson, CallPreview, ToolAnswer, ToolContext, ToolQuestion
from tools.builtin.ask import ask, parse_question
from tools.builtin.notes import remember
from tools.builtin.read_more import read_more
from tools.builtin.schedule import schedule

INTERRUPTED = "This was interrupted before it ended; what it did is unknown."
NOT_RUN = "This was not run: the turn was over before."
UNKNOWN = (
    "This was interrupted while it ran: its outcome is unknown. Say so, and do not run it again unasked."
)
REMEMBER_QUESTION = translatable("Shall I remember this?")
MAX_PARALLEL_CALLS = 4  # calls of one turn that run at once

log = logging.getLogger(__name__)

OnResult = Callable[[ToolResult], None]


@dataclass(frozen=True, slots=True)
class PendingApprovals:
    """The step waits for approvals of these calls; all its other calls have results."""

    pending_calls: tuple[PendingCall, ...]


async def load_results(
    tx: Transaction, turn: PreparedTurn, *, now: float
) -> dict[tuple[int, str], ToolResult]:
    """The results of a turn that are stored already.

    A call that began and whose outcome is unknown gets a result that says so, unless its tool may run again;
    one that waits for an approval has none.
    """
    results = {}
    for stored in turn.results:
        key = (stored.step, stored.call.id)
        if stored.outcome is not None:
            results[key] = ToolResult(stored.call, stored.text or "", stored.outcome, images=stored.images)
        elif stored.has_begun and not _is_repeatable(turn.toolbox, stored.call.name):
            results[key] = ToolResult(stored.call, UNKNOWN, "unknown")
            await calls.store_tool_result(tx, turn.id, stored.step, results[key], now=now)
    return results


class ToolExecutor:
    """Runs the tools of one turn, as far as its policy allows them.

    `allowance`: the files for the person that they have returned, and what they may still send.
    """

    def __init__(
        self,
        database: Database,
        turn: PreparedTurn,
        policy: ToolPolicy,
        context_for: Callable[[str, str], ToolContext],
        known_results: ResultsByCall,
    ) -> None:
        self.allowance = FileAllowance()
        self._take_files: TakeFiles | None = self.allowance.take
        self._database = database
        self._turn = turn
        self._toolbox = turn.toolbox
        self._policy = policy
        self._context_for = context_for
        self._results = dict(known_results)

    def refuse_files(self) -> None:
        """Send no files, and have the model read so: the chat takes none."""
        self._take_files = None

    async def register_calls(self, tx: Transaction, event: RunTools, *, now: float) -> PolicyDecisions:
        """Judge the calls of a step, and store what is to run, what waits and what is refused.

        Nothing of the step runs before that is committed.
        """
        decisions = await self._policy.evaluate(tx, event, self._results, now=now)
        ready = [checked.call for checked in decisions.ready]
        held = [pending.call.call for pending in decisions.pending_calls]
        refused = (*event.refused, *decisions.refused)
        await calls.insert_tool_calls(tx, self._turn.id, event.step, ready, refused, now=now)
        if held:
            await calls.hold_tool_calls(tx, self._turn.id, event.step, held)
        if ready and self._policy.has_questions:
            await calls.start_tool_calls(tx, self._turn.id, event.step, ready, now=now)
        return decisions

    def find_links(self) -> AnswerLinks:
        """Which links of the answer are real, by what the turn has read and what calls returned."""
        plan = self._turn.plan
        admin_texts = [message.text for message in plan.prompt if message.role == "system"]
        succeeded = {key: result for key, result in self._results.items() if result.outcome == "ok"}
        read = self._policy.add_results(succeeded)
        return build_answer_links(
            read, self._results.values(), self._toolbox.tools, admin_texts, plan.earlier_results
        )

    async def run(
        self, event: RunTools, decisions: PolicyDecisions, handle: TurnHandle, channel: Channel
    ) -> tuple[ToolResult, ...] | PendingApprovals:
        """The results of a step, in the order of its calls; calls that have one already are not run again.

        `decisions` are about those calls. `channel` shows what running tools report.
        """
        if handle.stop_reason is None:
            decisions = await self._preview_calls(event.step, decisions, channel)
        handle.side_effects_since = None
        if not all(_is_repeatable(self._toolbox, checked.call.name) for checked in decisions.ready):
            handle.side_effects_since = time.monotonic()
        try:
            return await self._run_step(event, decisions, handle, _StepProgress(channel))
        finally:
            handle.side_effects_since = None

    async def _preview_calls(
        self, step: int, decisions: PolicyDecisions, channel: Channel
    ) -> PolicyDecisions:
        """Say in words what held calls of our own tools do; those that a person's message asks for run."""
        pending = [await self._preview(step, held, channel) for held in decisions.pending_calls]
        wishes = [held.call for held in pending if held.preview and held.preview.is_own_wish]
        if wishes:
            asked = [checked.call for checked in wishes]

            async def start() -> None:
                async with self._database.transaction() as tx:
                    await calls.start_tool_calls(tx, self._turn.id, step, asked, now=time.time())

            await retry_until_available(start)
        held_calls = tuple(held for held in pending if held.call not in wishes)
        return replace(decisions, ready=(*decisions.ready, *wishes), pending_calls=held_calls)

    async def _preview(self, step: int, held: PendingCall, channel: Channel) -> PendingCall:
        if held.tool.name == ask.name:
            question = parse_question(held.call.arguments["question"])
            links = replace(self.find_links(), opened=())  # a question needs no sources
            return replace(held, wording=await channel.render_parts(question.text, links=links))
        schedules = self._context_for(held.call.call.id, f"{self._turn.id} {step}").schedules
        if held.tool.source or held.has_open_question or schedules is None:
            return held
        if held.tool.name == remember.name:
            return replace(held, preview=CallPreview(REMEMBER_QUESTION, held.call.arguments["note"]))
        if held.tool.name != schedule.name:
            return held
        preview = await retry_until_available(partial(schedules.preview, held.call.arguments))
        may_skip = held.tool.rule.ask == "never"
        return replace(held, preview=replace(preview, is_own_wish=preview.is_own_wish and may_skip))

    async def _run_step(
        self, event: RunTools, decisions: PolicyDecisions, handle: TurnHandle, progress: "_StepProgress"
    ) -> tuple[ToolResult, ...] | PendingApprovals:
        self._results |= {(event.step, refused.call.id): refused for refused in decisions.refused}
        # Results are stored by tasks of their own, which the end of the turn does not cancel.
        async with asyncio.TaskGroup() as storing:

            def settle(result: ToolResult) -> None:
                self._results[event.step, result.call.id] = replace(result, files=())
                storing.create_task(
                    self._store_result(event.step, result, time.time()), name=f"result {result.call.id}"
                )

            def settle_unfinished(checked_calls: Sequence[CheckedCall], text: str) -> None:
                for checked in checked_calls:
                    if (event.step, checked.call.id) not in self._results:
                        settle(ToolResult(checked.call, text, "interrupted"))

            text_if_unfinished = NOT_RUN if handle.stop_reason else INTERRUPTED
            if decisions.ready and handle.stop_reason is None:
                with handle.timer.measure("tools"):
                    run_calls = self._run_calls(event.step, decisions.ready, progress, handle, settle)
                    await handle.run_cancellable(run_calls)
            settle_unfinished(decisions.ready, text_if_unfinished)
            if decisions.pending_calls and handle.stop_reason is None:
                return PendingApprovals(decisions.pending_calls)
            settle_unfinished([pending.call for pending in decisions.pending_calls], NOT_RUN)
        return tuple(self._results[event.step, checked.call.id] for checked in event.calls)

    async def _run_calls(
        self,
        step: int,
        ready: Sequence[CheckedCall],
        progress: "_StepProgress",
        handle: TurnHandle,
        on_result: OnResult,
    ) -> None:
        """Run calls side by side; one without a result when the turn's time is up was interrupted."""
        slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)

        async def run_in_slot(checked: CheckedCall) -> None:
            async with slots:
                on_result(await self._run_call(step, ready, progress, handle, checked))

        with contextlib.suppress(TimeoutError):
            async with handle.deadline() as start_clock, asyncio.TaskGroup() as tasks:
                start_clock()
                for checked in ready:
                    tasks.create_task(run_in_slot(checked), name=f"tool {checked.call.name}")

    async def _run_call(
        self,
        step: int,
        ready: Sequence[CheckedCall],
        progress: "_StepProgress",
        handle: TurnHandle,
        checked_call: CheckedCall,
    ) -> ToolResult:
        call = checked_call.call
        context = self._context_for(call.id, f"{self._turn.id} {step} {call.id}")
        context = replace(
            context,
            earlier_calls=self._count_earlier(step, ready, call),
            answer=self._policy.find_answer(step, call.id),
        )
        if context.ask is not None:
            context = replace(context, ask=partial(_ask_off_clock, handle, context.ask))
        with progress.open_call(call) as show_progress:
            context = replace(context, show_progress=show_progress)
            result = await self._toolbox.run(call, checked_call.arguments, context, self._take_files)
        if result.failure:
            fields = {"action": "tool.failed", "tool": call.name}
            log.warning("%s failed: %s", call.name, mask_words(result.failure), extra=fields)
        if result.full_text is None or read_more.name not in self._toolbox.tools:
            return result
        number = await retry_until_available(lambda: self._find_result_number(step, call.id))
        tool = self._toolbox.tools[call.name]
        return replace(result, text=render_result(tool, result.full_text, result.full_length, number))

    def _count_earlier(self, step: int, ready: Sequence[CheckedCall], call: ToolCall) -> int:
        """Count the calls of this tool that were made before, also those that run beside it."""
        calls_of_step = [checked.call for checked in ready]
        beside = calls_of_step[: calls_of_step.index(call)]
        earlier = [result.call for (its_step, _), result in self._results.items() if its_step < step]
        return sum(other.name == call.name for other in (*earlier, *beside))

    async def _find_result_number(self, step: int, call_id: str) -> int:
        """The number by which the model reads on in a result that was cut."""
        async with self._database.read_transaction() as tx:
            return await calls.find_result_number(tx, self._turn.id, step, call_id)

    async def _store_result(self, step: int, result: ToolResult, ended_at: float) -> None:
        sizes = [file.size for file in result.files] + [len(image.data) for image in result.images]

        async def store() -> None:
            async with self._database.file_transaction(sum(sizes)) as tx:
                await calls.store_tool_result(tx, self._turn.id, step, result, now=ended_at)
                await outbox_files.store(tx, result.files, turn=self._turn.id, now=ended_at)

        await retry_until_available(store)


class _StepProgress:
    """Shows what the calls of a step report while they run: the newest line of one that still does."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lines: dict[str, str | None] = {}

    @contextlib.contextmanager
    def open_call(self, call: ToolCall) -> Iterator[Callable[[str], None]]:
        """Yield the function by which a call reports, from any thread, while the block lasts."""
        loop = asyncio.get_running_loop()

        def show_progress(words: str) -> None:
            loop.call_soon_threadsafe(self._show, call, words)

        self._lines[call.id] = None
        try:
            yield show_progress
        finally:
            if self._lines.pop(call.id) is not None:
                shown = [line for line in self._lines.values() if line is not None]
                self._channel.show_tool_progress(shown[-1] if shown else None)

    def _show(self, call: ToolCall, words: str) -> None:
        line = format_tool_progress(call.name, words)
        if call.id not in self._lines or self._lines[call.id] == line:
            return
        del self._lines[call.id]
        self._lines[call.id] = line  # the newest is the last
        self._channel.show_tool_progress(line)


async def _ask_off_clock(handle: TurnHandle, ask: AskPerson, question: ToolQuestion) -> ToolAnswer:
    """Ask the person; the time of the turn does not pass meanwhile."""
    began_at = time.monotonic()
    handle.prolong(QUESTION_SECONDS)
    try:
        return await ask(question)
    finally:
        handle.prolong(time.monotonic() - began_at - QUESTION_SECONDS)


def _is_repeatable(toolbox: Toolbox, name: str) -> bool:
    """Whether the tool may run again; a tool that is not there may not."""
    tool = toolbox.tools.get(name)
    return tool is not None and tool.repeatable
