"""Turns and the messages they are made of. Functions work inside the caller's transaction `tx`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, case, delete, exists, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.conversations import calls
from bot.db.conversations.attachments import load_message_images, load_tool_images
from bot.db.tables import attachments, inbox, messages, tool_images, turns
from bot.domain import EndpointRole, Image, Lane, Message, ToolCall

# Statements of the way of every message are built once: building one costs more than running it.
_INSERT_TURN = upsert(turns).on_conflict_do_nothing(index_elements=["item"]).returning(turns.c.id)
_ASSIGN_ITEMS = (
    update(inbox)
    .where(inbox.c.id.in_(bindparam("ids", expanding=True)))
    .values(turn=bindparam("of"))
    .returning(inbox.c.stopped)
)
DEEP_REASON = "/deep asked for it"
"""Why a turn is at the second endpoint, if the person wanted it there."""

MIN_WINDOW_TURNS = 512
"""Of a long conversation at least so many turns are looked at; older ones leave in steps of as many, not one
by one.
"""

RECENT_TURNS = 8
"""Turns whose tools are taken to be wanted again where a prompt cannot offer all."""

_IS_ENDED = (
    turns.c.lane == bindparam("key"),
    turns.c.conversation == bindparam("number"),
    turns.c.state == "ended",
)
_WINDOW_STEPS = (
    select(func.count() // MIN_WINDOW_TURNS - 1).select_from(turns).where(*_IS_ENDED).scalar_subquery()
)
_SELECT_PAST_TURNS = (
    select(
        turns.c.id,
        turns.c.size,
        turns.c.short,
        turns.c.prompt,
        turns.c.counted,
        turns.c.thinking,
        turns.c.used,
        turns.c.received_at,
    )
    .where(*_IS_ENDED)
    .order_by(turns.c.ended_at, turns.c.id)
    .limit(2 * MIN_WINDOW_TURNS)
    .offset(case((_WINDOW_STEPS > 0, _WINDOW_STEPS), else_=0) * MIN_WINDOW_TURNS)
)
_SELECT_USED_TOOLS = (
    select(turns.c.used)
    .where(turns.c.lane == bindparam("key"))
    .order_by(turns.c.conversation.desc(), turns.c.state.desc(), turns.c.ended_at.desc())
    .limit(RECENT_TURNS)
)
_HAS_IMAGE = (
    exists().where(attachments.c.message == messages.c.id, attachments.c.kind == "image").label("pictured")
)
_HAS_TOOL_IMAGE = (
    exists()
    .where(
        tool_images.c.turn == messages.c.turn,
        tool_images.c.call_id == messages.c.call_id,
        messages.c.role == "tool",
    )
    .label("shows")
)
_SELECT_MESSAGES = (
    select(messages, _HAS_IMAGE, _HAS_TOOL_IMAGE)
    .where(messages.c.turn.in_(bindparam("turns", expanding=True)))
    .order_by(messages.c.id)
)
_INSERT_MESSAGES = insert(messages)
_SELECT_ENDPOINT = select(turns.c.endpoint).where(turns.c.id == bindparam("which"))
_UPDATE_ENDPOINT = update(turns).where(turns.c.id == bindparam("which"))
_END_TURN = update(turns).where(turns.c.id == bindparam("which")).values(state="ended")


@dataclass(frozen=True, slots=True)
class NewTurn:
    """What is decided about a turn before its first model call."""

    item: int
    lane: Lane
    person: int
    conversation: int
    tools: tuple[str, ...]
    thinking: bool
    thinking_why: str
    received_at: float


@dataclass(frozen=True, slots=True)
class InsertedTurn:
    """A turn just stored, and whether a /stop has already met it."""

    id: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class PastTurn:
    """An ended turn of the conversation: what it takes in a prompt, as it is and in short, in estimated
    tokens.

    `prompt` is the estimate of its own first prompt, `counted` what the server counted for it; `used` its
    tools.
    """

    id: int
    size: int
    short: int
    prompt: int | None
    counted: int | None
    thinking: bool
    used: tuple[str, ...]
    received_at: float


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, and what later prompts must know of it: see PastTurn."""

    ending: str
    prompt: int
    size: int
    short: int
    counted: int | None
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn found again: what was decided, its user messages, and what was said since."""

    id: int
    conversation: int
    tools: tuple[str, ...]
    thinking: bool
    state: str
    stopped: bool
    user_messages: tuple[Message, ...]
    agent_messages: tuple[Message, ...]


async def open_turn(
    tx: AsyncConnection,
    new_turn: NewTurn,
    items: Sequence[int],
    user_messages: Sequence[Message],
    *,
    now: float,
) -> InsertedTurn | None:
    """Store a turn with its user messages; None if its first item has begun a turn before."""
    row = asdict(new_turn) | {
        "lane": new_turn.lane.key,
        "tools": json.dumps(new_turn.tools),
        "state": "running",
        "began_at": now,
    }
    turn = (await tx.execute(_INSERT_TURN, row)).scalar_one_or_none()
    if turn is None:
        return None
    stopped = any((await tx.execute(_ASSIGN_ITEMS, {"ids": list(items), "of": turn})).scalars())
    await append_messages(tx, turn, user_messages, now=now)
    return InsertedTurn(turn, stopped)


async def has_turn(tx: AsyncConnection, item: int) -> bool:
    """Whether this item has begun a turn."""
    return (await tx.execute(select(turns.c.id).where(turns.c.item == item))).one_or_none() is not None


async def find_conversation(tx: AsyncConnection, item: int) -> int | None:
    """The conversation of the turn an item began; None if it began none."""
    number: int | None = (
        await tx.execute(select(turns.c.conversation).where(turns.c.item == item))
    ).scalar_one_or_none()
    return number


async def load_endpoint(tx: AsyncConnection, turn: int) -> EndpointRole:
    """Where a turn is answered."""
    which: EndpointRole = (await tx.execute(_SELECT_ENDPOINT, {"which": turn})).scalar_one()
    return which


async def set_endpoint(tx: AsyncConnection, turn: int, endpoint: EndpointRole, reason: str) -> None:
    """The turn is answered there from now on."""
    await tx.execute(_UPDATE_ENDPOINT, {"which": turn, "endpoint": endpoint, "endpoint_why": reason})


async def find(tx: AsyncConnection, item: int) -> StoredTurn:
    """The turn an inbox item began."""
    found = (await tx.execute(select(turns).where(turns.c.item == item))).one()
    stopped = select(inbox.c.id).where(inbox.c.turn == found.id, inbox.c.stopped.is_(True)).limit(1)
    messages_so_far = (await load_messages(tx, [found.id]))[0]
    return StoredTurn(
        id=found.id,
        conversation=found.conversation,
        tools=_parse_names(found.tools),
        thinking=found.thinking,
        state=found.state,
        stopped=(await tx.execute(stopped)).one_or_none() is not None,
        user_messages=tuple(message for message in messages_so_far if message.role == "user"),
        agent_messages=tuple(message for message in messages_so_far if message.role != "user"),
    )


async def list_past_turns(tx: AsyncConnection, lane: Lane, conversation: int) -> list[PastTurn]:
    """The conversation's ended turns in the order they ended; of a very long one, the newest."""
    return [
        PastTurn(
            row.id,
            row.size,
            row.short,
            row.prompt,
            row.counted,
            row.thinking,
            _parse_names(row.used),
            row.received_at,
        )
        for row in await tx.execute(_SELECT_PAST_TURNS, {"key": lane.key, "number": conversation})
    ]


async def list_recent_tools(tx: AsyncConnection, lane: Lane) -> list[str]:
    """Names of the tools that a lane's newest turns used, the newest first; also those of conversations
    before.
    """
    rows = (await tx.execute(_SELECT_USED_TOOLS, {"key": lane.key})).scalars()
    return list(dict.fromkeys(name for used in rows for name in _parse_names(used)))


async def load_messages(tx: AsyncConnection, turn_ids: Sequence[int]) -> list[list[Message]]:
    """The messages of these turns, a list a turn, in the order of `ids`."""
    if not turn_ids:
        return []
    by_turn: dict[int, list[Message]] = {turn: [] for turn in turn_ids}
    rows = (await tx.execute(_SELECT_MESSAGES, {"turns": list(turn_ids)})).all()
    pictured = [row.id for row in rows if row.pictured]
    images = await load_message_images(tx, pictured) if pictured else {}
    found = await load_tool_images(tx, turn_ids) if any(row.shows for row in rows) else {}
    for row in rows:
        if row.shows:
            seen = found.get((row.turn, row.call_id), ())
        else:
            seen = images.get(row.id, ())
        by_turn[row.turn].append(_to_message(row, seen))
    return list(by_turn.values())


async def append_messages(
    tx: AsyncConnection, turn: int, new_messages: Iterable[Message], *, now: float
) -> None:
    """Append messages to a turn."""
    rows = [
        {
            "turn": turn,
            "role": one.role,
            "text": one.text,
            "calls": json.dumps([asdict(call) for call in one.calls], ensure_ascii=False)
            if one.calls
            else None,
            "call_id": one.call_id,
            "reasoning": one.reasoning,
            "made_at": now,
        }
        for one in new_messages
    ]
    if rows:
        await tx.execute(_INSERT_MESSAGES, rows)


async def delete_agent_messages(tx: AsyncConnection, turn: int) -> None:
    """Take back what was said in a turn; what the person wrote stays."""
    await tx.execute(delete(messages).where(messages.c.turn == turn, messages.c.role != "user"))


async def end(tx: AsyncConnection, turn: int, turn_end: TurnEnd, *, now: float) -> None:
    """The turn is over; from now on it is part of its conversation."""
    row = {"which": turn, **asdict(turn_end), "used": json.dumps(turn_end.used), "ended_at": now}
    await tx.execute(_END_TURN, row)


async def fail(tx: AsyncConnection, item: int, *, reason: str, now: float) -> bool:
    """The turn this item began ends without an answer and outside its conversation, and so do its calls.

    False if there is no such turn.
    """
    failed = {"state": "failed", "ending": "failed", "ended_at": now}
    mine = update(turns).where(turns.c.item == item, turns.c.state.in_(("running", "parked"))).values(failed)
    turn = (await tx.execute(mine.returning(turns.c.id))).scalar_one_or_none()
    if turn is None:
        return False
    await calls.abandon_model_calls(tx, turn, now=now, reason=reason)
    await calls.abandon_tool_calls(tx, turn, now=now)
    unaccounted = func.coalesce(inbox.c.spans, "[]")
    await tx.execute(update(inbox).where(inbox.c.id == item).values(spans=unaccounted))
    return True


def _to_message(row: Row[tuple[object, ...]], images: tuple[Image, ...]) -> Message:
    if row.calls:
        calls = tuple(ToolCall(**call) for call in json.loads(row.calls))
    else:
        calls = ()
    return Message(row.role, row.text, calls, row.call_id, row.reasoning, images)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))
