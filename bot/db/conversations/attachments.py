"""Attachments of a turn's messages, and the pictures its tools found.

Images are stored as the model gets them, documents and sound as their text, which is cut where a turn's would
exceed MAX_TEXT_BYTES. Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Row, insert, or_, select

from bot.db.portable_sql import ListMembership
from bot.db.tables import attachments, inbox, messages, tool_images
from bot.db.transaction import Transaction
from bot.domain import Attachment, Image, ToolResult

MAX_TEXT_BYTES = 4 * 1024 * 1024  # of all documents and transcripts of a turn

_SELECT_MESSAGE_IMAGES = (
    select(attachments.c.message, attachments.c.media_type, attachments.c.data)
    .where(ListMembership(attachments.c.message, "messages"), attachments.c.kind == "image")
    .order_by(attachments.c.id)
)

_SELECT_TOOL_IMAGES = (
    select(tool_images).where(ListMembership(tool_images.c.turn, "turns")).order_by(tool_images.c.id)
)


async def store(
    tx: Transaction, turn: int, person: int, attachments_by_message: Sequence[Sequence[Attachment]]
) -> None:
    """Store the attachments of a turn's user messages, a sequence for each message in their order."""
    user_messages = (
        select(messages.c.id)
        .where(messages.c.turn == turn, messages.c.role == "user")
        .order_by(messages.c.id)
    )
    message_ids = (await tx.execute(user_messages)).scalars().all()
    text_count = sum(bool(attachment.text) for stored in attachments_by_message for attachment in stored)
    max_text_bytes = MAX_TEXT_BYTES // max(1, text_count)
    rows = [
        {"message": message, "person": person, **_build_columns(attachment, max_text_bytes)}
        for message, of_message in zip(message_ids, attachments_by_message, strict=True)
        for attachment in of_message
    ]
    if rows:
        await tx.execute(insert(attachments), rows)


def _build_columns(attachment: Attachment, max_text_bytes: int) -> dict[str, Any]:
    text = (attachment.text or "")[:max_text_bytes].encode()[:max_text_bytes]
    return {
        "kind": attachment.kind,
        "name": attachment.name,
        "media_type": attachment.media_type,
        "data": attachment.data,
        "text": None if attachment.text is None else text.decode(errors="ignore"),
        "size": len(attachment.data or b"") + len(text),
    }


async def load_of_turn(tx: Transaction, turn: int) -> tuple[tuple[Attachment, ...], ...]:
    """The attachments of each of a turn's user messages, in their order."""
    query = (
        select(messages.c.id.label("message"), attachments)
        .outerjoin(attachments, attachments.c.message == messages.c.id)
        .where(messages.c.turn == turn, messages.c.role == "user")
        .order_by(messages.c.id, attachments.c.id)
    )
    by_message = groupby((await tx.execute(query)).all(), key=lambda row: row[0])
    return tuple(tuple(_to_attachment(row) for row in rows if row.kind is not None) for _, rows in by_message)


async def load_message_images(tx: Transaction, message_ids: Sequence[int]) -> dict[int, tuple[Image, ...]]:
    """The images of these messages, by message; those without any are left out."""
    images: dict[int, tuple[Image, ...]] = {}
    for row in await tx.execute(_SELECT_MESSAGE_IMAGES, {"messages": list(message_ids)}):
        images[row.message] = (*images.get(row.message, ()), Image(row.media_type, row.data))
    return images


async def store_tool_images(tx: Transaction, turn: int, result: ToolResult) -> None:
    """Store the pictures of a tool's result."""
    rows = [
        {"turn": turn, "call_id": result.call.id, "media_type": image.media_type, "data": image.data}
        for image in result.images
    ]
    if rows:
        await tx.execute(insert(tool_images), rows)


async def load_tool_images(tx: Transaction, turns: Sequence[int]) -> dict[tuple[int, str], tuple[Image, ...]]:
    """The pictures that the tools of these turns found, by turn and call."""
    images: dict[tuple[int, str], tuple[Image, ...]] = {}
    for row in await tx.execute(_SELECT_TOOL_IMAGES, {"turns": list(turns)}):
        call = (row.turn, row.call_id)
        images[call] = (*images.get(call, ()), Image(row.media_type, row.data))
    return images


async def has_documents(tx: Transaction, turn: int) -> bool:
    """Whether texts of documents are stored with this turn."""
    query = (
        select(attachments.c.id)
        .join(messages, attachments.c.message == messages.c.id)
        .where(messages.c.turn == turn, attachments.c.kind == "document", attachments.c.size > 0)
    )
    return (await tx.execute(query.limit(1))).first() is not None


async def can_skip_fetch(tx: Transaction, item: int) -> bool:
    """Whether nothing needs to be fetched for this item: its turn has begun, or a /stop concerns it."""
    query = select(inbox.c.id).where(
        inbox.c.id == item, or_(inbox.c.turn.is_not(None), inbox.c.stopped.is_(True))
    )
    return (await tx.execute(query)).one_or_none() is not None


def _to_attachment(row: Row[tuple[object, ...]]) -> Attachment:
    return Attachment(row.kind, row.name, row.media_type, row.data, row.text)
