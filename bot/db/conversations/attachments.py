"""What came with the messages of a turn, and the pictures its tools found: images as the model gets them,
documents and sound as their whole text.

Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Sequence
from itertools import groupby

from sqlalchemy import Row, bindparam, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import attachments, inbox, messages, tool_images
from bot.domain import Attachment, Image, ToolResult

_SELECT_MESSAGE_IMAGES = (
    select(attachments.c.message, attachments.c.media_type, attachments.c.data)
    .where(attachments.c.message.in_(bindparam("messages", expanding=True)), attachments.c.kind == "image")
    .order_by(attachments.c.id)
)


_SELECT_TOOL_IMAGES = (
    select(tool_images)
    .where(tool_images.c.turn.in_(bindparam("turns", expanding=True)))
    .order_by(tool_images.c.id)
)


async def store(
    tx: AsyncConnection, turn: int, attachments_by_message: Sequence[Sequence[Attachment]]
) -> None:
    """Store what `came` with a turn's user messages, in their order."""
    mine = (
        select(messages.c.id)
        .where(messages.c.turn == turn, messages.c.role == "user")
        .order_by(messages.c.id)
    )
    ids = (await tx.execute(mine)).scalars().all()
    rows = [
        {
            "message": message,
            "kind": one.kind,
            "name": one.name,
            "media_type": one.media_type,
            "data": one.data,
            "text": one.text,
        }
        for message, several in zip(ids, attachments_by_message, strict=True)
        for one in several
    ]
    if rows:
        await tx.execute(insert(attachments), rows)


async def load_of_turn(tx: AsyncConnection, turn: int) -> tuple[tuple[Attachment, ...], ...]:
    """What came with each of a turn's user messages, in their order."""
    query = (
        select(messages.c.id.label("message"), attachments)
        .outerjoin(attachments, attachments.c.message == messages.c.id)
        .where(messages.c.turn == turn, messages.c.role == "user")
        .order_by(messages.c.id, attachments.c.id)
    )
    by_message = groupby((await tx.execute(query)).all(), key=lambda row: row[0])
    return tuple(tuple(_to_attachment(row) for row in rows if row.kind is not None) for _, rows in by_message)


async def load_message_images(
    tx: AsyncConnection, message_ids: Sequence[int]
) -> dict[int, tuple[Image, ...]]:
    """The images of these messages, by message; those without any are left out."""
    found: dict[int, tuple[Image, ...]] = {}
    for row in await tx.execute(_SELECT_MESSAGE_IMAGES, {"messages": list(message_ids)}):
        found[row.message] = (*found.get(row.message, ()), Image(row.media_type, row.data))
    return found


async def store_tool_images(tx: AsyncConnection, turn: int, result: ToolResult) -> None:
    """Store the pictures of a tool's result."""
    rows = [
        {"turn": turn, "call_id": result.call.id, "media_type": one.media_type, "data": one.data}
        for one in result.images
    ]
    if rows:
        await tx.execute(insert(tool_images), rows)


async def load_tool_images(
    tx: AsyncConnection, turns: Sequence[int]
) -> dict[tuple[int, str], tuple[Image, ...]]:
    """The pictures that the tools of these turns found, by turn and call."""
    found: dict[tuple[int, str], tuple[Image, ...]] = {}
    for row in await tx.execute(_SELECT_TOOL_IMAGES, {"turns": list(turns)}):
        call = (row.turn, row.call_id)
        found[call] = (*found.get(call, ()), Image(row.media_type, row.data))
    return found


async def can_skip_fetch(tx: AsyncConnection, item: int) -> bool:
    """Whether nothing is to be fetched for this item any more: its turn has begun, or a /stop has met it."""
    query = select(inbox.c.id).where(
        inbox.c.id == item, or_(inbox.c.turn.is_not(None), inbox.c.stopped.is_(True))
    )
    return (await tx.execute(query)).one_or_none() is not None


def _to_attachment(row: Row[tuple[object, ...]]) -> Attachment:
    return Attachment(row.kind, row.name, row.media_type, row.data, row.text)
