"""What an export of a chat reads, a little at a time, and whether one may be made.

What was forgotten, or replaced by an edit or another answer, is left out. Functions work inside the caller's
transaction `tx`.
"""

import json
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from bot.db.portable_sql import JsonField
from bot.db.queues.item_bodies import EXPORT_JOB, FORGET_JOB, ExportOrder
from bot.db.tables import (
    attachments,
    inbox,
    kept_files,
    messages,
    model_calls,
    outbox,
    outbox_files,
    tool_calls,
    turns,
)
from bot.db.transaction import Transaction
from bot.domain import Lane

BATCH_TURNS = 20

StoredEntry = dict[str, Any]
"""A turn (`turn`, `lane`, `conversation`, and the rows of each of its ENTRY_ROWS), or a kept file."""

ENTRY_ROWS: Final = {
    "messages": select(
        *(messages.c.id, messages.c.turn, messages.c.role),
        *(messages.c.text, messages.c.made_at, messages.c.calls),
    ).where(messages.c.role != "tool"),
    "attachments": select(
        *(attachments.c.id, messages.c.turn, attachments.c.message, attachments.c.kind, attachments.c.name)
    ).join(messages, attachments.c.message == messages.c.id),
    "tools": select(
        *(tool_calls.c.id, tool_calls.c.turn, tool_calls.c.name, tool_calls.c.arguments),
        *(tool_calls.c.outcome, tool_calls.c.result, tool_calls.c.began_at, tool_calls.c.ended_at),
    ),
    "usage": select(
        *(model_calls.c.id, model_calls.c.turn, model_calls.c.prompt_tokens, model_calls.c.cached_tokens),
        *(model_calls.c.completion_tokens, model_calls.c.reasoning_tokens),
    ),
}


async def find_last_turn(tx: Transaction, lane: Lane) -> int | None:
    """The newest turn of a lane that can be exported, with its chat's topics if it is the chat's own."""
    last: int | None = (await tx.execute(select(func.max(turns.c.id)).where(_is_exported(lane)))).scalar_one()
    return last


async def load_entries(tx: Transaction, order: ExportOrder) -> list[tuple[StoredEntry, ExportOrder]]:
    """The next entries, each with how far the export is after it: turns by topic and age, then a file."""
    is_next = or_(
        turns.c.lane > order.after_lane,
        and_(turns.c.lane == order.after_lane, turns.c.id > order.after_turn),
    )
    query = select(turns.c.id.label("turn"), turns.c.lane, turns.c.conversation)
    query = query.where(_is_exported(order.lane), is_next, turns.c.id <= order.last_turn)
    rows = await tx.execute(query.order_by(turns.c.lane, turns.c.id).limit(BATCH_TURNS))
    entries: dict[int, StoredEntry] = {row["turn"]: {**row} for row in rows.mappings()}
    if not entries:
        return await _load_file(tx, order)
    for name, query_rows in ENTRY_ROWS.items():
        columns = query_rows.selected_columns
        query = query_rows.where(columns.turn.in_(entries)).order_by(columns.id)
        for entry in entries.values():
            entry[name] = []
        for row in (await tx.execute(query)).mappings():
            entries[row["turn"]][name].append({**row})
    return [
        (entry, replace(order, after_lane=entry["lane"], after_turn=turn)) for turn, entry in entries.items()
    ]


async def is_busy(tx: Transaction, chat: int) -> bool:
    """Whether a chat is being forgotten or exported, or files of a command there were not sent yet."""
    job = JsonField(inbox.c.body, "job")
    is_concerned = or_(
        and_(job == FORGET_JOB, _is_of_chat(inbox.c.lane, chat)),
        and_(job == EXPORT_JOB, _is_of_chat(JsonField(inbox.c.body, "lane"), chat)),
    )
    pending = select(inbox.c.id).where(
        inbox.c.kind == "system", inbox.c.state.in_(("new", "running")), is_concerned
    )
    unsent = (
        select(outbox.c.id)
        .join(outbox_files, outbox_files.c.outbox == outbox.c.id)
        .where(outbox.c.state.in_(("new", "sending", "open")), _is_of_chat(outbox.c.lane, chat))
        .where(outbox_files.c.turn.is_(None))
    )
    return (await tx.execute(pending.union_all(unsent).limit(1))).first() is not None


async def is_forgotten(tx: Transaction, chat: int, *, since: int) -> bool:
    """Whether somebody had a chat forgotten since inbox item `since`."""
    is_forget = and_(inbox.c.kind == "system", JsonField(inbox.c.body, "job") == FORGET_JOB)
    forgets = select(inbox.c.id).where(inbox.c.id > since, is_forget, _is_of_chat(inbox.c.lane, chat))
    return (await tx.execute(forgets.limit(1))).first() is not None


async def store_progress(tx: Transaction, item: int, order: ExportOrder) -> None:
    """Store how far the export of an item is."""
    body = json.dumps(order.serialize())
    await tx.execute(update(inbox).where(inbox.c.id == item).values(body=body))


async def _load_file(tx: Transaction, order: ExportOrder) -> list[tuple[StoredEntry, ExportOrder]]:
    is_next = and_(kept_files.c.chat == order.lane.chat, kept_files.c.id > order.after_file)
    query = select(kept_files.c.id, kept_files.c.name, kept_files.c.text, kept_files.c.kept_at)
    rows = (await tx.execute(query.where(is_next).order_by(kept_files.c.id).limit(1))).mappings()
    return [({**row}, replace(order, after_file=row["id"])) for row in rows if order.with_files]


def _is_exported(lane: Lane) -> ColumnElement[bool]:
    is_meant = _is_of_chat(turns.c.lane, lane.chat) if lane.topic is None else turns.c.lane == lane.key
    return and_(is_meant, turns.c.state.not_in(("replaced", "forgotten")))


def _is_of_chat(lane: ColumnElement[str], chat: int) -> ColumnElement[bool]:
    # Keys of topics begin with "CHAT:", and ";" is the character after ":".
    return or_(lane == str(chat), and_(lane > f"{chat}:", lane < f"{chat};"))
