"""Files for people, stored beside the messages of the outbox that bring them.

A turn's files wait without a message until its end: the answer comes first. Their bytes are read only to be
sent. Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, insert, or_, select, update

from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import outbox, outbox_files
from bot.db.tables.queues import FIRST_FILE_PART
from bot.db.transaction import Transaction
from bot.domain import FileKind, FilePart, Lane, OutgoingFile

KEPT_SECONDS = 7 * 86_400.0
"""How long the bytes are kept once their message is over, for [Send again]."""

_IS_WAITING = outbox.c.state.in_(("new", "sending", "open"))
_INSERT_FILE = insert(outbox_files).returning(outbox_files.c.id)
_INSERT_MESSAGE = insert(outbox).returning(outbox.c.id)
_COLUMNS = (
    outbox_files.c.id,
    outbox_files.c.name,
    outbox_files.c.kind,
    outbox_files.c.size,
    outbox_files.c.caption,
    outbox_files.c.file_id,
)


async def store(
    tx: Transaction, files: Sequence[OutgoingFile], *, turn: int | None, now: float
) -> tuple[OutgoingFile, ...]:
    """Store files of a turn, or of a command (None); returns them with their ids, without their bytes.

    For a `file_transaction`: 50 MB would hold the event loop for 0.4 s.
    """
    stored = []
    for file in files:
        row = {
            "turn": turn,
            "name": file.name,
            "kind": file.kind,
            "caption": file.caption,
            "size": file.size,
            "data": file.data,
            "made_at": now,
        }
        file_id = (await tx.execute(_INSERT_FILE, row)).scalar_one()
        stored.append(replace(file, id=file_id, data=None))
    return tuple(stored)


async def add_parts(  # noqa: PLR0913  # the first number is that of a later part
    tx: Transaction,
    parts: Sequence[FilePart],
    *,
    item: int,
    lane: Lane,
    reply_to: int | None = None,
    first: int = FIRST_FILE_PART,
    now: float,
) -> None:
    """Store the messages that bring stored files, behind those that answer `item`; `first`: its number."""
    if parts:
        tx.changes.note_outbox(lane)
    for number, (part, files) in enumerate(parts, first):
        message = {
            "item": item,
            "part": number,
            "lane": lane.key,
            "reply_to": reply_to,
            "body": serialize_part(part),
            "final": True,
            "made_at": now,
        }
        row = (await tx.execute(_INSERT_MESSAGE, message)).scalar_one()
        ids = [file.id for file in files]
        await tx.execute(update(outbox_files).where(outbox_files.c.id.in_(ids)).values(outbox=row))


async def load(tx: Transaction, row: int) -> tuple[OutgoingFile, ...]:
    """The files of a message, as they are to be sent: with their bytes, or Telegram's id of them.

    For a `long_read_transaction`: 50 MB would hold the event loop.
    """
    data = case((outbox_files.c.file_id.is_(None), outbox_files.c.data)).label("data")
    query = select(*_COLUMNS, data).where(outbox_files.c.outbox == row).order_by(outbox_files.c.id)
    return tuple(replace(_to_file(stored), data=stored.data) for stored in await tx.execute(query))


async def load_waiting(tx: Transaction, turn: int) -> tuple[OutgoingFile, ...]:
    """The files of a turn that have no message yet, in their order, without their bytes."""
    of_turn = (outbox_files.c.turn == turn) & outbox_files.c.outbox.is_(None)
    query = select(*_COLUMNS).where(of_turn).order_by(outbox_files.c.id)
    return tuple(_to_file(stored) for stored in await tx.execute(query))


async def mark_sent(
    tx: Transaction, files: Sequence[OutgoingFile], file_ids: Sequence[str], kind: FileKind
) -> None:
    """Store Telegram's ids of files that it has taken, and as what it took them.

    The bytes of a command's files go at once: exports are large, and would outlive what is deleted here.
    """
    kept_data = case((outbox_files.c.turn.is_not(None), outbox_files.c.data))
    for file, file_id in zip(files, file_ids, strict=False):
        values = {"file_id": file_id, "kind": kind, "data": kept_data}
        await tx.execute(update(outbox_files).where(outbox_files.c.id == file.id).values(values))


def build_expiry_condition(now: float) -> ColumnElement[bool]:
    """The condition for files whose bytes are no longer needed: their message was over a week ago."""
    before = now - KEPT_SECONDS
    over_at = func.coalesce(outbox.c.done_at, outbox.c.made_at)
    is_needed = select(outbox.c.id).where(
        outbox.c.id == outbox_files.c.outbox, or_(_IS_WAITING, over_at >= before)
    )
    is_old = outbox_files.c.made_at < before
    return and_(outbox_files.c.data.is_not(None), is_old, ~is_needed.exists())


def _to_file(row: Any) -> OutgoingFile:
    return OutgoingFile(
        name=row.name, kind=row.kind, size=row.size, caption=row.caption, file_id=row.file_id, id=row.id
    )
