"""Executes one turn: passes the loop's events to the model and the tools, and the results to the loop.

What an event produced is stored before the next is acted on: a turn continues from there after a crash.
"""

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bot import logs
from bot.agent import loop, prompt, taint
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
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.queues import inbox, outbox_files
from bot.db.transaction import Transaction
from bot.domain import Channel, ChannelFactory, Message, ModelRequest, Reply
from bot.errors import CallFailed, PromptTooLong
from bot.turns import start, turn_plan
from bot.turns.approval_questions import Requester
from bot.turns.endpoint_router import EndpointRouter, EndpointRoutes
from bot.turns.handle import TurnHandle
from bot.turns.model_caller import CallAttempt, CallResult
from bot.turns.recorder import RecorderDependencies, TurnRecorder
from bot.turns.start import PreparedTurn
from bot.turns.tool_executor import PendingApprovals, ToolExecutor, load_results
from bot.turns.tool_policy import ResultsByCall, ToolPolicy, ToolPolicyDependencies
from bot.turns.turn_request import PreflightRequest, PreflightResult, TurnConfig, TurnRequest
from bot.usage.timers import TurnTimers
from tools.base import ToolContext

FRAMING_TOKENS = 80  # tokens for what the gateway and the template put around the steps of a turn
SAFE_SHARE = 0.93  # of a turn's tokens: tool results are estimated before the server counts them
MAX_PROMPT_ATTEMPTS = 3  # a prompt too long for the endpoint is built again, each time with half the budget


@dataclass(frozen=True, slots=True)
class TurnDependencies:
    """What turns work with.

    `routes`: the endpoints that answer.
    `context_for`: builds a tool's context from the request, the call's id, and the call's position among all.
    `prepare_model`: loads what calls need, once.
    `preflight`: asks the endpoint what a turn needs to know before it begins, about the texts to answer.
    `policy_dependencies`: decide which tool calls run.
    `turn_seconds`: bound the work of one turn.
    `timers`: measure what turns spend their time on.
    """

    database: Database
    routes: EndpointRoutes
    channel_for: ChannelFactory
    context_for: Callable[[TurnRequest, str, str], ToolContext]
    config: TurnConfig
    prepare_model: Callable[[], Awaitable[object]]
    preflight: Callable[[PreflightRequest, Sequence[str]], Awaitable[PreflightResult]]
    policy_dependencies: ToolPolicyDependencies
    turn_seconds: float
    timers: TurnTimers = field(default_factory=TurnTimers)


class TurnExecution:
    """One turn being executed; `is_parked`: it waits for an approval and runs on once it is answered."""

    def __init__(
        self, dependencies: TurnDependencies, request: TurnRequest, handle: TurnHandle, channel: Channel
    ) -> None:
        self.is_parked = False
        self._dependencies = dependencies
        self._turn_request = request
        self._handle = handle
        self._channel = channel
        self._shown_reply: Reply | None = None  # what the chat showed before a restart
        # What `_start_loop` sets, before anything reads them.
        self._turn: PreparedTurn
        self._executor: ToolExecutor
        self._loop: Generator[LoopEvent, LoopInput, None]
        self._router = EndpointRouter(dependencies.routes, request.lane)
        self._recorder = TurnRecorder(
            RecorderDependencies(dependencies.database, channel, handle.timer),
            request,
            self._router,
            summaries_enabled=dependencies.config.summaries_enabled,
        )

    async def run(self) -> None:
        """Run the turn to its end.

        A prompt too long for the endpoint is built again with less history.
        """
        with self._handle.timer.measure("starting"):
            await self._dependencies.prepare_model()
        budget = self._dependencies.config.prompt_budget
        for attempt in range(MAX_PROMPT_ATTEMPTS):
            failed_call = await self._run_loop(budget >> attempt)
            if failed_call is None:
                break
            is_last = attempt == MAX_PROMPT_ATTEMPTS - 1
            if is_last or not isinstance(failed_call.result, PromptTooLong):
                await self._recorder.store_failure(failed_call)
                break
            await self._recorder.commit(failed_call.closing)

    async def _run_loop(self, budget: int) -> CallResult | None:
        """Run until the turn has ended or is parked; a failed call is returned."""
        event = await self._open(budget)
        while not isinstance(event, TurnResult | None):
            if isinstance(event, RunTools):
                results = await self._executor.run(event, self._handle, self._channel)
                if not isinstance(results, PendingApprovals):
                    event = await self._advance(results)
                    continue
                self.is_parked = await self._recorder.park(event.step, results.pending_calls)
                if self.is_parked:
                    return None
                self._handle.stop()  # it was stopped meanwhile: nobody is asked, its calls are settled next
                continue
            with logs.bind(turn=self._turn.id):
                call_result = await self._call_model(event)
            self._recorder.note_reply(event, call_result)
            if isinstance(call_result.result, CallFailed):
                return call_result
            event = await self._advance(call_result.result, call_result.closing)
        return None

    async def _open(self, budget: int) -> LoopEvent | None:
        """Open the turn, or resume it where it stopped; None if it had ended already."""
        dependencies = self._dependencies
        preflight_result: PreflightResult | None = None
        request = self._turn_request
        while True:
            now = time.time()
            async with dependencies.database.read_transaction() as tx:
                request = replace(request, lane=await groups.find_lane(tx, request.lane))
                plan = await turn_plan.plan_turn(
                    tx, dependencies.config, request, preflight_result, budget=budget, now=now
                )
            if isinstance(plan, PreflightRequest):
                preflight_result = await self._ask_endpoint(plan)
                continue
            # A resumed turn may be at a tool that must not run twice.
            async with dependencies.database.file_transaction(
                request.attachment_bytes, durable=request.may_have_begun
            ) as tx:
                turn = await start.open_turn(tx, dependencies.config, request, plan, now=now)
                if turn is not None:
                    self._turn_request = request.mark_begun()
                    return await self._start_loop(tx, turn, now)
            request = request.mark_begun()  # by this process, which could not go on with it

    async def _ask_endpoint(self, preflight_request: PreflightRequest) -> PreflightResult:
        texts = [prompt.strip_files(text) for text in self._turn_request.texts]
        with self._handle.timer.measure("preflight"):
            return await self._dependencies.preflight(preflight_request, texts)

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
        self._loop = loop.run_turn(
            turn.prompt,
            turn.toolbox.tools,
            self._build_limits(turn),
            turn.thinking,
            self._channel.translate,
        )
        if turn.interrupted_call is not None:
            self._shown_reply = turn.interrupted_call.reply
        position = self._end_if_over(*replay(self._loop, turn.replies, results))
        await self._recorder.store_start(tx, turn, self._executor, position, now=now)
        (event, _) = position
        return event

    async def _build_executor(
        self, tx: Transaction, turn: PreparedTurn, results: ResultsByCall
    ) -> ToolExecutor:
        dependencies = self._dependencies
        request = self._turn_request
        policy_dependencies = dependencies.policy_dependencies
        questions = {}
        if turn.is_resumed:
            questions = await policy_dependencies.approvals.load_questions(tx, turn.id)
        words = prompt.strip_data("\n".join(request.texts))
        requester = Requester(turn.id, request.person, request.name, request.lane, words)
        taint_state = taint.build_taint_state(
            turn.prompt,
            turn.user_messages,
            turn.toolbox.tools,
            continues_answer=request.is_continuation,
            is_summary_outside=turn.is_summary_outside,
        )
        policy = ToolPolicy(policy_dependencies, requester, turn.toolbox, taint_state, questions)
        context_for = partial(dependencies.context_for, request)
        executor = ToolExecutor(dependencies.database, turn.id, turn.toolbox, policy, context_for, results)
        if request.lane.is_guest:
            executor.refuse_files()
        if turn.is_resumed:
            executor.allowance.count_stored(await outbox_files.load_waiting(tx, turn.id))
        return executor

    def _build_limits(self, turn: PreparedTurn) -> TurnLimits:
        config = self._dependencies.config
        return TurnLimits(
            max_steps=config.max_steps,
            max_tokens=config.max_tokens,
            may_think=turn.may_think,
            can_continue=self._router.route.can_continue,
            token_budget=max(0, int(SAFE_SHARE * turn.tokens_left) - FRAMING_TOKENS),
            replayed_steps=len(turn.replies),
        )

    async def _call_model(self, event: CallModel) -> CallResult:
        self._channel.set_links(self._recorder.find_links())
        if event.visible_text:
            self._channel.show(event.visible_text)
        model_request = ModelRequest(
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
        call_result = await self._call_current_endpoint(model_request, event)
        while (target_role := self._router.take_failover()) is not None:
            await self._recorder.store_failover(target_role, call_result.closing, event)
            call_result = await self._call_current_endpoint(model_request, event)
        if event.is_optional and isinstance(call_result.result, CallFailed):
            return replace(call_result, result=TurnInterruption("failed", call_result.result.partial))
        return call_result

    async def _call_current_endpoint(self, model_request: ModelRequest, event: CallModel) -> CallResult:
        attempt = CallAttempt(
            self._router.prepare_request(model_request),
            self._recorder.call,
            self._recorder.build_new_call(event, retry_reason=event.retry_reason),
            optional=event.is_optional,
        )
        failover_policy = None if event.is_optional else self._router.failover_policy
        return await self._router.route.caller.call(attempt, self._handle, self._channel, failover_policy)

    async def _advance(self, loop_input: LoopInput, closing: CallCompletion | None = None) -> LoopEvent:
        """Send a reply or results to the loop, and store them with what follows from them."""
        if isinstance(loop_input, TurnInterruption):
            loop_input = self._build_interruption(loop_input.reason, loop_input.partial)
        self._shown_reply = None
        event = self._loop.send(loop_input)
        event, new_messages = self._end_if_over(event, event.new_messages)
        await self._recorder.store_event(event, new_messages, closing)
        if isinstance(event, RunTools):
            self._channel.show_status(None)  # the user no longer waits for what it says
        return event

    def _end_if_over(
        self, event: LoopEvent, new_messages: tuple[Message, ...]
    ) -> tuple[LoopEvent, tuple[Message, ...]]:
        """The event with the messages up to it; a turn that is over ends instead of calling the model again.

        It is over when its time is up or it was stopped, and with an answer also when others need the seats.
        """
        if not isinstance(event, CallModel):
            return event, new_messages
        reason: InterruptionReason | None = self._handle.stop_reason
        if reason is None and event.is_optional and not self._has_seat_to_continue():
            reason = "crowded"
        if reason is None:
            return event, new_messages
        event = self._loop.send(self._build_interruption(reason))
        return event, (*new_messages, *event.new_messages)

    def _has_seat_to_continue(self) -> bool:
        route = self._router.route
        return route.can_continue and route.caller.has_free_seat

    def _build_interruption(self, reason: InterruptionReason, reply: Reply | None = None) -> TurnInterruption:
        """The end of the turn. What was shown before a restart stays, unless the reply has text."""
        return TurnInterruption(reason, reply if reply is not None and reply.text else self._shown_reply)
