"""A lane's current conversation: what its prompts begin with, and how far they have been cut.

A conversation is the sequence of a lane's ended turns in the order they ended, since the last /new. Functions
work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, exists, select, update

from bot.db.portable_sql import replace_row
from bot.db.tables import lanes, turns
from bot.db.transaction import Transaction
from bot.domain import Lane

# Built once: building a statement costs more than running it.
_SELECT_LANE = select(lanes).where(lanes.c.lane == bindparam("key"))
_CLEARED_COLUMNS: dict[str, Any] = {
    "notes": None,
    "instructions": None,
    "files": None,
    "tools": None,
    "cut": None,
    "shortened": None,
    "told_cut": False,
    "summary": None,
    "summary_outside": False,
    "summary_ahead_outside": False,
    "summary_ahead": None,
    "summary_upto": None,
}


@dataclass(frozen=True, slots=True)
class Conversation:
    """The state of a lane's current conversation.

    `notes`, `instructions`, `files` (names of those kept for the chat) and `tools` (names of those it offers)
    are None until it has begun. `cut` is the newest turn that has left the prompt, `shortened` the newest
    that stands in it in short form. `told_cut`: the chat was notified of the cut. `summary` is of the turns
    that have left; `summary_ahead` is of those that leave next, up to turn `summary_upto`;
    `is_summary_outside` and `is_summary_ahead_outside`: text of strangers was in the prompt it was made of.
    `is_over`: a later conversation has begun. `searchable_from`: the first conversation that may be searched;
    None: all.
    """

    number: int = 1
    notes: str | None = None
    instructions: str | None = None
    think: Literal["auto", "on", "off"] | None = None
    cut: int | None = None
    shortened: int | None = None
    told_cut: bool = False
    summary: str | None = None
    summary_ahead: str | None = None
    summary_upto: int | None = None
    is_summary_outside: bool = False
    is_summary_ahead_outside: bool = False
    tools: tuple[str, ...] | None = None
    is_over: bool = False
    searchable_from: int | None = None
    files: str | None = None


async def find(tx: Transaction, lane: Lane) -> Conversation:
    """The lane's current conversation."""
    row = (await tx.execute(_SELECT_LANE, {"key": lane.key})).one_or_none()
    if row is None:
        return Conversation()
    return Conversation(
        number=row.conversation,
        notes=row.notes,
        instructions=row.instructions,
        think=row.think,
        cut=row.cut,
        shortened=row.shortened,
        told_cut=row.told_cut,
        summary=row.summary,
        summary_ahead=row.summary_ahead,
        summary_upto=row.summary_upto,
        is_summary_outside=row.summary_outside,
        is_summary_ahead_outside=row.summary_ahead_outside,
        tools=None if row.tools is None else tuple(json.loads(row.tools)),
        searchable_from=row.searchable_from,
        files=row.files,
    )


async def begin(tx: Transaction, lane: Lane, conversation: Conversation, tools: Iterable[str]) -> None:
    """Begin a conversation: what stands before its turns is fixed, so that its prompts begin alike."""
    row = {
        "conversation": conversation.number,
        "notes": conversation.notes or "",
        "instructions": conversation.instructions or "",
        "files": conversation.files or "",
        "tools": json.dumps([*tools]),
    }
    await upsert_lane(tx, lane, row)


async def start_new(tx: Transaction, lane: Lane) -> None:
    """Start a new conversation, as /new does: later turns see nothing of the earlier ones."""
    number = (await find(tx, lane)).number + 1
    await upsert_lane(tx, lane, {"conversation": number, **_CLEARED_COLUMNS})


async def store_cut(tx: Transaction, lane: Lane, conversation: Conversation) -> None:
    """Store a cut of the prompt, and the tools, notes and summary that the prompt begins with from now on."""
    row: dict[str, Any] = {
        "notes": conversation.notes,
        "instructions": conversation.instructions,
        "files": conversation.files,
        "cut": conversation.cut,
        "shortened": conversation.shortened,
        "summary": conversation.summary,
        "summary_ahead": conversation.summary_ahead,
        "summary_upto": conversation.summary_upto,
        "summary_outside": conversation.is_summary_outside,
        "summary_ahead_outside": conversation.is_summary_ahead_outside,
        "tools": json.dumps(conversation.tools),
    }
    await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(row))


async def set_back(tx: Transaction, lane: Lane, conversation: Conversation, kept: Sequence[int]) -> None:
    """Have what was cut, shortened and summarized end with the last of the `kept` turns, oldest first."""
    last_kept = kept[-1] if kept else None
    row: dict[str, Any] = {}
    for name, turn in (("cut", conversation.cut), ("shortened", conversation.shortened)):
        if turn is not None and turn > (last_kept or 0):
            row[name] = last_kept
    if (conversation.summary_upto or 0) > (last_kept or 0):
        row |= {"summary_ahead": None, "summary_upto": None, "summary_ahead_outside": False}
    if row:
        await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(row))


async def mark_cut_told(tx: Transaction, lane: Lane) -> None:
    """Store that the chat was notified that something has left the prompt: once in a conversation."""
    await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(told_cut=True))


async def mark_search_told(tx: Transaction, lane: Lane) -> None:
    """Store that the chat was notified that its earlier conversations are searched: from now on they are."""
    await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(searchable_from=None))


async def store_summary_ahead(
    tx: Transaction, lane: Lane, number: int, text: str, last_turn: int, *, is_outside: bool
) -> None:
    """Store a summary for the next cut, unless conversation `number`, which it is of, is over.

    It is not stored either if its last turn was replaced meanwhile. `is_outside`: it was made of text of
    strangers.
    """
    is_kept = exists().where(turns.c.id == last_turn, turns.c.state != "replaced")
    if_current = (lanes.c.lane == lane.key) & (lanes.c.conversation == number) & is_kept
    row = {"summary_ahead": text, "summary_upto": last_turn, "summary_ahead_outside": is_outside}
    await tx.execute(update(lanes).where(if_current).values(row))


async def upsert_lane(tx: Transaction, lane: Lane, row: Mapping[str, Any]) -> None:
    """Store these values in the row of a lane, which it may not have yet."""
    await tx.execute(replace_row(lanes, {"lane": lane.key, **row}))
