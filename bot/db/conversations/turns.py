"""Turns and their messages. Functions work inside the caller's transaction `tx`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

from sqlalchemy import and_, bindparam, case, delete, exists, func, insert, select, update

from bot.db.conversations import calls
from bot.db.conversations.attachments import load_message_images, load_tool_images
from bot.db.portable_sql import ListMembership, upsert
from bot.db.tables import attachments, inbox, messages, tool_images, turns
from bot.db.transaction import Transaction
from bot.domain import EndpointRole, Image, Lane, Message, ToolCall

DEEP_REASON = "/deep asked for it"
"""Why a turn is at the second endpoint, if the person wanted it there."""

MIN_WINDOW_TURNS = 512
"""The turns of a long conversation that are always loaded; older ones leave in steps of as many."""

RECENT_TURNS = 8
"""Turns whose tools are offered again first where a prompt cannot offer all."""

# Statements that every message needs are built once: building one costs more than running it.
_INSERT_TURN = upsert(turns).on_conflict_do_nothing(index_elements=["item"]).returning(turns.c.id)
_ASSIGN_ITEMS = (
    update(inbox)
    .where(ListMembership(inbox.c.id, "ids"))
    .values(turn=bindparam("turn_id"))
    .returning(inbox.c.stopped)
)

# The past turns of a conversation, the oldest first: 512 to 1023 of them once there are so many. The window
# moves by 512 turns at a time: a prompt whose beginning moved with every turn would miss the prefix cache.
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
        turns.c.received_at,
        turns.c.used,
    )
    .where(*_IS_ENDED)
    .order_by(turns.c.ended_at, turns.c.id)
    .limit(2 * MIN_WINDOW_TURNS)
    .offset(case((_WINDOW_STEPS > 0, _WINDOW_STEPS), else_=0) * MIN_WINDOW_TURNS)
)

# In the order of an index (lane, conversation, state, ended_at) read backwards, so that nothing is sorted.
_SELECT_USED_TOOLS = (
    select(turns.c.used)
    .where(turns.c.lane == bindparam("key"))
    .order_by(turns.c.conversation.desc(), turns.c.state.desc(), turns.c.ended_at.desc().nulls_last())
    .limit(RECENT_TURNS)
)
_HAS_IMAGE = (
    exists().where(attachments.c.message == messages.c.id, attachments.c.kind == "image").label("has_image")
)
_HAS_TOOL_IMAGE = (
    exists()
    .where(
        tool_images.c.turn == messages.c.turn,
        tool_images.c.call_id == messages.c.call_id,
        messages.c.role == "tool",
    )
    .label("has_tool_image")
)
_SELECT_MESSAGES = (
    select(
        messages.c.id,
        messages.c.turn,
        messages.c.role,
        messages.c.text,
        messages.c.calls,
        messages.c.call_id,
        messages.c.reasoning,
        _HAS_IMAGE,
        _HAS_TOOL_IMAGE,
    )
    .where(ListMembership(messages.c.turn, "turns"))
    .order_by(messages.c.id)
)
_INSERT_MESSAGES = insert(messages)
_SELECT_ENDPOINT = select(turns.c.endpoint).where(turns.c.id == bindparam("turn_id"))
_UPDATE_ENDPOINT = update(turns).where(turns.c.id == bindparam("turn_id"))
_END_TURN = update(turns).where(turns.c.id == bindparam("turn_id")).values(state="ended", preface="")


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
    preface: str = ""


@dataclass(frozen=True, slots=True)
class InsertedTurn:
    """A turn just stored, and whether a /stop has already met it."""

    id: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class PastTurn:
    """An ended turn of the conversation, as later prompts need it.

    `size`: estimated tokens it takes in a prompt. `short`: the same with its tool results shortened.
    `prompt`: estimated tokens of its own first prompt. `counted`: what the server counted for that prompt.
    `used`: names of the tools it called.
    """

    id: int
    size: int
    short: int
    prompt: int | None
    counted: int | None
    thinking: bool
    received_at: float
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What the assistant said last in a lane, and when its turn ended (epoch seconds)."""

    text: str
    ended_at: float


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, and what later prompts need of it: see PastTurn."""

    ending: str
    prompt: int
    size: int
    short: int
    counted: int | None
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A stored turn: what was decided about it, its user messages, and all messages since."""

    id: int
    conversation: int
    tools: tuple[str, ...]
    thinking: bool
    state: str
    preface: str
    user_messages: tuple[Message, ...]
    agent_messages: tuple[Message, ...]


async def open_turn(
    tx: Transaction,
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
    stopped = any((await tx.execute(_ASSIGN_ITEMS, {"ids": list(items), "turn_id": turn})).scalars())
    await append_messages(tx, turn, user_messages, now=now)
    return InsertedTurn(turn, stopped)


async def has_turn(tx: Transaction, item: int) -> bool:
    """Whether this item has begun a turn."""
    return (await tx.execute(select(turns.c.id).where(turns.c.item == item))).one_or_none() is not None


async def load_endpoint(tx: Transaction, turn: int) -> EndpointRole:
    """The endpoint at which a turn is answered."""
    endpoint: EndpointRole = (await tx.execute(_SELECT_ENDPOINT, {"turn_id": turn})).scalar_one()
    return endpoint


async def set_endpoint(tx: Transaction, turn: int, endpoint: EndpointRole, reason: str) -> None:
    """Let a turn be answered at this endpoint from now on."""
    await tx.execute(_UPDATE_ENDPOINT, {"turn_id": turn, "endpoint": endpoint, "endpoint_why": reason})


async def find(tx: Transaction, item: int) -> StoredTurn | None:
    """The turn an inbox item began; None if it began none."""
    row = (await tx.execute(select(turns).where(turns.c.item == item))).one_or_none()
    if row is None:
        return None
    messages_so_far = (await load_messages(tx, [row.id]))[0]
    return StoredTurn(
        id=row.id,
        conversation=row.conversation,
        tools=_parse_names(row.tools),
        thinking=row.thinking,
        state=row.state,
        preface=row.preface,
        user_messages=tuple(message for message in messages_so_far if message.role == "user"),
        agent_messages=tuple(message for message in messages_so_far if message.role != "user"),
    )


async def is_stopped(tx: Transaction, turn: int) -> bool:
    """Whether a /stop has met a message that the turn answers."""
    stopped_item = select(inbox.c.id).where(inbox.c.turn == turn, inbox.c.stopped.is_(True)).limit(1)
    return (await tx.execute(stopped_item)).one_or_none() is not None


async def list_past_turns(tx: Transaction, lane: Lane, conversation: int) -> list[PastTurn]:
    """The conversation's ended turns in the order they ended; of a very long one, the newest."""
    rows = await tx.execute(_SELECT_PAST_TURNS, {"key": lane.key, "number": conversation})
    return [
        PastTurn(turn, size, short, prompt, counted, thinking, received_at, _parse_names(used))
        for turn, size, short, prompt, counted, thinking, received_at, used in rows
    ]


def index_after(past_turns: Sequence[PastTurn], turn_id: int | None) -> int:
    """Index of the turn after this one; if it was replaced, of the first that began after it."""
    for index, turn in enumerate(past_turns):
        if turn.id == turn_id:
            return index + 1
    return sum(turn.id < (turn_id or 0) for turn in past_turns)


async def list_answer_turns(tx: Transaction, turn_ids: Sequence[int]) -> list[int]:
    """The last of these turns, and before it those that it continues, one after the other."""
    first = len(turn_ids)
    while first > 0:
        first -= 1
        body = select(inbox.c.body).join(turns, turns.c.item == inbox.c.id)
        request = (await tx.execute(body.where(turns.c.id == turn_ids[first]))).scalar_one_or_none()
        if not json.loads(request or "{}").get("goes_on"):
            break
    return list(turn_ids[first:])


async def list_recent_tools(tx: Transaction, lane: Lane) -> list[str]:
    """Names of the tools that a lane's newest turns used, also in earlier conversations, the newest first."""
    rows = (await tx.execute(_SELECT_USED_TOOLS, {"key": lane.key})).scalars()
    return list(dict.fromkeys(name for used in rows for name in _parse_names(used)))


async def load_messages(tx: Transaction, turn_ids: Sequence[int]) -> list[list[Message]]:
    """The messages of these turns with their images: one list for each turn, in the order of `turn_ids`."""
    if not turn_ids:
        return []
    by_turn: dict[int, list[Message]] = {turn: [] for turn in turn_ids}
    rows = (await tx.execute(_SELECT_MESSAGES, {"turns": list(turn_ids)})).all()
    message_images: dict[int, tuple[Image, ...]] = {}
    if with_image := [row.id for row in rows if row.has_image]:
        message_images = await load_message_images(tx, with_image)
    tool_results: dict[tuple[int, str], tuple[Image, ...]] = {}
    if any(row.has_tool_image for row in rows):
        tool_results = await load_tool_images(tx, turn_ids)
    # By position: a long conversation has hundreds of rows.
    for message_id, turn, role, text, tool_calls, call_id, reasoning, _, has_tool_image in rows:
        images = message_images.get(message_id, ())
        if has_tool_image:
            images = tool_results.get((turn, call_id), ())
        message = Message(role, text, _parse_calls(tool_calls), call_id, reasoning, images)
        by_turn[turn].append(message)
    return list(by_turn.values())


async def find_last_answer(
    tx: Transaction, lane: Lane, conversation: int, *, since: float
) -> LastAnswer | None:
    """The answer of the conversation's newest turn, if it ended since then (epoch seconds)."""
    is_newer = and_(turns.c.state == "ended", turns.c.ended_at >= since)
    ended = select(turns.c.id, turns.c.ended_at).where(
        turns.c.lane == lane.key, turns.c.conversation == conversation, is_newer
    )
    newest = (await tx.execute(ended.order_by(turns.c.ended_at.desc()).limit(1))).one_or_none()
    if newest is None:
        return None
    is_answer = and_(messages.c.role == "assistant", messages.c.text != "")
    texts = select(messages.c.text).where(messages.c.turn == newest.id, is_answer)
    text = (await tx.execute(texts.order_by(messages.c.id.desc()).limit(1))).scalar()
    return LastAnswer(text, newest.ended_at) if text else None


async def append_messages(tx: Transaction, turn: int, new_messages: Iterable[Message], *, now: float) -> None:
    """Append messages to a turn."""
    rows = [
        {
            "turn": turn,
            "role": message.role,
            "text": message.text,
            "calls": _serialize_calls(message.calls),
            "call_id": message.call_id,
            "reasoning": message.reasoning,
            "made_at": now,
        }
        for message in new_messages
    ]
    if rows:
        await tx.execute(_INSERT_MESSAGES, rows)


async def delete_agent_messages(tx: Transaction, turn: int) -> None:
    """Delete all messages of a turn but those of the person."""
    await tx.execute(delete(messages).where(messages.c.turn == turn, messages.c.role != "user"))


async def end(tx: Transaction, turn: int, turn_end: TurnEnd, *, now: float) -> None:
    """End a turn; from now on it is part of its conversation."""
    row = {"turn_id": turn, **asdict(turn_end), "used": json.dumps(turn_end.used), "ended_at": now}
    await tx.execute(_END_TURN, row)


async def fail(tx: Transaction, item: int, *, reason: str, now: float) -> bool:
    """End the open turn this item began, and its calls, without an answer and outside its conversation.

    False if there is no such turn.
    """
    open_turn_of_item = and_(turns.c.item == item, turns.c.state.in_(("running", "parked")))
    failed = (
        update(turns)
        .where(open_turn_of_item)
        .values(state="failed", ending="failed", preface="", ended_at=now)
    )
    turn = (await tx.execute(failed.returning(turns.c.id))).scalar_one_or_none()
    if turn is None:
        return False
    await calls.abandon_model_calls(tx, turn, now=now, reason=reason)
    await calls.abandon_tool_calls(tx, turn, now=now)
    # Spans that are not NULL mark a turn whose account is still to be made.
    spans = func.coalesce(inbox.c.spans, "[]")
    await tx.execute(update(inbox).where(inbox.c.id == item).values(spans=spans))
    return True


def _serialize_calls(calls_of_message: Sequence[ToolCall]) -> str | None:
    if not calls_of_message:
        return None
    return json.dumps([asdict(call) for call in calls_of_message], ensure_ascii=False)


def _parse_calls(text: str | None) -> tuple[ToolCall, ...]:
    if not text:
        return ()
    return tuple(ToolCall(**call) for call in json.loads(text))


@lru_cache  # most turns used no tools
def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))
