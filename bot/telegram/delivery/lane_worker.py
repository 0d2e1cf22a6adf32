"""Delivers the messages of one lane, one call at a time: first what is stored, then a turn's progress.

Runs while its lane has something to do, and decides what each outcome means for a stored message.
"""

import asyncio
import logging
from functools import partial

from bot.db.queues import first_sends, outbox
from bot.db.queues.outbox_rows import OutboxRow
from bot.domain import Lane
from bot.telegram.delivery.file_calls import FileSender
from bot.telegram.delivery.lane_calls import DeliveryContext, LaneCalls
from bot.telegram.delivery.progress import TurnProgress, WaitUntil
from bot.telegram.delivery.progress_calls import ProgressSender
from bot.telegram.delivery.rate_queue import SenderStopped
from bot.telegram.outcomes import (
    DeliveryFailure,
    DeliveryOutcome,
    DeliveryRefusal,
    DeliverySuccess,
    UnknownDelivery,
)
from bot.translations.translator import defer, translatable

TOPIC_CLOSED = translatable(
    "I couldn't answer in a topic of a group, because it's closed. Reopen it, or make me an administrator "
    "of the group."
)

_REPEAT_SECONDS = 30.0

_log = logging.getLogger(__name__)


class LaneSender:
    """The owner of a lane's calls.

    `is_due`: something is stored for the lane.
    `progress`: what its running turn shows.

    While a turn's end is stored, its next call may be reserved for the first send of the answer.
    """

    def __init__(self, lane: Lane, context: DeliveryContext) -> None:
        self.lane = lane
        self.is_due = False
        self.progress: TurnProgress | None = None
        self._context = context
        self._calls = LaneCalls(lane, context)
        self._progress_sender = ProgressSender(self._calls)
        self._file_sender = FileSender(self._calls)
        self._wake_event = asyncio.Event()
        self._is_waiting = False  # until there is something to show
        self._is_reserved = False
        self._taken_row: OutboxRow | None = None

    def wake(self) -> None:
        """Check again what there is to do."""
        self._wake_event.set()

    async def run(self) -> None:
        """Work until there is nothing left.

        Raises SenderStopped where it would have to wait while the sender stops.
        """
        while True:
            self._calls.timeline.set_base("own" if self._has_unsettled else None)
            self._wake_event.clear()
            if self._is_reserved:
                await self._wake_event.wait()
            elif (row := self._taken_row) is not None:
                self._taken_row = None
                await self._deliver(row)
            elif self.is_due:
                await self._deliver_next()
            elif self.progress is not None and self._can_show(self.progress):
                await self._show_progress(self.progress)
            elif self.progress is not None and (leftover := self.progress.leftover_status):
                await self._progress_sender.clear_status(self.progress, leftover)
            elif not await self._calls.flush_writes():
                return

    @property
    def _has_unsettled(self) -> bool:
        """Whether something is to be delivered, or its outcome is not committed: a kill would undo that."""
        return self.is_due or self._taken_row is not None or self._calls.has_unwritten

    def reserve(self) -> bool:
        """Make no call before `send_taken` or `free`; False if another call comes first, or has to wait.

        What a turn has shown already is edited, which is no first send.
        """
        if not self._is_waiting or self._is_reserved or self.is_due or self._calls.has_unwritten:
            return False
        if self.progress is None or self.progress.is_over or self.progress.messages:
            return False
        self._is_reserved = self._context.rate_queue.try_acquire(self.lane.paced_chat)
        return self._is_reserved

    def send_taken(self, row: OutboxRow) -> None:
        """Make the reserved call: the first send of this row, which was committed as being sent."""
        self._is_reserved = False
        self._taken_row = row
        self.wake()

    def free(self) -> None:
        """Go on without the reserved call."""
        self._is_reserved = False
        self._context.rate_queue.refund(self.lane.paced_chat)
        self.wake()

    def release(self, item: int) -> None:
        """Go on without the reserved call; the first part of this item's answer may be stored as taken."""
        self._calls.enqueue_write(partial(first_sends.release, item=item))
        self.free()

    def _can_show(self, progress: TurnProgress) -> bool:
        return not progress.is_over and not self._context.rate_queue.is_stopped

    async def _show_progress(self, progress: TurnProgress) -> None:
        if (snapshot := progress.find_unrendered()) is not None:
            pieces = await self._context.renderer.render_snapshot(snapshot, progress.block_cache)
            progress.set_pieces(snapshot, pieces)
            if self.is_due or not self._can_show(progress):
                return
        match step := progress.get_next_step(self._context.rate_queue.now):
            case None | WaitUntil():
                self._is_waiting = True
                await self._wait_until(step.until if step is not None else None)
                self._is_waiting = False
            case _:
                await self._progress_sender.send(progress, step)

    async def _wait_until(self, deadline: float | None) -> None:
        try:
            async with asyncio.timeout(None if deadline is None else deadline - self._context.rate_queue.now):
                await self._wake_event.wait()
        except TimeoutError:
            return

    async def _deliver_next(self) -> None:
        """Make the next call for the oldest stored message."""
        await self._clear_long_status()
        await self._calls.acquire_rate()
        self.is_due = False
        row = await self._context.write_queue.write(partial(outbox.take, lane=self.lane))
        if row is None:
            self._context.rate_queue.refund(self.lane.paced_chat)
            return
        await self._deliver(row)

    async def _deliver(self, row: OutboxRow) -> None:
        """Make the call for a row that was taken, and store its outcome."""
        progress = self.progress
        if progress is not None:
            progress.mark_final(row.id)
        try:
            outcome = await self._make_call(row)
        except SenderStopped:
            if row.state == "sending":
                self._calls.release_unsent(row.id)
            raise
        await self._record_outcome(row, outcome, progress)
        self.is_due |= row.has_more

    async def _clear_long_status(self) -> None:
        """Delete a status line that stood long, so that the answer comes as a new message, with a sound."""
        if self.progress is None or not self.progress.is_over:
            return
        long_status = self.progress.find_long_status(self._context.rate_queue.now)
        if long_status is not None and long_status.message_id is not None:
            await self._progress_sender.clear_status(self.progress, long_status)

    async def _make_call(self, row: OutboxRow) -> DeliveryOutcome:
        """Make the call that makes Telegram show what this row says."""
        client = self._context.client
        if row.message_id is None:
            assert row.body is not None
            if row.body.kind != "text":
                return await self._file_sender.send(row)
            return await self._calls.attempt(row.body, partial(client.send_message, reply_to=row.reply_to))
        if row.body is None:
            return await self._calls.delete_message(row.message_id)
        if self.progress and self.progress.get_shown_part(row.id) == row.body:
            self._context.rate_queue.refund(self.lane.paced_chat)
            return DeliverySuccess()
        return await self._calls.attempt(row.body, await self._calls.bind_edit(row.message_id))

    async def _record_outcome(  # a table
        self, row: OutboxRow, outcome: DeliveryOutcome, progress: TurnProgress | None
    ) -> None:
        """Store the outcome of the call, and note whether the row is due again; `progress`: of that time."""
        enqueue = self._calls.enqueue_write
        now = self._context.clock()
        is_first = row.state == "sending"
        match outcome:
            case DeliverySuccess(message_id=message_id):
                self._calls.reset_failures()
                if is_first and self.progress is not None:
                    self.progress.forget_draft()
                self._calls.record_shown(row.id, message_id or row.message_id, row.body)
            case UnknownDelivery(detail) if is_first and not row.can_repeat:
                self.is_due = True  # the person will be asked
                enqueue(partial(outbox.mark_unknown, row=row.id, reason=detail, now=now))
            case DeliveryFailure() | UnknownDelivery():
                if is_first:
                    enqueue(partial(outbox.release, row=row.id, reason=outcome.detail))
                _log.info(
                    "a call failed; trying again", extra={"action": "sender.again", "why": outcome.detail}
                )
                if is_first and isinstance(outcome, UnknownDelivery):
                    await self._wait_for_repeat(progress)
                else:
                    await self._calls.back_off(outcome)
                self.is_due = True
            case DeliveryRefusal("migrated"):
                enqueue(partial(outbox.mark_missing, row=row.id))  # to be sent to the supergroup
                await self._calls.flush_writes()
                await self._context.refusal_listener.note_refusal(self.lane, outcome)
            case DeliveryRefusal("gone") if not is_first:
                self.is_due = True
                enqueue(partial(outbox.mark_missing, row=row.id))
            case DeliveryRefusal(detail=detail):
                enqueue(partial(outbox.mark_failed, row=row.id, reason=detail, body=row.body, now=now))
                await self._report_refusal(row, outcome)

    async def _wait_for_repeat(self, progress: TurnProgress | None) -> None:
        """Wait before a question is repeated, which may be another copy of it in the chat.

        At most until the chat goes on: more is stored for the lane, or another turn than that of `progress`
        has something to show, and the question precedes that. Raises SenderStopped.
        """
        rate_queue = self._context.rate_queue
        deadline = rate_queue.now + _REPEAT_SECONDS
        with self._calls.timeline.measure("back-off"):
            while not self.is_due and self.progress is progress and rate_queue.now < deadline:
                if rate_queue.is_stopped:
                    raise SenderStopped
                self._wake_event.clear()
                await self._wait_until(deadline)

    async def _report_refusal(self, row: OutboxRow, refusal: DeliveryRefusal) -> None:
        if refusal.kind in {"blocked", "muted", "voice"}:
            await self._context.refusal_listener.note_refusal(self.lane, refusal)
        elif refusal.kind == "closed":
            await self._context.on_trouble(f"telegram.closed {self.lane.key}", defer(TOPIC_CLOSED))
        elif not row.is_notice:  # a notice about a notice would never end
            await self._context.on_trouble(
                "telegram.refused",
                defer("Telegram refused one of my messages: {reason}", reason=refusal.detail),
            )
