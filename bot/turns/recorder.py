"""Stores what happens in a turn: messages, model calls, tool calls to make, and how it ended.

What an event produced is one transaction, closed call included, retried until the database can be written.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from bot.agent import history, notices
from bot.agent.events import CallModel, TurnResult
from bot.db.conversations import calls, chat_settings, conversations, turns
from bot.db.conversations.calls import CallCompletion, NewCall, RepeatReason
from bot.db.conversations.turns import TurnEnd
from bot.db.engine import Database
from bot.db.queues import inbox, outbox, parked_items
from bot.db.queues.item_bodies import SpeechOrder
from bot.db.queues.parked_items import WaitTimes
from bot.db.retry import retry_until_available
from bot.db.transaction import Transaction
from bot.domain import AnswerLinks, Button, Channel, EndpointRole, FirstSend, Message, OutgoingFile, Part
from bot.translations.translator import translatable
from bot.turns import summaries
from bot.turns.answer_messages import TurnAnswer, store_messages
from bot.turns.endpoint_router import EndpointRouter
from bot.turns.failure_texts import describe_failure
from bot.turns.model_caller import CallResult
from bot.turns.prepared_turn import PreparedTurn
from bot.usage.intervals import Span, serialize_spans, to_exclusive_spans
from bot.usage.timers import TurnTimer

CUT_NOTICE = translatable(
    "Our conversation is longer than I can read at once. I no longer see the beginning, but I can look "
    "things up. /new starts fresh."
)
SEARCH_NOTICE = translatable(
    "New: I can look up what we talked about before /new. If you don't want that, I can forget this chat."
)
CONTINUE_PREFIX = "more:"
"""The callback data of a Continue button: this, and the id of the turn whose answer is to continue."""
KEEP_PREFIX = "keep:"
"""The callback data of a Keep button: this, and the id of the turn whose documents are to be kept."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """A model call about to be made: its row in the ledger, and what stands there."""

    row: int
    new_call: NewCall


T = TypeVar("T")
TransactionStep = Callable[[Transaction, float], Awaitable[T]]


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
    """Stores one turn; `turn_messages` are all its messages up to now but the user's."""

    def __init__(
        self,
        dependencies: RecorderDependencies,
        turn: PreparedTurn,
        router: EndpointRouter,
        turn_messages: tuple[Message, ...],
        *,
        summaries_enabled: bool,
        speech_enabled: bool,
    ) -> None:
        self._dependencies = dependencies
        self._turn = turn
        self._request = turn.request
        self._router = router
        self._summaries_enabled = summaries_enabled
        self._speech_enabled = speech_enabled
        self._translate = dependencies.channel.translate
        self._messages = [*turn_messages]
        self._prompt_tokens: int | None = None
        self._model_name: str | None = None

    async def store_start(self, tx: Transaction, *, now: float) -> None:
        """Store the turn's messages up to now, some of which an earlier attempt may have stored already.

        All of them, if this start's tools or limits lead the turn another way: what was stored is deleted.
        """
        stored = self._turn.stored_messages
        unstored = tuple(self._messages[len(stored) :])
        if tuple(self._messages[: len(stored)]) != stored:
            await turns.delete_agent_messages(tx, self._turn.id)
            unstored = tuple(self._messages)
        await turns.append_messages(tx, self._turn.id, unstored, now=now)

    async def open_call(
        self, tx: Transaction, event: CallModel, *, repeat_reason: RepeatReason | None = None, now: float
    ) -> LedgerCall:
        """Store that the model is about to be called."""
        await self._router.recheck_consent(tx, self._turn.id)
        return await self._open_call(tx, event, repeat_reason or event.retry_reason, now=now)

    async def store_step(
        self,
        new_messages: tuple[Message, ...],
        closing: CallCompletion | None,
        follow_up: TransactionStep[T],
        *,
        durable: bool = True,
    ) -> T:
        """Close the model call, if there was one, and store the new messages with what follows from them.

        Returns what `follow_up` returns, once the database can be written.
        """
        self._messages.extend(new_messages)
        return await retry_until_available(
            lambda: self._try_to_store(new_messages, closing, follow_up, durable=durable)
        )

    async def _try_to_store(
        self,
        new_messages: tuple[Message, ...],
        closing: CallCompletion | None,
        follow_up: TransactionStep[T],
        *,
        durable: bool,
    ) -> T:
        now = time.time()
        async with self._dependencies.database.transaction(durable=durable) as tx:
            if closing is not None:
                await calls.close_call(tx, closing, now=now)
            await turns.append_messages(tx, self._turn.id, new_messages, now=now)
            return await follow_up(tx, now)

    async def park(self, ask: TransactionStep[None]) -> bool:
        """Park the turn until its calls are approved: the lane is free, and what it shows is taken back.

        `ask` puts the questions. False: it was stopped meanwhile, and nobody is asked.
        """
        items = [item.id for item in self._request.items]

        async def store_parked(tx: Transaction, now: float) -> bool:
            if await parked_items.is_any_stopped(tx, items):
                return False
            await ask(tx, now)
            await outbox.add(tx, item=items[0], lane=self._request.lane, parts=(), now=now)
            earlier_wait = _build_wait_spans(await parked_items.load_wait_times(tx, items[0]))
            spans = self._dependencies.format_spans(earlier_wait)
            await parked_items.park(tx, self._turn.id, items, spans=spans, now=now)
            return True

        return await self.store_step((), None, store_parked)

    async def store_failover(
        self, target_role: EndpointRole, failed_closing: CallCompletion, event: CallModel
    ) -> LedgerCall:
        """Close the failed call, and open the same one at the other endpoint."""

        async def switch(tx: Transaction, now: float) -> LedgerCall:
            await self._router.switch_to(tx, self._turn.id, target_role)
            return await self._open_call(tx, event, self._router.role, now=now)

        return await self.store_step((), failed_closing, switch)

    async def close_call(self, closing: CallCompletion) -> None:
        """Store how a call ended from which nothing follows."""

        async def add_nothing(_tx: Transaction, _now: float) -> None:
            """Store nothing else."""

        await self.store_step((), closing, add_nothing)

    async def store_failure(self, call_result: CallResult, tool_file_count: int) -> None:
        """End the turn without an answer; the user reads why."""
        failure = describe_failure(call_result.result, self._request, self._translate)
        parts = await self._render(failure.shown_text)
        answer = TurnAnswer(failure.ending, parts, tool_file_count=tool_file_count)
        await self.store_end((Message("assistant", failure.text),), call_result.closing, answer)

    async def store_end(
        self, new_messages: tuple[Message, ...], closing: CallCompletion | None, answer: TurnAnswer
    ) -> None:
        """Close the last call, and store how the turn ended and what is to be sent of it.

        What the sender has taken has to be on the disk; else its taking syncs this, too.
        """
        self._messages.extend(new_messages)

        async def write() -> None:
            with self._dependencies.channel.reserve_send() as first_send:
                end = partial(self.write_end, answer=answer, first_send=first_send)
                await self._try_to_store(new_messages, closing, end, durable=first_send is not None)

        await retry_until_available(write)
        first_item = self._request.items[0]
        fields = {
            "action": "turn.ended",
            "turn": self._turn.id,
            "chat": self._request.lane.chat,
            "seconds": round(time.time() - first_item.received_at, 2),
            "ending": answer.ending,
        }
        log.info("a turn has ended", extra=fields)

    def note_reply(self, event: CallModel, call_result: CallResult) -> None:
        """Remember which model replied, and what the server counted for the turn's first prompt."""
        reply = call_result.closing.reply
        if reply is None:
            return
        self._model_name = reply.model or self._model_name
        if event.step == 1 and self._router.role == "main":
            self._prompt_tokens = reply.usage.prompt_tokens or self._prompt_tokens

    async def _open_call(
        self, tx: Transaction, event: CallModel, retry_reason: str | None, *, now: float
    ) -> LedgerCall:
        endpoint = self._router.route.endpoint
        system, *conversation = self._router.prepare_messages(event.messages)
        notes_chars = 0
        if self._router.is_allowed("notes"):
            notes_chars = len(self._turn.conversation.notes or "")
        new_call = NewCall(
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
        return LedgerCall(await calls.open_call(tx, new_call, now=now), new_call)

    async def render_answer(self, event: TurnResult, links: AnswerLinks, tool_file_count: int) -> TurnAnswer:
        """The answer with which the turn ends.

        A turn whose message was edited before it had said anything has none. Only a whole answer has files.
        """
        if event.ending == "edited":
            tool_file_count = 0
            if event.text == event.note:
                return TurnAnswer(event.ending)
        is_whole = event.ending == "answered" and not event.has_more
        buttons: tuple[tuple[Button, ...], ...] = ()
        if event.has_more:
            buttons = ((Button(self._translate("Continue"), f"{CONTINUE_PREFIX}{self._turn.id}"),),)
        elif is_whole and self._turn.has_documents:
            buttons = ((Button(self._translate("Keep"), f"{KEEP_PREFIX}{self._turn.id}"),),)
        parts = await self._render(self._sign_text(event), buttons=buttons, links=links)
        block_files: tuple[OutgoingFile, ...] = ()
        if is_whole:
            block_files = await self._dependencies.channel.build_files(event.text)
        return TurnAnswer(event.ending, parts, block_files, tool_file_count, is_whole)

    async def _render(
        self,
        text: str,
        *,
        buttons: tuple[tuple[Button, ...], ...] = (),
        links: AnswerLinks | None = None,
    ) -> tuple[Part, ...]:
        request = self._request
        return await self._dependencies.channel.render_parts(
            self._turn.plan.preface + text, silent=request.silent, buttons=buttons, links=links
        )

    def _sign_text(self, event: TurnResult) -> str:
        """The turn's text; what the model wrote is signed where it did not come from the main endpoint."""
        if event.note is not None and event.text.startswith(event.note):
            return event.text  # written by the gateway
        signature = self._router.format_signature(self._translate, self._model_name, deep=self._request.deep)
        if not signature:
            return event.text
        return f"{notices.close_code_block(event.text)}\n\n{signature}"

    async def write_end(
        self, tx: Transaction, now: float, answer: TurnAnswer, first_send: FirstSend | None = None
    ) -> None:
        """Store in this transaction how the turn ends and what is to be sent of it."""
        request = self._request
        await turns.end(tx, self._turn.id, self._build_end(answer.ending), now=now)
        parts = answer.parts
        if self._turn.needs_cut_notice:
            parts = (*parts, Part(self._translate(CUT_NOTICE), silent=True))
            await conversations.mark_cut_told(tx, request.lane)
        if self._turn.needs_search_notice:
            forget = Button(self._translate("Forget this chat…"), "forget:ask")
            parts = (*parts, Part(self._translate(SEARCH_NOTICE), buttons=((forget,),), silent=True))
            await conversations.mark_search_told(tx, request.lane)
        answer = replace(answer, parts=parts)
        await store_messages(tx, self._turn.id, request, answer, first_send, now=now)
        items = [item.id for item in request.items]
        await inbox.mark_done(tx, items, spans=self._dependencies.format_spans(), now=now)
        if answer.is_whole and self._speech_enabled and not request.lane.is_guest:
            await self._enqueue_speech(tx, now=now)
        if self._summaries_enabled and not self._turn.conversation.is_over and self._is_nearly_full():
            await summaries.enqueue_summary(tx, request.lane, now=now)

    async def _enqueue_speech(self, tx: Transaction, *, now: float) -> None:
        """Have the answer read out behind its text, if its chat wants that."""
        request = self._request
        mode = await chat_settings.load_voice_mode(tx, request.lane.chat)
        if mode == "on" or (mode == "auto" and request.is_spoken):
            order = SpeechOrder(self._turn.id, request.lane, request.person, request.reply_to)
            sender = request.person
            await inbox.add(tx, kind="system", lane=None, sender=sender, body=order.serialize(), now=now)

    def _is_nearly_full(self) -> bool:
        plan = self._turn.plan
        used = plan.prompt_tokens + history.estimate_tokens(self._messages, plan.image_tokens)
        available = plan.prompt_tokens + plan.tokens_left
        return used >= summaries.NEARLY_FULL_SHARE * available

    def _build_end(self, ending: str) -> TurnEnd:
        messages = [*self._turn.plan.user_messages, *self._messages]
        return TurnEnd(
            ending=ending,
            prompt=self._turn.plan.prompt_tokens,
            size=history.estimate_tokens(messages, self._turn.plan.image_tokens),
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
