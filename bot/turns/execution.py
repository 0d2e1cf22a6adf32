"""Runs turns, at most one a lane: asks the model, runs the tools it calls, and stores what came of either.

What an event produced is stored before the next is acted on: a turn continues from there after a crash.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot import logs
from bot.agent.events import CallModel, LoopInput, RunTools, TurnInterruption, TurnResult
from bot.db.conversations.calls import CallCompletion
from bot.db.transaction import Transaction
from bot.domain import Channel, ModelRequest
from bot.errors import CallFailed, PromptTooLong, StoreUnavailable
from bot.translations.translator import translatable
from bot.turns.endpoint_router import EndpointRouter
from bot.turns.handle import RunningTurns, TurnHandle
from bot.turns.model_caller import CallAttempt, CallResult
from bot.turns.open_turn import (
    NextModelCall,
    NextStep,
    OpenTurn,
    TurnDependencies,
    TurnOpener,
    store_next_step,
)
from bot.turns.tool_executor import PendingApprovals
from bot.turns.turn_request import TurnRequest

MAX_PROMPT_ATTEMPTS = 3  # a prompt too long for the endpoint is built again, each time with half the budget
REVISING = translatable("I'm answering your edited message.")

RequestCompleter = Callable[[TurnHandle], Awaitable[TurnRequest | None]]


class TurnRunner:
    """Runs turns; each can be stopped by `running_turns` meanwhile."""

    def __init__(self, dependencies: TurnDependencies, running_turns: RunningTurns) -> None:
        self._dependencies = dependencies
        self._running_turns = running_turns

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        """Answer a request, or continue answering it; its items are done when this returns.

        `complete` adds what has to be fetched first; it returns None if there is nothing to answer, which it
        has already said in the chat.
        """
        channel = self._dependencies.channel_for(
            request.lane,
            request.items[0].id,
            silent=request.silent,
            reply_to=request.reply_to,
            translate=request.translate,
        )
        timer = self._dependencies.timers.open(request.items[0], request.lane)
        handle = TurnHandle(request.items[-1].id, self._dependencies.turn_seconds, timer)
        self._running_turns.add(request.lane, handle)
        try:
            channel.begin("↻ " + request.translate(REVISING) if request.revises_answer else None)
            full_request = request if complete is None else await complete(handle)
            if full_request is None:
                self._dependencies.timers.forget(timer.item)
            else:
                is_parked = await execute_turn(self._dependencies, full_request, handle, channel)
                if is_parked:  # how long it waits is measured by its rows
                    self._dependencies.timers.forget(timer.item)
            timer.has_ended = True
        except StoreUnavailable:
            raise  # it is run again
        except asyncio.CancelledError:
            timer.wait_in_lane()
            raise
        except Exception:
            timer.has_ended = True  # it becomes a dead letter
            raise
        finally:
            self._running_turns.remove(request.lane)
            channel.end()


async def execute_turn(
    dependencies: TurnDependencies, request: TurnRequest, handle: TurnHandle, channel: Channel
) -> bool:
    """Execute the turn of a request; True if it is parked, and runs on once an approval is answered.

    A prompt too long for the endpoint is built again with less history.
    """
    with handle.timer.measure("starting"):
        await dependencies.preflight.load_client()
    router = EndpointRouter(dependencies.routes, request.lane)
    opener = TurnOpener(dependencies, request, handle, channel, router)
    for attempt in range(MAX_PROMPT_ATTEMPTS):
        turn = await opener.open(dependencies.config.prompt_budget >> attempt)
        if turn is None:
            return False
        execution = TurnExecution(turn, router, handle, channel)
        failed_call = await execution.run()
        if failed_call is None:
            return execution.is_parked
        is_last = attempt == MAX_PROMPT_ATTEMPTS - 1
        if is_last or not isinstance(failed_call.result, PromptTooLong):
            await turn.recorder.store_failure(failed_call, turn.executor.allowance.count)
            return False
        await turn.recorder.close_call(failed_call.closing)
    return False


class TurnExecution:
    """An open turn being executed; `is_parked`: it waits for an approval, and ends here for now."""

    def __init__(self, turn: OpenTurn, router: EndpointRouter, handle: TurnHandle, channel: Channel) -> None:
        self.is_parked = False
        self._turn = turn
        self._router = router
        self._handle = handle
        self._channel = channel

    async def run(self) -> CallResult | None:
        """Run until the turn has ended or is parked; a failed call is returned."""
        step = self._turn.first_step
        while not isinstance(step, TurnResult):
            if isinstance(step, NextModelCall):
                with logs.bind(turn=self._turn.facts.id):
                    call_result = await self._ask(step)
                if isinstance(call_result.result, CallFailed):
                    return call_result
                step = await self._store(call_result.result, call_result.closing)
                continue
            results = await self._turn.executor.run(step.event, step.decisions, self._handle, self._channel)
            if not isinstance(results, PendingApprovals):
                step = await self._store(results)
                continue
            self.is_parked = await self._park(step.event, results)
            if self.is_parked:
                return None
            self._handle.stop()  # it was stopped meanwhile: nobody is asked, its calls are settled next
        return None

    async def _ask(self, step: NextModelCall) -> CallResult:
        """Call the model, at the other endpoint where the turn moves there."""
        event = step.event
        self._channel.set_links(self._turn.executor.find_links())
        if event.visible_text:
            self._channel.show(event.visible_text)
        model_request = self._build_model_request(event)
        call_result = await self._call_current_endpoint(model_request, step)
        while (target_role := self._router.take_failover()) is not None:
            call = await self._turn.recorder.store_failover(target_role, call_result.closing, event)
            call_result = await self._call_current_endpoint(model_request, NextModelCall(event, call))
        if event.is_optional and isinstance(call_result.result, CallFailed):
            call_result = replace(call_result, result=TurnInterruption("failed", call_result.result.partial))
        self._turn.recorder.note_reply(event, call_result)
        return call_result

    def _build_model_request(self, event: CallModel) -> ModelRequest:
        facts = self._turn.facts
        lane = facts.request.lane.key
        return ModelRequest(
            messages=event.messages,
            tools=facts.toolbox.definitions,
            tool_choice=event.tool_choice,
            thinking=event.thinking,
            max_tokens=event.max_tokens,
            session=f"{lane}/{facts.conversation.number}",
            lane=lane,
            priority=facts.request.priority,
            max_thinking_tokens=event.max_thinking_tokens,
            continue_final_message=event.continue_final_message,
        )

    async def _call_current_endpoint(self, model_request: ModelRequest, step: NextModelCall) -> CallResult:
        event = step.event
        attempt = CallAttempt(
            self._router.prepare_request(model_request),
            step.call.row,
            step.call.new_call,
            optional=event.is_optional,
        )
        failover_policy = None if event.is_optional else self._router.failover_policy
        return await self._router.route.caller.call(attempt, self._handle, self._channel, failover_policy)

    async def _park(self, event: RunTools, pending: PendingApprovals) -> bool:
        """Put the questions and park the turn; False if it was stopped meanwhile."""

        async def ask(tx: Transaction, now: float) -> None:
            await self._turn.policy.request_approvals(tx, event.step, pending.pending_calls, now=now)

        return await self._turn.recorder.park(ask)

    async def _store(self, loop_input: LoopInput, closing: CallCompletion | None = None) -> NextStep:
        """Send a reply or results to the loop, and store them with what follows from them.

        A tool may not be allowed to run twice, so its call is on the disk before it runs.
        """
        recorder = self._turn.recorder
        executor = self._turn.executor
        event, new_messages = self._turn.loop.send(loop_input)
        if isinstance(event, TurnResult):
            answer = await recorder.render_answer(event, executor.find_links(), executor.allowance.count)
            await recorder.store_end(new_messages, closing, answer)
            return event
        store = partial(store_next_step, self._turn.executor, recorder, event)
        step = await recorder.store_step(new_messages, closing, store, durable=isinstance(event, RunTools))
        if isinstance(event, RunTools):
            self._channel.show_status(None)  # the user no longer waits for what it says
        return step
