"""The loop of one turn: restored from what is stored, and ended once the turn is over.

It ends instead of calling the model again. `replay` is pure.
"""

from collections import deque
from collections.abc import Generator, Iterable, Mapping

from bot.agent import loop
from bot.agent.events import (
    CallModel,
    InterruptionReason,
    LoopEvent,
    LoopInput,
    RunTools,
    TurnInterruption,
    TurnLimits,
)
from bot.domain import Message, Reply, ToolResult
from bot.translations.translator import Translator
from bot.turns.endpoint_router import EndpointRouter
from bot.turns.handle import TurnHandle
from bot.turns.prepared_turn import PreparedTurn
from bot.turns.tool_policy import ResultsByCall


class TurnLoop:
    """The pure loop, run for a turn whose time may be up, which may be stopped, or whose seat others need.

    `router` says whether an answer may be continued where the turn is.
    """

    def __init__(
        self,
        turn: PreparedTurn,
        limits: TurnLimits,
        handle: TurnHandle,
        router: EndpointRouter,
        translate: Translator,
    ) -> None:
        plan = turn.plan
        self._events: Generator[LoopEvent, LoopInput, None] = loop.run_turn(
            plan.prompt, turn.toolbox.tools, limits, plan.thinking, translate
        )
        self._handle = handle
        self._router = router
        self._shown_reply: Reply | None = None  # what the chat showed before a restart
        if turn.interrupted_call is not None:
            self._shown_reply = turn.interrupted_call.reply

    def replay(
        self, replies: Iterable[Reply], results: ResultsByCall
    ) -> tuple[LoopEvent, tuple[Message, ...]]:
        """The first event that has no answer yet, and all messages up to it."""
        return self._end_if_over(*replay(self._events, replies, results))

    def send(self, loop_input: LoopInput) -> tuple[LoopEvent, tuple[Message, ...]]:
        """The event that follows from a reply or from results, and the messages up to it."""
        if isinstance(loop_input, TurnInterruption):
            loop_input = self._build_interruption(loop_input.reason, loop_input.partial)
        self._shown_reply = None
        event = self._events.send(loop_input)
        return self._end_if_over(event, event.new_messages)

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
        event = self._events.send(self._build_interruption(reason))
        return event, (*new_messages, *event.new_messages)

    def _has_seat_to_continue(self) -> bool:
        route = self._router.route
        return route.can_continue and route.caller.has_free_seat

    def _build_interruption(self, reason: InterruptionReason, reply: Reply | None = None) -> TurnInterruption:
        """The end of the turn. What was shown before a restart stays, unless the reply has text."""
        return TurnInterruption(reason, reply if reply is not None and reply.text else self._shown_reply)


def replay(
    loop: Generator[LoopEvent, LoopInput, None],
    replies: Iterable[Reply],
    results: Mapping[tuple[int, str], ToolResult],
) -> tuple[LoopEvent, tuple[Message, ...]]:
    """The first event that is not answered yet, and all messages up to and including it.

    `results` are those known, by step and call id; a step that lacks one of its results is returned as a
    whole.
    """
    unused_replies = deque(replies)
    event = next(loop)
    messages = [*event.new_messages]
    while True:
        answer = _take_stored_answer(event, unused_replies, results)
        if answer is None:
            return event, tuple(messages)
        event = loop.send(answer)
        messages.extend(event.new_messages)


def _take_stored_answer(
    event: LoopEvent, unused_replies: deque[Reply], results: Mapping[tuple[int, str], ToolResult]
) -> LoopInput | None:
    """What was answered to an event; None if nothing was, or not all of it."""
    match event:
        case CallModel() if unused_replies:
            return unused_replies.popleft()
        case RunTools():
            keys = [(event.step, checked.call.id) for checked in event.calls]
            if all(key in results for key in keys):
                return tuple(results[key] for key in keys)
    return None
