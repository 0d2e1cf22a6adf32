"""Stores what happens in a turn: messages, model calls, tool calls to make, and how it ended.

What an event produced is one transaction, closed call included, retried until the database can be written.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from bot.agent import history, notices
from bot.agent.events import CallModel, LoopEvent, RunTools, TurnResult
from bot.db.conversations import calls, conversations, turns
from bot.db.conversations.calls import CallCompletion, NewCall, RepeatReason
from bot.db.conversations.turns import TurnEnd
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.queues import inbox, outbox, parked_items
from bot.db.queues.parked_items import WaitTimes
from bot.db.retry import retry_until_available
from bot.db.transaction import Transaction
from bot.domain import AnswerLinks, Button, Channel, EndpointRole, FirstSend, Message, OutgoingFile, Part
from bot.translations.translator import translatable
from bot.turns import summaries
from bot.turns.answer_messages import AnswerMessages, store_messages
from bot.turns.approval_questions import PendingCall
from bot.turns.endpoint_router import EndpointRouter
from bot.turns.failure_texts import describe_failure
from bot.turns.model_caller import CallResult
from bot.turns.start import PreparedTurn
from bot.turns.tool_executor import ToolExecutor
from bot.turns.turn_request import TurnRequest
from bot.usage.intervals import Span, serialize_spans, to_exclusive_spans
from bot.usage.timers import TurnTimer

CUT_NOTICE = translatable(
    "Our conversation is longer than I can read at once. I no longer see the beginning, but I can look "
    "things up. /new starts fresh."
)
CONTINUE_PREFIX = "more:"
"""The callback data of a Continue button: this, and the id of the turn whose answer is to continue."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RenderedText:
    """What ends a turn, as it is sent: messages, and files of what is longer than one of them."""

    parts: tuple[Part, ...] = ()
    files: tuple[OutgoingFile, ...] = ()


TransactionStep = Callable[[Transaction, float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RecorderDependencies:
    """Where a turn is stored, the channel that cuts its answer into parts, and the timer of its seconds."""

    database: Database
    channel: Channel
    timer: TurnTimer

    def format_spans(self, extra_spans: Iterable[Span] = ()) -> str:
        """What was measured of the turn up to now, to be stored in the transaction that runs.

        `extra_spans` were measured elsewhere.
        """
        now = time.time()  # a heartbeat that was stored while the transaction waited is older
        return serialize_spans(to_exclusive_spans(0.0, now, [*self.timer.spans(now), *extra_spans]))


class TurnRecorder:
    """Stores one turn.

    `call`: the row of the model call under way.
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
        self._dependencies = dependencies
        self._request = request
        self._router = router
        self._summaries_enabled = summaries_enabled
        self._translate = dependencies.channel.translate
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
        """Store how the turn begins or resumes.

        `position` is the event that comes next, and all messages of the turn before it, some of which may be
        stored already.
        """
        event, turn_messages = position
        self._turn = turn
        self._executor = executor
        self._messages = [*turn_messages]
        repeat_reason = None
        interrupted = turn.interrupted_call
        if interrupted is not None and isinstance(event, CallModel) and event.step == interrupted.step:
            repeat_reason = interrupted.repeat_reason
        unstored = await self._select_unstored(tx, turn_messages)
        rendered = await self._render_answer(event)
        await self._store_event(tx, event, unstored, now=now, rendered=rendered, repeat_reason=repeat_reason)

    async def store_event(
        self, event: LoopEvent, new_messages: tuple[Message, ...], closing: CallCompletion | None = None
    ) -> None:
        """Close the model call, if there was one, and store the new messages and what the event asks for.

        A tool may not be allowed to run twice, so its call is on the disk before it runs.
        """
        self._messages.extend(new_messages)
        if isinstance(event, TurnResult):
            await self._commit_end(closing, event.ending, new_messages, await self._render_answer(event))
        else:
            await self.commit(
                closing,
                lambda tx, now: self._store_event(tx, event, new_messages, now=now),
                durable=isinstance(event, RunTools),
            )

    async def park(self, step: int, pending_calls: Sequence[PendingCall]) -> bool:
        """Park the turn until its calls are approved: the lane is free, and what it shows is taken back.

        False: it was stopped meanwhile, and nobody is asked.
        """
        items = [item.id for item in self._request.items]
        is_parked = False

        async def store_parked(tx: Transaction, now: float) -> None:
            nonlocal is_parked
            if await parked_items.is_any_stopped(tx, items):
                return
            is_parked = True
            await self._executor.policy.request_approvals(tx, step, pending_calls, now=now)
            lane = await groups.find_lane(tx, self._request.lane)
            await outbox.add(tx, item=items[0], lane=lane, parts=(), now=now)
            earlier_wait = _build_wait_spans(await parked_items.load_wait_times(tx, items[0]))
            spans = self._dependencies.format_spans(earlier_wait)
            await parked_items.park(tx, self._turn.id, items, spans=spans, now=now)

        await self.commit(None, store_parked)
        return is_parked

    async def store_failover(
        self, target_role: EndpointRole, failed_closing: CallCompletion, event: CallModel
    ) -> None:
        """Close the failed call, switch to the other endpoint, and open the same call there."""

        async def switch(tx: Transaction, now: float) -> None:
            await self._router.switch_to(tx, self._turn.id, target_role)
            self.call = await calls.open_call(
                tx, self.build_new_call(event, retry_reason=self._router.role), now=now
            )

        await self.commit(failed_closing, switch)

    async def store_failure(self, call_result: CallResult) -> None:
        """End the turn without an answer; the user reads why."""
        failure = describe_failure(call_result.result, self._request, self._translate)
        message = Message("assistant", failure.text)
        self._messages.append(message)
        parts = await self._render(failure.shown_text)
        await self._commit_end(call_result.closing, failure.ending, (message,), _RenderedText(parts))

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

    async def _commit_end(
        self,
        closing: CallCompletion | None,
        ending: str,
        new_messages: tuple[Message, ...],
        rendered: _RenderedText,
    ) -> None:
        """Close the last call, and store how the turn ended and what is to be sent of it.

        What the sender has taken has to be on the disk; else its taking syncs this, too.
        """

        async def write() -> None:
            now = time.time()
            with self._dependencies.channel.reserve_send() as first_send:
                durable = first_send is not None
                async with self._dependencies.database.transaction(durable=durable) as tx:
                    if closing is not None:
                        await calls.close_call(tx, closing, now=now)
                    await turns.append_messages(tx, self._turn.id, new_messages, now=now)
                    await self._store_end(tx, ending, rendered, first_send, now=now)

        await retry_until_available(write)
        first_item = self._request.items[0]
        fields = {
            "action": "turn.ended",
            "turn": self._turn.id,
            "chat": self._request.lane.chat,
            "seconds": round(time.time() - first_item.received_at, 2),
            "ending": ending,
        }
        log.info("a turn has ended", extra=fields)

    def find_links(self) -> AnswerLinks:
        """Which links of the answer are real, by what is stored of the turn up to now."""
        admin_texts = [message.text for message in self._turn.prompt if message.role == "system"]
        return self._executor.find_links(admin_texts, self._turn.earlier_results)

    def note_reply(self, event: CallModel, call_result: CallResult) -> None:
        """Remember which model replied, and what the server counted for the turn's first prompt."""
        reply = call_result.closing.reply
        if reply is None:
            return
        self._model_name = reply.model or self._model_name
        if event.step == 1 and self._router.role == "main":
            self._prompt_tokens = reply.usage.prompt_tokens or self._prompt_tokens

    def build_new_call(self, event: CallModel, *, retry_reason: str | None) -> NewCall:
        """The ledger's row of a call about to be made."""
        endpoint = self._router.route.endpoint
        system, *conversation = self._router.prepare_messages(event.messages)
        notes_chars = self._turn.notes_chars if self._router.is_allowed("notes") else 0
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
            chars_notes=notes_chars,
            chars_history=max(0, sum(len(message.text) for message in conversation) - notes_chars),
            images=sum(len(message.images) for message in conversation),
        )

    async def _select_unstored(
        self, tx: Transaction, turn_messages: tuple[Message, ...]
    ) -> tuple[Message, ...]:
        """The messages that are not stored yet.

        All of them, if this start's tools or limits lead the turn another way: what was stored is deleted.
        """
        stored = self._turn.stored_messages
        if turn_messages[: len(stored)] == stored:
            return turn_messages[len(stored) :]
        await turns.delete_agent_messages(tx, self._turn.id)
        return turn_messages

    async def _store_event(
        self,
        tx: Transaction,
        event: LoopEvent,
        new_messages: tuple[Message, ...],
        *,
        now: float,
        rendered: _RenderedText = _RenderedText(),
        repeat_reason: RepeatReason | None = None,
    ) -> None:
        await turns.append_messages(tx, self._turn.id, new_messages, now=now)
        match event:
            case CallModel():
                await self._router.recheck_consent(tx, self._turn.id)
                retry_reason = repeat_reason or event.retry_reason
                self.call = await calls.open_call(
                    tx, self.build_new_call(event, retry_reason=retry_reason), now=now
                )
            case RunTools():
                await self._executor.register_calls(tx, event, now=now)
            case TurnResult():
                await self._store_end(tx, event.ending, rendered, None, now=now)

    async def _render_answer(self, event: LoopEvent) -> _RenderedText:
        """The answer with which the event ends the turn; nothing if it goes on.

        A turn whose message was edited before it had said anything has none either. Only a whole answer has
        files.
        """
        if not isinstance(event, TurnResult) or (event.ending == "edited" and event.text == event.note):
            return _RenderedText()
        parts = await self._render(
            self._sign_text(event), can_continue=event.has_more, links=self.find_links()
        )
        if event.ending != "answered" or event.has_more:
            return _RenderedText(parts)
        return _RenderedText(parts, await self._dependencies.channel.build_files(event.text))

    async def _render(
        self, text: str, *, can_continue: bool = False, links: AnswerLinks | None = None
    ) -> tuple[Part, ...]:
        buttons: tuple[tuple[Button, ...], ...] = ()
        if can_continue:
            buttons = ((Button(self._translate("Continue"), f"{CONTINUE_PREFIX}{self._turn.id}"),),)
        request = self._request
        return await self._dependencies.channel.render_parts(
            self._turn.preface + text, silent=request.silent, buttons=buttons, links=links
        )

    def _sign_text(self, event: TurnResult) -> str:
        """The turn's text; what the model wrote is signed where it did not come from the main endpoint."""
        if event.note is not None and event.text.startswith(event.note):
            return event.text  # written by the gateway
        signature = self._router.format_signature(self._translate, self._model_name, deep=self._request.deep)
        if not signature:
            return event.text
        return f"{notices.close_code_block(event.text)}\n\n{signature}"

    async def _store_end(
        self,
        tx: Transaction,
        ending: str,
        rendered: _RenderedText,
        first_send: FirstSend | None,
        *,
        now: float,
    ) -> None:
        request = self._request
        lane = await groups.find_lane(tx, request.lane)
        await turns.end(tx, self._turn.id, self._build_end(ending), now=now)
        parts = rendered.parts
        if self._turn.needs_cut_notice:
            parts = (*parts, Part(self._translate(CUT_NOTICE), silent=True))
            await conversations.mark_cut_told(tx, lane)
        answer = AnswerMessages(
            turn=self._turn.id,
            item=request.items[0].id,
            lane=lane,
            reply_to=request.reply_to,
            translate=self._translate,
            parts=parts,
            block_files=rendered.files,
            tool_file_count=0 if ending == "edited" else self._executor.allowance.count,
        )
        await store_messages(tx, answer, first_send, now=now)
        items = [item.id for item in request.items]
        await inbox.mark_done(tx, items, spans=self._dependencies.format_spans(), now=now)
        if self._summaries_enabled and not self._turn.is_conversation_over and self._is_nearly_full():
            await summaries.enqueue_summary(tx, lane, now=now)

    def _is_nearly_full(self) -> bool:
        used = self._turn.prompt_tokens + history.estimate_tokens(self._messages)
        available = self._turn.prompt_tokens + self._turn.tokens_left
        return used >= summaries.NEARLY_FULL_SHARE * available

    def _build_end(self, ending: str) -> TurnEnd:
        messages = [*self._turn.user_messages, *self._messages]
        return TurnEnd(
            ending=ending,
            prompt=self._turn.prompt_tokens,
            size=history.estimate_tokens(messages),
            short=history.estimate_tokens(history.shorten_turn(messages)),
            counted=self._prompt_tokens,
            used=tuple(sorted({call.name for message in self._messages for call in message.calls})),
        )


def _build_wait_spans(wait: WaitTimes | None) -> tuple[Span, ...]:
    """An earlier wait for an approval as it is measured: for the person first, then for the lane."""
    if wait is None:
        return ()
    return (
        Span("approval wait", wait.asked_at, wait.agreed_at),
        Span("lane wait", wait.agreed_at, wait.retaken_at),
    )
