"""Plays one turn: hands the loop's events to the model and to the tools, and what came back to the loop.

Whatever an event brought is in the record before the next is acted on, so that a turn goes on from there
after a crash.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bot import logs
from bot.agent import loop
from bot.agent import prompt as prompting
from bot.agent import taint as caution
from bot.agent.events import (
    CallModel,
    InterruptionReason,
    LoopEvent,
    LoopInput,
    RunTools,
    TurnInterruption,
    TurnLimits,
    TurnResult,
)
from bot.agent.replay import replay
from bot.db.conversations.calls import CallCompletion
from bot.db.engine import Database, Transaction
from bot.db.queues import inbox
from bot.domain import Channel, ChannelFactory, Message, ModelRequest, Reply
from bot.errors import CallFailed, PromptTooLong
from bot.turns import start as opening
from bot.turns.approvals import Requester
from bot.turns.endpoint_router import EndpointRouter, EndpointRoutes
from bot.turns.handle import TurnHandle
from bot.turns.model_caller import CallAttempt, CallResult
from bot.turns.recorder import RecorderDependencies, TurnRecorder
from bot.turns.start import PreflightRequest, PreflightResult, PreparedTurn, TurnConfig, TurnRequest
from bot.turns.tool_executor import PendingApprovals, ResultsByCall, ToolExecutor, load_results
from bot.turns.tool_policy import ToolPolicy, ToolPolicyDependencies
from bot.usage.timers import TurnTimers
from tools.base import ToolContext

FRAMING_TOKENS = 80  # tokens kept for what the house and the template put around the steps of a turn
SAFE_SHARE = 0.93  # of the room of a turn, for what its tools bring is estimated before a server counts it
MAX_PROMPT_ATTEMPTS = 3  # times a prompt that the endpoint calls too long is made again with half the budget


@dataclass(frozen=True, slots=True)
class TurnDependencies:
    """What turns work with. `seconds` bounds the work of one turn; `places` are the endpoints that answer.

    `inquire` asks the endpoint what a turn wants to know before it begins, about the texts to be answered.
    `watches` measure what turns are at. `context_for` is told the call's id, and its place among all calls;
    `guard` says which calls run.
    """

    database: Database
    routes: EndpointRoutes
    channel_for: ChannelFactory
    context_for: Callable[[TurnRequest, str, str], ToolContext]
    config: TurnConfig
    preflight: Callable[[PreflightRequest, Sequence[str]], Awaitable[PreflightResult]]
    policy_dependencies: ToolPolicyDependencies
    turn_seconds: float
    timers: TurnTimers = field(default_factory=TurnTimers)


class TurnExecution:
    """One turn being played; `parked`: it waits for a person, and is played on once there is an answer."""

    def __init__(
        self, dependencies: TurnDependencies, request: TurnRequest, handle: TurnHandle, channel: Channel
    ) -> None:
        self.is_parked = False
        self._dependencies = dependencies
        self._turn_request = request
        self._handle = handle
        self._channel = channel
        self._shown_reply: Reply | None = None
        self._router = EndpointRouter(dependencies.routes, request.lane)
        desk = RecorderDependencies(dependencies.database, channel, handle.timer)
        self._recorder = TurnRecorder(
            desk, request, self._router, summaries_enabled=dependencies.config.summaries_enabled
        )

    async def run(self) -> bool:
        """Play to the end; a prompt too long for the endpoint is made again with less history.

        True if the turn has left the house something to do.
        """
        budget = self._dependencies.config.prompt_budget
        for narrower in range(MAX_PROMPT_ATTEMPTS):
            asked = await self._run_loop(budget >> narrower)
            if asked is None:
                break
            if not isinstance(asked.result, PromptTooLong) or narrower == MAX_PROMPT_ATTEMPTS - 1:
                await self._recorder.store_failure(asked)
                break
            await self._recorder.commit(asked.closing)
        return self._recorder.needs_summary

    async def _run_loop(self, budget: int) -> CallResult | None:
        """Play until the turn has ended or is parked; a failed call is handed back."""
        event = await self._open(budget)
        while not isinstance(event, TurnResult | None):
            if isinstance(event, RunTools):
                came = await self._executor.run(event, self._handle)
                if isinstance(came, PendingApprovals):
                    self.is_parked = await self._recorder.park(event.step, came.pending_calls)
                    if self.is_parked:
                        return None
                    self._handle.stop()
                    continue
                event = await self._advance(came)
                continue
            with logs.bind(turn=self._turn.id):
                asked = await self._call_model(event)
            self._recorder.note_reply(event, asked)
            if isinstance(asked.result, CallFailed):
                return asked
            event = await self._advance(asked.result, asked.closing)
        return None

    async def _open(self, budget: int) -> LoopEvent | None:
        """Open the turn, or bring it back to where it stood; None if it had ended already."""
        told: PreflightResult | None = None
        goes_on = any(
            item.has_turn for item in self._turn_request.items
        )  # perhaps with a tool that may not run twice
        while True:
            now = time.time()
            async with self._dependencies.database.transaction(durable=goes_on) as tx:
                opened = await opening.open_turn(
                    tx, self._dependencies.config, self._turn_request, told, budget=budget, now=now
                )
                if isinstance(opened, PreparedTurn):
                    return await self._start_loop(tx, opened, now)
            texts = [prompting.strip_files(text) for text in self._turn_request.texts]
            with self._handle.timer.measure(
                "first canvas"
            ):  # of a reading; counting takes no canvas, and next to no time
                told = await self._dependencies.preflight(opened, texts)

    async def _start_loop(self, tx: Transaction, turn: PreparedTurn, now: float) -> LoopEvent | None:
        self._turn = turn
        if turn.is_over:
            await inbox.mark_done(tx, [item.id for item in self._turn_request.items], now=now)
            return None
        if turn.is_stopped:
            self._handle.stop()
        if turn.is_resumed:
            await self._router.resume(tx, turn.id)
        else:
            await self._router.start(tx, turn.id, deep=self._turn_request.deep, thinks=turn.thinking)
        results = await load_results(tx, turn.id, turn.results, turn.toolbox, now=now)
        self._executor = await self._build_executor(tx, turn, results)
        self._loop = loop.run_turn(turn.prompt, turn.toolbox.tools, self._build_limits(turn), turn.thinking)
        self._shown_reply = turn.partial_reply
        event, said = self._end_if_over(*replay(self._loop, turn.replies, results))
        await self._recorder.store_start(tx, turn, self._executor, (event, said), now=now)
        return event

    async def _build_executor(
        self, tx: Transaction, turn: PreparedTurn, results: ResultsByCall
    ) -> ToolExecutor:
        means = self._dependencies
        ask = self._turn_request
        if turn.is_resumed:
            asked = await means.policy_dependencies.approvals.load_questions(tx, turn.id)
        else:
            asked = {}
        asker = Requester(turn.id, ask.person, ask.name, ask.lane)
        reading = caution.build_taint_state(
            turn.prompt, turn.user_messages, continues_answer=ask.is_continuation
        )
        gate = ToolPolicy(means.policy_dependencies, asker, turn.toolbox, reading, asked)
        context = partial(means.context_for, ask)
        return ToolExecutor(means.database, turn.id, turn.toolbox, gate, context, results)

    def _build_limits(self, turn: PreparedTurn) -> TurnLimits:
        plan = self._dependencies.config
        return TurnLimits(
            max_steps=plan.max_steps,
            max_tokens=plan.max_tokens,
            thinking_canvases=plan.thinking_canvases,
            may_think=turn.may_think,
            can_continue=self._router.route.can_continue,
            token_budget=max(0, int(SAFE_SHARE * turn.tokens_left) - FRAMING_TOKENS),
            replayed_steps=len(turn.replies),
        )

    async def _call_model(self, event: CallModel) -> CallResult:
        if event.visible_text:
            self._channel.show(event.visible_text)
        request = ModelRequest(
            messages=event.messages,
            tools=self._turn.toolbox.definitions,
            tool_choice=event.tool_choice,
            thinking=event.thinking,
            max_tokens=event.max_tokens,
            session=f"{self._turn_request.lane.key}/{self._turn.conversation_number}",
            lane=self._turn_request.lane.key,
            priority=self._turn_request.priority,
            max_thinking_tokens=event.max_thinking_tokens,
            continue_final_message=event.continue_final_message,
        )
        asked = await self._call_current_endpoint(request, event)
        while (to := self._router.take_failover()) is not None:
            await self._recorder.store_failover(to, asked.closing, event)
            asked = await self._call_current_endpoint(request, event)
        if event.is_optional and isinstance(asked.result, CallFailed):
            return replace(asked, result=TurnInterruption("failed", asked.result.partial))
        return asked

    async def _call_current_endpoint(self, model_request: ModelRequest, event: CallModel) -> CallResult:
        new = self._recorder.build_new_call(event, retry_reason=event.retry_reason)
        attempt = CallAttempt(
            self._router.prepare_request(model_request), self._recorder.call, new, optional=event.is_optional
        )
        seek = None if event.is_optional else self._router.failover_policy
        return await self._router.route.caller.call(attempt, self._handle, self._channel, seek)

    async def _advance(self, loop_input: LoopInput, closing: CallCompletion | None = None) -> LoopEvent:
        """Hand what came to the loop, and store it with what follows from it."""
        if isinstance(loop_input, TurnInterruption):
            loop_input = self._build_interruption(loop_input.reason, loop_input.partial)
        self._shown_reply = None
        event = self._loop.send(loop_input)
        event, said = self._end_if_over(event, event.new_messages)
        await self._recorder.store_event(event, said, closing)
        if isinstance(event, RunTools):
            self._channel.show_status(None)  # whatever the person waited for, it is over
        return event

    def _end_if_over(
        self, event: LoopEvent, new_messages: tuple[Message, ...]
    ) -> tuple[LoopEvent, tuple[Message, ...]]:
        """The event and what was said up to it; a turn that is over asks the model nothing more, and ends
        instead.

        An answer that could go on is over when others need the seats.
        """
        if not isinstance(event, CallModel):
            return event, new_messages
        place = self._router.route
        crowded = event.is_optional and not (place.can_continue and place.caller.has_free_seat)
        why = self._handle.stop_reason or ("crowded" if crowded else None)
        if why is None:
            return event, new_messages
        event = self._loop.send(self._build_interruption(why))
        return event, (*new_messages, *event.new_messages)

    def _build_interruption(self, reason: InterruptionReason, reply: Reply | None = None) -> TurnInterruption:
        """The end of the turn; what was shown before a restart stays, unless something has come since."""
        return TurnInterruption(reason, reply if reply is not None and reply.text else self._shown_reply)
