"""A lane's current conversation: its notes and tools, and how far its prompt has been cut. Works inside `tx`.

A conversation is the sequence of a lane's ended turns in the order they ended, since the last /new.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import lanes
from bot.domain import Lane

# Built once: building a statement costs more than running it.
_SELECT_LANE = select(lanes).where(lanes.c.lane == bindparam("key"))
_CLEARED_COLUMNS: dict[str, Any] = {
    "notes": None,
    "tools": None,
    "cut": None,
    "shortened": None,
    "told_cut": False,
    "summary": None,
    "summary_ahead": None,
    "summary_upto": None,
}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a lane's current conversation stands; `notes`, and names of the `tools` it offers, are None until
    it has begun.

    `cut` and `shortened` name the newest turn that has left the prompt, and the newest that is told in short.
    `ahead` is a summary of what leaves next, `upto` the newest turn it tells of. `over`: a later one has
    begun.
    """

    number: int = 1
    notes: str | None = None
    think: Literal["auto", "on", "off"] | None = None
    cut: int | None = None
    shortened: int | None = None
    told_cut: bool = False
    summary: str | None = None
    summary_ahead: str | None = None
    summary_upto: int | None = None
    tools: tuple[str, ...] | None = None
    is_over: bool = False


async def find(tx: AsyncConnection, lane: Lane) -> Conversation:
    """The lane's current conversation."""
    found = (await tx.execute(_SELECT_LANE, {"key": lane.key})).one_or_none()
    if found is None:
        return Conversation()
    return Conversation(
        found.conversation,
        found.notes,
        found.think,
        found.cut,
        found.shortened,
        found.told_cut,
        found.summary,
        found.summary_ahead,
        found.summary_upto,
        None if found.tools is None else tuple(json.loads(found.tools)),
    )


async def begin(tx: AsyncConnection, lane: Lane, number: int, notes: str, tools: Iterable[str]) -> None:
    """The conversation's first turn: the chat's notes and tools are kept as they stand, so that its prompts
    begin alike.
    """
    await _upsert_lane(tx, lane, {"conversation": number, "notes": notes, "tools": json.dumps([*tools])})


async def start_new(tx: AsyncConnection, lane: Lane) -> None:
    """A /new: later turns see nothing of the earlier ones."""
    number = (await find(tx, lane)).number + 1
    await _upsert_lane(tx, lane, {"conversation": number, **_CLEARED_COLUMNS})


async def store_cut(tx: AsyncConnection, lane: Lane, conversation: Conversation) -> None:
    """The prompt was cut: what it holds from now on, and the tools, the notes and the summary it begins with."""
    row: dict[str, Any] = {
        "notes": conversation.notes,
        "cut": conversation.cut,
        "shortened": conversation.shortened,
        "summary": conversation.summary,
    }
    row |= {
        "summary_ahead": conversation.summary_ahead,
        "summary_upto": conversation.summary_upto,
        "tools": json.dumps(conversation.tools),
    }
    await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(row))


async def mark_cut_told(tx: AsyncConnection, lane: Lane) -> None:
    """The chat is told that something has left the prompt, and is not told again in this conversation."""
    await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(told_cut=True))


async def store_summary_ahead(
    tx: AsyncConnection, lane: Lane, number: int, text: str, last_turn: int
) -> None:
    """A summary is ready for the next cut, unless the conversation it tells of is over."""
    here = (lanes.c.lane == lane.key) & (lanes.c.conversation == number)
    await tx.execute(update(lanes).where(here).values(summary_ahead=text, summary_upto=last_turn))


async def _upsert_lane(tx: AsyncConnection, lane: Lane, row: dict[str, Any]) -> None:
    made = upsert(lanes).values({"lane": lane.key, **row})
    await tx.execute(made.on_conflict_do_update(index_elements=["lane"], set_=row))
