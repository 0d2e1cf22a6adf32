"""The rows from which the account of a turn is made: its model calls, its tools, and the messages that answered it.

Reads only. What the times amount to is the usage room's to judge.
"""

from dataclasses import dataclass

from sqlalchemy import Row, and_, exists, not_, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import inbox, model_calls, outbox, tool_calls, turns

_SETTLED = ("done", "failed", "unknown")
_ITEM = inbox.alias("of_turn")
_CAME = exists().where(_ITEM.c.turn == turns.c.id, _ITEM.c.body.contains('"file_id":')).label("came")


@dataclass(frozen=True, slots=True)
class CallRow:
    """A model call. Times are epoch seconds; tokens are the server's counts, None where it gave none."""

    created_at: float
    seat_at: float | None
    first_block_at: float | None
    last_block_at: float | None
    ended_at: float | None
    outcome: str | None
    again: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    partial: bool


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool call; `arguments` is JSON text, `result` what the model read."""

    name: str
    arguments: str
    outcome: str | None
    result: str | None
    began_at: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class PartRow:
    """A message of the answer: stored, first sent, and standing there in its final words."""

    message_id: int | None
    made_at: float
    sent_at: float | None
    done_at: float | None


@dataclass(frozen=True, slots=True)
class TurnRow:
    """An ended turn with all that belongs to it. `received_at` is when getUpdates had returned its first message.

    `gathered_at` is when all that came with its messages was fetched and read, None if nothing came with them.
    """

    id: int
    ending: str
    received_at: float
    taken_at: float | None
    ended_at: float
    calls: tuple[CallRow, ...]
    tools: tuple[ToolRow, ...]
    parts: tuple[PartRow, ...]
    gathered_at: float | None = None


async def delivered(tx: AsyncConnection, *, after: int = 0) -> list[TurnRow]:
    """The ended turns with an id above `after` whose every message has reached Telegram or was given up, in order."""
    waiting = or_(~outbox.c.final, outbox.c.state.not_in(_SETTLED))
    query = (
        select(turns, inbox.c.taken_at, _CAME)
        .join(inbox, inbox.c.id == turns.c.item)
        .where(turns.c.id > after, turns.c.ended_at.is_not(None))
        .where(~exists().where(outbox.c.item == turns.c.item, waiting))
        .order_by(turns.c.id)
    )
    return [await _turn(tx, row) for row in (await tx.execute(query)).all()]


async def settled(tx: AsyncConnection, update_id: int | None = None) -> bool:
    """Whether nothing waits to be done or delivered, and this update, if one is named, has been stored."""
    busy = or_(
        exists().where(inbox.c.state.in_(("new", "running"))),
        exists().where(outbox.c.state.in_(("new", "sending", "open"))),
    )
    known = true() if update_id is None else exists().where(inbox.c.update_id == update_id)
    return bool((await tx.execute(select(and_(known, not_(busy))))).scalar_one())


async def _turn(tx: AsyncConnection, row: Row[tuple[object, ...]]) -> TurnRow:
    calls = select(model_calls).where(model_calls.c.turn == row.id).order_by(model_calls.c.id)
    tools = select(tool_calls).where(tool_calls.c.turn == row.id).order_by(tool_calls.c.id)
    parts = select(outbox).where(outbox.c.item == row.item, outbox.c.body.is_not(None)).order_by(outbox.c.part)
    return TurnRow(
        row.id,
        row.ending,
        row.received_at,
        row.taken_at,
        row.ended_at,
        tuple(_call(call) for call in await tx.execute(calls)),
        tuple(
            ToolRow(tool.name, tool.arguments, tool.outcome, tool.result, tool.began_at, tool.ended_at)
            for tool in await tx.execute(tools)
        ),
        tuple(PartRow(part.message_id, part.made_at, part.sent_at, part.done_at) for part in await tx.execute(parts)),
        row.began_at if row.came else None,
    )


def _call(row: Row[tuple[object, ...]]) -> CallRow:
    return CallRow(
        created_at=row.created_at,
        seat_at=row.seat_at,
        first_block_at=row.first_block_at,
        last_block_at=row.last_block_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        again=row.again,
        input_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        output_tokens=row.completion_tokens,
        partial=row.usage_partial,
    )
