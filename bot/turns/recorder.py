"""What is written down of one turn while it is played: messages, model calls, tools wanted, and how it ended.

What an event brought is one transaction, closed call included, repeated until the database can be written.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from bot.agent import history
from bot.agent import notices as sentences
from bot.agent.events import CallModel, LoopEvent, RunTools, TurnResult
from bot.db.conversations import calls, conversations
from bot.db.conversations import turns as stored
from bot.db.conversations.calls import CallCompletion, NewCall
from bot.db.conversations.turns import TurnEnd
from bot.db.engine import Database, Transaction
from bot.db.queues import inbox, outbox
from bot.db.queues import parked_items as parking
from bot.db.queues.parked_items import WaitTimes
from bot.db.retry import retry_until_available
from bot.domain import Button, Channel, EndpointRole, Message, Part
from bot.errors import EndpointAway, PromptTooLong
from bot.turns import summaries
from bot.turns.approvals import PendingCall
from bot.turns.endpoint_router import EndpointRouter
from bot.turns.model_caller import CallResult
from bot.turns.start import PreparedTurn, TurnRequest
from bot.turns.tool_executor import ToolExecutor
from bot.usage.intervals import Span, serialize_spans, to_exclusive_spans
from bot.usage.timers import TurnTimer

CUT_NOTICE = (
    "Our conversation has become longer than what I read at once: I no longer see its beginning, but I can look it up. "
    "/context shows what I see, /new begins afresh."
)
CONTINUE_PREFIX = "more:"
"""The callback data of a Continue button is this and the turn whose answer is to go on."""

TransactionStep = Callable[[Transaction, float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RecorderDependencies:
    """Where a turn is written down: the database, how its answer is cut into parts, and what its seconds went
    into.
    """

    database: Database
    channel: Channel
    timer: TurnTimer

    def format_spans(self, extra_spans: Iterable[Span] = ()) -> str:
        """What was measured of the turn up to this moment, to be stored in the transaction that runs;
        `besides` is known from elsewhere.
        """
        now = time.time()  # a heartbeat that was stored while the transaction waited is older
        return serialize_spans(to_exclusive_spans(0.0, now, [*self.timer.spans(now), *extra_spans]))


class TurnRecorder:
    """Of one turn. `call` is the row of the model call under way; `sums`: a summary is wanted when a cut is
    near.
    """

    def __init__(
        self,
        dependencies: RecorderDependencies,
        request: TurnRequest,
        router: EndpointRouter,
        *,
        summaries_enabled: bool,
    ) -> None:
        self.call = 0
        self.needs_summary = False
        self._dependencies = dependencies
        self._request = request
        self._router = router
        self._summaries_enabled = summaries_enabled
        self._messages: list[Message] = []
        self._prompt_tokens: int | None = None
        self._model_name: str | None = None

    async def store_start(
        self,
        tx: Transaction,
        turn: PreparedTurn,
        executor: ToolExecutor,
        position: tuple[LoopEvent, tuple[Message, ...]],
        *,
        now: float,
    ) -> None:
        """Store how the turn begins or goes on, and where it `stands`: what comes next and all that was said
        in it, of which a part may be stored already.
        """
        event, said = position
        self._turn = turn
        self._executor = executor
        self._messages = [*said]
        await self._store_event(tx, event, await self._select_unstored(tx, said), now)

    async def store_event(
        self, event: LoopEvent, new_messages: tuple[Message, ...], closing: CallCompletion | None = None
    ) -> None:
        """Close the call, if there was one, and store what was said and what follows from it.

        Tools may not run twice, so that what they are to do is on the disk before they do it.
        """
        self._messages.extend(new_messages)
        durable = isinstance(event, RunTools)
        await self.commit(
            closing, lambda tx, now: self._store_event(tx, event, new_messages, now), durable=durable
        )
        self._executor.policy.notify()

    async def park(self, step: int, pending_calls: Sequence[PendingCall]) -> bool:
        """The turn waits for a person: the lane is free, and what it has shown is taken back until it goes
        on.

        False: it was stopped meanwhile, and asks nobody.
        """
        items = [item.id for item in self._request.items]
        parked = False

        async def park(tx: Transaction, now: float) -> None:
            nonlocal parked
            if await parking.is_any_stopped(tx, items):
                return
            parked = True
            await self._executor.policy.request_approvals(tx, step, pending_calls, now=now)
            await outbox.add(tx, item=items[0], lane=self._request.lane, parts=(), now=now)
            spans = self._dependencies.format_spans(
                _build_wait_spans(await parking.load_wait_times(tx, items[0]))
            )
            await parking.park(tx, self._turn.id, items, spans=spans, now=now)

        await self.commit(None, park)
        self._executor.policy.notify()
        return parked

    async def store_failover(
        self, target_role: EndpointRole, failed_closing: CallCompletion, event: CallModel
    ) -> None:
        """The same is asked at the other endpoint."""

        async def move(tx: Transaction, now: float) -> None:
            await self._router.switch_to(tx, self._turn.id, target_role)
            self.call = await calls.open_call(
                tx, self.build_new_call(event, retry_reason=self._router.role), now=now
            )

        await self.commit(failed_closing, move)

    async def store_failure(self, call_result: CallResult) -> None:
        """The turn ends without an answer; the person reads why."""
        text, ending = _describe_failure(call_result.result)
        said = Message("assistant", text)
        self._messages.append(said)

        async def fail(tx: Transaction, now: float) -> None:
            await stored.append_messages(tx, self._turn.id, (said,), now=now)
            await self._store_end(tx, text, ending, now)

        await self.commit(call_result.closing, fail)

    async def commit(
        self,
        closing: CallCompletion | None,
        follow_up: TransactionStep | None = None,
        *,
        durable: bool = True,
    ) -> None:
        """Close a call together with what follows from it, once the database can be written."""

        async def write() -> None:
            now = time.time()
            async with self._dependencies.database.transaction(durable=durable) as tx:
                if closing is not None:
                    await calls.close_call(tx, closing, now=now)
                if follow_up is not None:
                    await follow_up(tx, now)

        await retry_until_available(write)

    def note_reply(self, event: CallModel, call_result: CallResult) -> None:
        """Note what an answer tells of the turn: who wrote it, and what the server counted for its first
        prompt.
        """
        reply = call_result.closing.reply
        if reply is None:
            return
        self._model_name = reply.model or self._model_name
        if event.step == 1 and self._router.role == "main":
            self._prompt_tokens = reply.usage.prompt_tokens or self._prompt_tokens

    def build_new_call(self, event: CallModel, *, retry_reason: str | None) -> NewCall:
        """The ledger's row of a call about to be made."""
        endpoint = self._router.route.endpoint
        (system, *others) = self._router.prepare_messages(event.messages)
        notes = self._turn.notes_chars if self._router.is_allowed("notes") else 0
        return NewCall(
            turn=self._turn.id,
            step=event.step,
            purpose="turn",
            again=retry_reason,
            endpoint=endpoint.url,
            model=endpoint.model_name(),
            thinking=event.thinking and endpoint.role == "main",
            tools_offered=len(self._turn.toolbox.offered_names),
            chars_system=len(system.text),
            chars_tools=self._turn.toolbox.size_chars,
            chars_notes=notes,
            chars_history=max(0, sum(len(message.text) for message in others) - notes),
            images=sum(len(message.images) for message in others),
        )

    async def _select_unstored(
        self, tx: Transaction, turn_messages: tuple[Message, ...]
    ) -> tuple[Message, ...]:
        """What of this is not stored yet: all of it, if the tools or limits of this start lead the turn
        another way.
        """
        before = self._turn.stored_messages
        if turn_messages[: len(before)] == before:
            return turn_messages[len(before) :]
        await stored.delete_agent_messages(tx, self._turn.id)
        return turn_messages

    async def _store_event(
        self, tx: Transaction, event: LoopEvent, new_messages: tuple[Message, ...], now: float
    ) -> None:
        await stored.append_messages(tx, self._turn.id, new_messages, now=now)
        match event:
            case CallModel():
                await self._router.recheck_consent(tx, self._turn.id)
                self.call = await calls.open_call(
                    tx, self.build_new_call(event, retry_reason=event.retry_reason), now=now
                )
            case RunTools():
                await self._executor.register_calls(tx, event, now=now)
            case TurnResult():
                await self._store_end(
                    tx, self._sign_text(event), event.ending, now, can_continue=event.has_more
                )

    def _sign_text(self, event: TurnResult) -> str:
        """The text of the turn; what the model wrote of it is signed where it is not the first endpoint's."""
        is_ours = event.note is not None and event.text.startswith(event.note)
        if is_ours:
            line = ""
        else:
            line = self._router.format_signature(self._model_name, deep=self._request.deep)
        if line:
            return f"{sentences.close_code_block(event.text)}\n\n{line}"
        return event.text

    async def _store_end(
        self, tx: Transaction, text: str, ending: str, now: float, *, can_continue: bool = False
    ) -> None:
        ask = self._request
        done = self._build_done(ending)
        await stored.end(tx, self._turn.id, done, now=now)
        buttons: tuple[tuple[Button, ...], ...] = ()
        if can_continue:
            buttons = ((Button("Continue", f"{CONTINUE_PREFIX}{self._turn.id}"),),)
        parts = self._dependencies.channel.render_parts(
            ask.preface + text, silent=ask.silent, buttons=buttons
        )
        if self._turn.needs_cut_notice:
            parts = (*parts, Part(CUT_NOTICE, silent=True))
            await conversations.mark_cut_told(tx, ask.lane)
        await outbox.add(tx, item=ask.items[0].id, lane=ask.lane, parts=parts, reply_to=ask.reply_to, now=now)
        await inbox.mark_done(
            tx, [item.id for item in ask.items], spans=self._dependencies.format_spans(), now=now
        )
        self.needs_summary = (
            self._summaries_enabled
            and not self._turn.is_conversation_over
            and self._is_nearly_full()
            and await summaries.enqueue_summary(tx, ask.lane, now=now)
        )

    def _is_nearly_full(self) -> bool:
        taken = self._turn.prompt_tokens
        room = self._turn.prompt_tokens + self._turn.tokens_left
        return taken + history.estimate_tokens(self._messages) >= summaries.NEARLY_FULL_SHARE * room

    def _build_done(self, ending: str) -> TurnEnd:
        whole = [*self._turn.user_messages, *self._messages]
        return TurnEnd(
            ending=ending,
            prompt=self._turn.prompt_tokens,
            size=history.estimate_tokens(whole),
            short=history.estimate_tokens(history.shorten_turn(whole)),
            counted=self._prompt_tokens,
            used=tuple(sorted({call.name for message in self._messages for call in message.calls})),
        )


def _build_wait_spans(wait: WaitTimes | None) -> tuple[Span, ...]:
    """An earlier wait for a person as it is measured: the person, then the lane."""
    if wait is None:
        return ()
    asked = Span("approval wait", wait.asked_at, wait.agreed_at)
    return asked, Span("lane wait", wait.agreed_at, wait.retaken_at)


def _describe_failure(error: object) -> tuple[str, str]:
    """What the person reads when no answer could be had, and the turn's ending."""
    if isinstance(error, EndpointAway):
        return "The model did not answer, however often I tried. Send /retry when it is back.", "away"
    if isinstance(error, PromptTooLong):
        return (
            "This is longer than the model can read at once. Please send less of it, or begin with /new.",
            "too_long",
        )
    return (
        "The model endpoint refused my request. The admins have been told; /retry asks it again.",
        "refused",
    )
