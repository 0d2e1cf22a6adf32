"""The calls that bring stored files to one lane: what is uploaded, and what becomes of a refused photo."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.db.queues import outbox_files
from bot.db.queues.outbox_rows import OutboxRow
from bot.db.retry import retry_until_available
from bot.domain import FileKind, OutgoingFile
from bot.telegram.delivery.lane_calls import LaneCalls
from bot.telegram.outcomes import DeliveryOutcome, DeliveryRefusal, DeliverySuccess


class FileSender:
    """Sends the files of stored messages, through the lane's calls."""

    def __init__(self, calls: LaneCalls) -> None:
        self._calls = calls

    async def send(self, row: OutboxRow) -> DeliveryOutcome:
        """Send a message's files. Photos that Telegram refuses as such go once more, as documents."""
        files = await retry_until_available(partial(self._load_files, row))
        if not files or any(file.data is None and file.file_id is None for file in files):
            return DeliveryRefusal("other", "what it was to bring is no longer stored")
        kind = files[0].kind
        outcome = await self._send_as(kind, row, files)
        if kind == "photo" and isinstance(outcome, DeliveryRefusal) and outcome.kind == "photo":
            kind = "document"
            self._calls.context.rate_queue.spend(self._calls.lane.chat)
            outcome = await self._send_as(kind, row, [replace(file, file_id=None) for file in files])
        if isinstance(outcome, DeliverySuccess):
            self._calls.enqueue_write(
                partial(outbox_files.mark_sent, files=files, file_ids=outcome.file_ids, kind=kind)
            )
        return outcome

    async def _load_files(self, row: OutboxRow) -> tuple[OutgoingFile, ...]:
        async with self._calls.context.database.long_read_transaction() as tx:
            return await outbox_files.load(tx, row.id)

    async def _send_as(
        self, kind: FileKind, row: OutboxRow, files: Sequence[OutgoingFile]
    ) -> DeliveryOutcome:
        context = self._calls.context
        chat = self._calls.lane.chat
        is_upload = any(file.file_id is None for file in files)
        if is_upload and not context.rate_queue.try_spend_progress(chat):
            await context.client.show_action(self._calls.target_lane, f"upload_{kind}")
        for _ in files[1:]:  # each is a message of an album
            context.rate_queue.spend(chat)
        assert row.body is not None
        send = partial(context.file_client.send_files, files=files, kind=kind, reply_to=row.reply_to)
        return await self._calls.attempt(row.body, send)
