"""Opens a turn, or resumes it after a restart, with all that executes it.

Planning only reads; what was planned is stored, and the turn's first step with it, in one transaction.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bot.agent import prompt, taint
from bot.agent.events import CallModel, RunTools, TurnLimits, TurnResult
from bot.db.conversations.calls import RepeatReason
from bot.db.engine import Database
from bot.db.queues import inbox, outbox_files
from bot.db.tools import approvals
from bot.db.transaction import Transaction
from bot.domain import PEOPLE_PRIORITY, Channel, ChannelFactory
from bot.turns import turn_plan
from bot.turns.approval_questions import Requester
from bot.turns.endpoint_router import EndpointRouter, EndpointRoutes
from bot.turns.handle import TurnHandle
from bot.turns.preflight import Preflight
from bot.turns.prepared_turn import PreparedTurn, prepare_turn
from bot.turns.recorder import LedgerCall, RecorderDependencies, TurnRecorder
from bot.turns.tool_executor import ToolExecutor, load_results
from bot.turns.tool_policy import PolicyDecisions, ResultsByCall, ToolPolicy, ToolPolicyDependencies
from bot.turns.turn_loop import TurnLoop
from bot.turns.turn_request import PreflightRequest, PreflightResult, TurnConfig, TurnRequest
from bot.usage.timers import TurnTimers
from tools.base import ToolContext

FRAMING_TOKENS = 80  # tokens for what the gateway and the template put around the steps of a turn
SAFE_SHARE = 0.93  # of a turn's tokens: tool results are estimated before the server counts them


@dataclass(frozen=True, slots=True)
class TurnDependencies:
    """What turns work with.

    `routes`: the endpoints that answer.
    `context_for`: builds a tool's context from the request, the call's id, and the call's position among all.
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
    preflight: Preflight
    policy_dependencies: ToolPolicyDependencies
    turn_seconds: float
    timers: TurnTimers = field(default_factory=TurnTimers)


@dataclass(frozen=True, slots=True)
class NextModelCall:
    """The model is to be called; `call` is what the ledger says of that."""

    event: CallModel
    call: LedgerCall


@dataclass(frozen=True, slots=True)
class NextToolCalls:
    """Tools are to be run, as it was decided about their calls."""

    event: RunTools
    decisions: PolicyDecisions


NextStep = NextModelCall | NextToolCalls | TurnResult
"""What a turn does next, as it is stored."""


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn that is being executed; `first_step` is what comes next in it as it is opened."""

    facts: PreparedTurn
    loop: TurnLoop
    policy: ToolPolicy
    executor: ToolExecutor
    recorder: TurnRecorder
    first_step: NextStep


class TurnOpener:
    """Opens the turn of one request, again with less history where its prompt was too long."""

    def __init__(
        self,
        dependencies: TurnDependencies,
        request: TurnRequest,
        handle: TurnHandle,
        channel: Channel,
        router: EndpointRouter,
    ) -> None:
        self._dependencies = dependencies
        self._request = request
        self._handle = handle
        self._channel = channel
        self._router = router

    async def open(self, budget: int) -> OpenTurn | None:
        """Open the turn, with a prompt of so many tokens, or resume it; None if it had ended already."""
        dependencies = self._dependencies
        preflight_result: PreflightResult | None = None
        while True:
            now = time.time()
            request = self._request
            async with dependencies.database.read_transaction() as tx:
                plan = await turn_plan.plan_turn(
                    tx, dependencies.config, request, preflight_result, budget=budget, now=now
                )
            if isinstance(plan, PreflightRequest):
                preflight_result = await self._ask_endpoint(plan)
                continue
            self._request = request.mark_begun()  # also where this process could not go on with it
            # A resumed turn may be at a tool that must not run twice.
            async with dependencies.database.file_transaction(
                request.attachment_bytes, durable=request.may_have_begun
            ) as tx:
                turn = await prepare_turn(tx, dependencies.config, plan, now=now)
                if turn is not None:
                    return await self._open_prepared(tx, turn, now)

    async def _ask_endpoint(self, preflight_request: PreflightRequest) -> PreflightResult:
        texts = [prompt.strip_files(text) for text in self._request.texts]
        with self._handle.timer.measure("preflight"):
            return await self._dependencies.preflight.run(preflight_request, texts)

    async def _open_prepared(self, tx: Transaction, turn: PreparedTurn, now: float) -> OpenTurn | None:
        if turn.is_over:
            await inbox.mark_done(tx, [item.id for item in turn.request.items], now=now)
            return None
        if turn.is_stopped:
            self._handle.stop()
        if turn.is_resumed:
            await self._router.resume(tx, turn.id)
        else:
            await self._router.start(tx, turn.id, deep=turn.request.deep, thinks=turn.plan.thinking)
        results = await load_results(tx, turn, now=now)
        loop = TurnLoop(turn, self._build_limits(turn), self._handle, self._router, self._channel.translate)
        event, turn_messages = loop.replay(turn.replies, results)
        policy = await self._build_policy(tx, turn)
        executor = await self._build_executor(tx, turn, policy, results)
        recorder = TurnRecorder(
            RecorderDependencies(self._dependencies.database, self._channel, self._handle.timer),
            turn,
            self._router,
            turn_messages,
            summaries_enabled=self._dependencies.config.summaries_enabled,
            speech_enabled=self._dependencies.config.speech_enabled,
        )
        await recorder.store_start(tx, now=now)
        first_step: NextStep
        if isinstance(event, TurnResult):
            answer = await recorder.render_answer(event, executor.find_links(), executor.allowance.count)
            await recorder.write_end(tx, now, answer)
            first_step = event
        else:
            reason = _find_repeat_reason(turn, event)
            first_step = await store_next_step(executor, recorder, event, tx, now, repeat_reason=reason)
        return OpenTurn(turn, loop, policy, executor, recorder, first_step)

    def _build_limits(self, turn: PreparedTurn) -> TurnLimits:
        config = self._dependencies.config
        return TurnLimits(
            max_steps=config.max_steps,
            max_tokens=config.max_tokens,
            may_think=turn.plan.may_think,
            can_continue=self._router.route.can_continue,
            token_budget=max(0, int(SAFE_SHARE * turn.plan.tokens_left) - FRAMING_TOKENS),
            image_tokens=turn.plan.image_tokens,
            replayed_steps=len(turn.replies),
        )

    async def _build_policy(self, tx: Transaction, turn: PreparedTurn) -> ToolPolicy:
        policy_dependencies = self._dependencies.policy_dependencies
        request = turn.request
        questions = {}
        if turn.is_resumed:
            questions = await approvals.load_of_turn(tx, turn.id)
        words = prompt.strip_data("\n".join(request.texts))
        requester = Requester(
            turn.id,
            request.person,
            request.name,
            request.lane,
            words,
            reply_to=request.reply_to if request.lane.is_group else None,
            can_answer=not request.lane.is_guest and request.priority == PEOPLE_PRIORITY,
        )
        taint_state = taint.build_taint_state(
            turn.plan.prompt,
            turn.plan.user_messages,
            turn.toolbox.tools,
            continues_answer=request.is_continuation,
            is_summary_outside=turn.conversation.is_summary_outside,
        )
        return ToolPolicy(policy_dependencies, requester, turn.toolbox, taint_state, questions)

    async def _build_executor(
        self, tx: Transaction, turn: PreparedTurn, policy: ToolPolicy, results: ResultsByCall
    ) -> ToolExecutor:
        context_for = partial(self._dependencies.context_for, turn.request)
        executor = ToolExecutor(self._dependencies.database, turn, policy, context_for, results)
        if turn.request.lane.is_guest:
            executor.refuse_files()
        if turn.is_resumed:
            executor.allowance.count_stored(await outbox_files.load_waiting(tx, turn.id))
        return executor


async def store_next_step(
    executor: ToolExecutor,
    recorder: TurnRecorder,
    event: CallModel | RunTools,
    tx: Transaction,
    now: float,
    *,
    repeat_reason: RepeatReason | None = None,
) -> NextStep:
    """Store what the loop asks for; `repeat_reason`: why an earlier attempt's call is made again."""
    if isinstance(event, RunTools):
        return NextToolCalls(event, await executor.register_calls(tx, event, now=now))
    return NextModelCall(event, await recorder.open_call(tx, event, repeat_reason=repeat_reason, now=now))


def _find_repeat_reason(turn: PreparedTurn, event: CallModel | RunTools) -> RepeatReason | None:
    """Why the model is called again, if an earlier attempt had called it at this step."""
    interrupted = turn.interrupted_call
    if interrupted is None or interrupted.step != event.step:
        return None
    return interrupted.repeat_reason
