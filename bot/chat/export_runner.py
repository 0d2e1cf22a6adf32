"""Makes exports of chats: runs the gateway's own items of this kind, which hold no lane.

Of a chat a few turns are in memory at a time, and one part. A part, its message in the outbox and how far the
export is are one transaction, so that it continues after a crash with the next part.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from bot.attachments.outgoing_files import MAX_FILE_BYTES, plan_file_parts, prepare_file
from bot.chat.access import Access, find_role
from bot.chat.export_writer import ExportPiece, ExportWriter
from bot.chat.group_directory import GroupDirectory
from bot.db.engine import Database
from bot.db.maintenance import exports
from bot.db.people import groups as group_rows
from bot.db.people import people
from bot.db.queues import inbox, outbox_files
from bot.db.queues.item_bodies import ExportOrder
from bot.db.retry import retry_until_available
from bot.db.tables.queues import FIRST_FILE_PART
from bot.domain import InboxItem
from tools.threads import run_in_thread

MAX_MESSAGES = 2  # of a part: its two files, where they do not fit one upload


@dataclass(frozen=True, slots=True)
class ExportRunner:
    """The runner; it makes one export at a time. `time_zone`: that of people who have not named theirs."""

    database: Database
    access: Access
    groups: GroupDirectory
    time_zone: str
    max_part_bytes: int = MAX_FILE_BYTES
    clock: Callable[[], float] = time.time
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        order = ExportOrder.parse(item.body)
        async with self._lock:
            async with self.database.read_transaction() as tx:
                order = replace(order, lane=await group_rows.find_lane(tx, order.lane))
                zone = await people.load_zone(tx, order.person, self.time_zone)
            translate = self.access.get_translator(order.person)
            writer = ExportWriter(order.lane, zone, translate, self.clock())
            async for files, progress in make_parts(self.database, order, writer, self.max_part_bytes):
                if not await retry_until_available(partial(self._store, item, progress, files)):
                    break
            await retry_until_available(partial(self._end, item))

    async def _store(self, item: InboxItem, progress: ExportOrder, files: Mapping[str, bytes]) -> bool:
        """Store a part; False if the chat was forgotten, or its person is not answered there any more."""
        lane = progress.lane
        translate = self.access.get_translator(progress.person)
        is_answered = find_role(self.access, self.groups, progress.person, lane) in {"admin", "member"}
        async with self.database.file_transaction(sum(map(len, files.values()))) as tx:
            if not is_answered or await exports.is_forgotten(tx, lane.chat, since=item.id):
                return False
            prepared = [prepare_file(name, data) for name, data in files.items()]
            stored = await outbox_files.store(tx, prepared, turn=None, now=self.clock())
            parts = plan_file_parts(stored, translate)
            first = FIRST_FILE_PART + progress.parts * MAX_MESSAGES
            await outbox_files.add_parts(tx, parts, item=item.id, lane=lane, first=first, now=self.clock())
            await exports.store_progress(tx, item.id, progress)
        return True

    async def _end(self, item: InboxItem) -> None:
        async with self.database.transaction() as tx:
            await inbox.mark_done(tx, [item.id], now=self.clock())


async def make_parts(
    database: Database, order: ExportOrder, writer: ExportWriter, max_bytes: int
) -> AsyncIterator[tuple[Mapping[str, bytes], ExportOrder]]:
    """Make the parts that are missing: each as files by name, with how far the export is then.

    A part has at most `max_bytes` of text, or a single entry.
    """
    pieces = list[ExportPiece]()
    size = 0
    while True:
        async with database.long_read_transaction() as tx:
            entries = await exports.load_entries(tx, order)
        if not entries:
            break
        written = await run_in_thread(writer.write_entries, [entry for entry, _ in entries])
        for piece, (_, progress) in zip(written, entries, strict=True):
            piece_size = sum(map(len, piece))
            if pieces and size + piece_size > max_bytes:
                order = replace(order, parts=order.parts + 1)
                yield await run_in_thread(writer.join_pieces, order.parts, pieces), order
                pieces = []
                size = 0
            pieces.append(piece)
            size += piece_size
            order = replace(progress, parts=order.parts)
    if pieces:
        order = replace(order, parts=order.parts + 1)
        yield await run_in_thread(writer.join_pieces, order.parts, pieces), order
