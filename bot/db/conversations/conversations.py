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
_FIND = select(lanes).where(lanes.c.lane == bindparam("key"))
_FORGOTTEN: dict[str, Any] = {
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
    ahead: str | None = None
    upto: int | None = None
    tools: tuple[str, ...] | None = None
    over: bool = False


async def find(tx: AsyncConnection, lane: Lane) -> Conversation:
    """The lane's current conversation."""
    found = (await tx.execute(_FIND, {"key": lane.key})).one_or_none()
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
    await _put(tx, lane, {"conversation": number, "notes": notes, "tools": json.dumps([*tools])})


async def new(tx: AsyncConnection, lane: Lane) -> None:
    """A /new: later turns see nothing of the earlier ones."""
    number = (await find(tx, lane)).number + 1
    await _put(tx, lane, {"conversation": number, **_FORGOTTEN})


async def cut(tx: AsyncConnection, lane: Lane, now: Conversation) -> None:
    """The prompt was cut: what it holds from now on, and the tools, the notes and the summary it begins with."""
    row: dict[str, Any] = {
        "notes": now.notes,
        "cut": now.cut,
        "shortened": now.shortened,
        "summary": now.summary,
    }
    row |= {"summary_ahead": now.ahead, "summary_upto": now.upto, "tools": json.dumps(now.tools)}
    await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(row))


async def tell_cut(tx: AsyncConnection, lane: Lane) -> None:
    """The chat is told that something has left the prompt, and is not told again in this conversation."""
    await tx.execute(update(lanes).where(lanes.c.lane == lane.key).values(told_cut=True))


async def tell_ahead(tx: AsyncConnection, lane: Lane, number: int, text: str, upto: int) -> None:
    """A summary is ready for the next cut, unless the conversation it tells of is over."""
    here = (lanes.c.lane == lane.key) & (lanes.c.conversation == number)
    await tx.execute(update(lanes).where(here).values(summary_ahead=text, summary_upto=upto))


async def _put(tx: AsyncConnection, lane: Lane, row: dict[str, Any]) -> None:
    made = upsert(lanes).values({"lane": lane.key, **row})
    await tx.execute(made.on_conflict_do_update(index_elements=["lane"], set_=row))
