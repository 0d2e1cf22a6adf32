"""Shows the progress of a running turn: makes the next call of its TurnProgress and notes the outcome.

A failed call is not repeated: the latest snapshot is shown when its time comes.
"""

from functools import partial

from bot.db.queues import outbox
from bot.db.queues.outbox_rows import OutboxRow
from bot.telegram.delivery.lane_calls import LaneCalls
from bot.telegram.delivery.progress import (
    DeleteMessage,
    EditMessage,
    MessageState,
    SendMessage,
    SendTyping,
    TurnProgress,
)
from bot.telegram.delivery.rate_queue import SenderStopped
from bot.telegram.outcomes import (
    DeliveryFailure,
    DeliveryOutcome,
    DeliveryRefusal,
    DeliverySuccess,
    UnknownDelivery,
)

ProgressCall = SendTyping | SendMessage | EditMessage | DeleteMessage


class ProgressSender:
    """Makes these calls for one lane, whichever turn runs there."""

    def __init__(self, calls: LaneCalls) -> None:
        self._calls = calls
        self._context = calls.context

    async def send(self, progress: TurnProgress, step: ProgressCall) -> None:
        """Make this call, if the rate limits leave capacity for it."""
        rate_queue = self._context.rate_queue
        if wait := rate_queue.try_spend_progress(self._calls.lane.paced_chat):
            progress.hold(rate_queue.now + wait)
            return
        match outcome := await self._make_call(progress, step):
            case DeliverySuccess():
                self._calls.reset_failures()
            case DeliveryRefusal("blocked" | "muted" | "migrated"):  # what is stored next says what follows
                progress.is_over = True
            case _:
                progress.hold(rate_queue.now + self._calls.record_failure(outcome))

    async def clear_status(self, progress: TurnProgress, message: MessageState) -> None:
        """Delete, in one attempt, the status line of a turn that has ended."""
        await self._calls.acquire_rate()
        await self._delete_message(progress, message)
        message.is_status = False

    async def _make_call(self, progress: TurnProgress, step: ProgressCall) -> DeliveryOutcome:
        match step:
            case SendMessage():
                return await self._send_part(progress, step)
            case EditMessage():
                return await self._edit_message(progress, step)
            case DeleteMessage(message):
                return await self._delete_message(progress, message)
            case SendTyping(text):
                return await self._send_typing(progress, text)

    async def _send_typing(self, progress: TurnProgress, text: str) -> DeliveryOutcome:
        if progress.has_earlier_message is None:
            looking = partial(outbox.has_message, item=progress.item)
            progress.has_earlier_message = await self._context.write_queue.enqueue(looking, durable=False)
            if progress.has_earlier_message and not text:
                self._context.rate_queue.refund(self._calls.lane.paced_chat)
                return DeliverySuccess()
        with self._calls.timeline.measure("Telegram"):
            outcome, is_draft = await self._context.client.send_typing(
                self._calls.target_lane, progress.item, text
            )
        draft_text = None
        if isinstance(outcome, DeliverySuccess):
            draft_text = text if is_draft else ""
        progress.record_typing(self._context.rate_queue.now, is_draft=is_draft, draft_text=draft_text)
        return outcome

    async def _send_part(self, progress: TurnProgress, step: SendMessage) -> DeliveryOutcome:
        """Send a part for the first time; after a restart it may have been sent already."""
        row = await self._context.write_queue.write(
            partial(
                outbox.open_part,
                item=progress.item,
                part=step.number,
                lane=self._calls.lane,
                body=None if step.is_status else step.part,
                now=self._context.clock(),
            )
        )
        if row.final or row.state != "sending":
            self._context.rate_queue.refund(self._calls.lane.paced_chat)
            progress.is_over |= row.final
            progress.messages.append(MessageState(row.id, row.message_id))
            return DeliverySuccess()
        reply_to = progress.reply_to if step.number == 0 else None
        send = partial(self._context.client.send_message, reply_to=reply_to)
        try:
            outcome = await self._calls.attempt(step.part, send)
        except SenderStopped:
            self._calls.release_unsent(row.id)
            raise
        self._record_first_send(row, step, outcome)
        if isinstance(outcome, DeliverySuccess):
            now = self._context.rate_queue.now
            sent = MessageState(row.id, outcome.message_id, step.part, now, step.is_status, sent_at=now)
            progress.messages.append(sent)
            progress.forget_draft()
        elif isinstance(outcome, DeliveryRefusal) or (
            isinstance(outcome, UnknownDelivery) and not step.is_status
        ):
            progress.messages.append(MessageState(row.id, None))
        return outcome

    def _record_first_send(self, row: OutboxRow, step: SendMessage, outcome: DeliveryOutcome) -> None:
        """Store the outcome of a first send."""
        enqueue = self._calls.enqueue_write
        now = self._context.clock()
        match outcome:
            case DeliverySuccess(message_id):
                self._calls.record_shown(row.id, message_id, step.part)
            case DeliveryFailure(detail):
                enqueue(partial(outbox.release, row=row.id, reason=detail))
            case UnknownDelivery() if step.is_status:
                enqueue(partial(outbox.mark_missing, row=row.id))
            case UnknownDelivery(detail):
                enqueue(partial(outbox.mark_unknown, row=row.id, reason=detail, now=now))
            case DeliveryRefusal("migrated"):
                enqueue(partial(outbox.mark_missing, row=row.id))
            case DeliveryRefusal(_, detail):
                enqueue(partial(outbox.mark_failed, row=row.id, reason=detail, body=row.body, now=now))

    async def _edit_message(self, progress: TurnProgress, step: EditMessage) -> DeliveryOutcome:
        """Edit a message; the newest one is sent again if its person has deleted it."""
        message = step.message
        assert message.message_id is not None
        message.called_at = self._context.rate_queue.now
        edit = await self._calls.bind_edit(message.message_id)
        outcome = await self._calls.attempt(step.part, edit)
        if isinstance(outcome, DeliverySuccess):
            message.part = step.part
            message.is_status = step.is_status
        if (
            isinstance(outcome, DeliveryRefusal)
            and outcome.kind == "gone"
            and message is progress.messages[-1]
        ):
            self._forget_message(progress, message)
            return DeliverySuccess()
        return outcome

    async def _delete_message(self, progress: TurnProgress, message: MessageState) -> DeliveryOutcome:
        """Delete a status line; it may be gone already, because the person has deleted it."""
        assert message.message_id is not None
        outcome = await self._calls.delete_message(message.message_id)
        message.called_at = self._context.rate_queue.now
        if isinstance(outcome, DeliveryRefusal) and outcome.kind == "gone":
            outcome = DeliverySuccess()
        if isinstance(outcome, DeliverySuccess):
            self._forget_message(progress, message)
        return outcome

    def _forget_message(self, progress: TurnProgress, message: MessageState) -> None:
        self._calls.enqueue_write(partial(outbox.mark_missing, row=message.row))
        progress.messages.remove(message)
