"""Model calls and tool calls as they happen: a row before the request leaves, closed with what came of it.

Functions work inside the caller's transaction `tx`. Reading sums and rows for people is usage.py's.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Row, and_, bindparam, case, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.conversations.attachments import load_tool_images, store_tool_images
from bot.db.tables import lanes, model_calls, tool_calls, turns
from bot.domain import (
    CallOutcome,
    CallPurpose,
    CallTimes,
    Image,
    Lane,
    Reply,
    ResultOutcome,
    ToolCall,
    ToolResult,
    Usage,
)

# Statements of the way of every message are built once: building one costs more than running it.
_CALL_KEY = ["turn", "step", "call_id"]
_INSERT_TOOL_CALL = upsert(tool_calls).on_conflict_do_nothing(index_elements=_CALL_KEY)
_INSERT_REFUSED = upsert(tool_calls)
_UPSERT_REFUSED = _INSERT_REFUSED.on_conflict_do_update(
    index_elements=_CALL_KEY,
    set_={name: _INSERT_REFUSED.excluded[name] for name in ("state", "outcome", "result", "ended_at")},
    where=tool_calls.c.outcome.is_(None),
)
_INSERT_MODEL_CALL = insert(model_calls).returning(model_calls.c.id)
_UPDATE_MODEL_CALL = update(model_calls).where(model_calls.c.id == bindparam("which"))
_REPLY_COLUMNS: tuple[Column[Any], ...] = (
    model_calls.c.reply,
    model_calls.c.created_at,
    model_calls.c.completion_tokens,
    model_calls.c.reasoning_tokens,
    model_calls.c.blocks,
    model_calls.c.outcome,
)

BRAKE_FINISH_REASON = "brake"  # the finish reason of a reply that our side closed


@dataclass(frozen=True, slots=True)
class NewCall:
    """A model call about to be made; the sizes are characters of the prompt by where they come from, `images`
    a count.

    `again` says why it would not have been needed: see bot.agent.events.Again; "away": the endpoint had not
    answered.
    """

    turn: int | None
    step: int
    purpose: CallPurpose
    again: str | None
    endpoint: str
    model: str
    thinking: bool
    tools_offered: int
    chars_system: int
    chars_tools: int
    chars_history: int
    chars_notes: int = 0
    images: int = 0


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A tool call found again; `outcome` None: nothing is known to have come of it, and it `began` or waits."""

    step: int
    call: ToolCall
    outcome: ResultOutcome | None
    text: str | None
    has_begun: bool = True
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class CallCompletion:
    """How an open row ends, to be stored with what follows from it in one transaction."""

    call: int
    reply: Reply | None
    outcome: CallOutcome
    error: str | None = None


async def open_call(tx: AsyncConnection, new_call: NewCall, *, now: float) -> int:
    """Write down that a call is made; returns its id."""
    made = await tx.execute(_INSERT_MODEL_CALL, asdict(new_call) | {"created_at": now})
    return int(made.scalar_one())


async def assign_to_turn(tx: AsyncConnection, call: int, turn: int) -> None:
    """A call made before its turn began is this turn's."""
    await tx.execute(update(model_calls).where(model_calls.c.id == call).values(turn=turn))


async def close_call(tx: AsyncConnection, completion: CallCompletion, *, now: float) -> None:
    """Write down what came of a call; unknown counts stay NULL, with the reason."""
    row = {
        "which": completion.call,
        "outcome": completion.outcome,
        "error": completion.error,
        "ended_at": now,
    }
    if completion.reply and completion.reply.model:
        answered_by = {"model": completion.reply.model}
    else:
        answered_by = {}
    await tx.execute(_UPDATE_MODEL_CALL, row | answered_by | _to_columns(completion.reply))


def _to_columns(reply: Reply | None) -> dict[str, object]:
    if reply is None:
        return {"usage_missing": "the call ended before anything came"}
    usage = reply.usage
    times = reply.times
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "usage_partial": usage.partial,
        "usage_missing": usage.missing_reason,
        "created_at": times.created,
        "seat_at": times.seat,
        "first_block_at": times.first_block,
        "last_block_at": times.last_block,
        **({} if times.ended is None else {"ended_at": times.ended}),
        "server_ms": json.dumps(dict(reply.server_timings)) if reply.server_timings else None,
        "blocks": reply.blocks,
        "finish_reason": reply.finish_reason,
        "request_id": reply.request_id,
        "fingerprint": reply.fingerprint,
        "reply": _to_json(reply),
    }


def _to_json(reply: Reply) -> str:
    kept = {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "calls": [asdict(call) for call in reply.calls],
        "finish_reason": reply.finish_reason,
    }
    return json.dumps(kept, ensure_ascii=False)


async def abandon_model_calls(
    tx: AsyncConnection, turn: int | None, *, now: float, reason: str = "the process ended"
) -> None:
    """Model calls of a turn, or of none, whose end nobody saw failed, and what they took is unknown."""
    open_rows = (model_calls.c.turn == turn) & model_calls.c.outcome.is_(None)
    lost = {"outcome": "failed", "error": reason, "usage_missing": reason, "ended_at": now}
    await tx.execute(update(model_calls).where(open_rows).values(lost))


async def abandon_tool_calls(tx: AsyncConnection, turn: int, *, now: float) -> None:
    """What came of tools whose end nobody saw is unknown; those that waited for a person have not run."""
    open_rows = (tool_calls.c.turn == turn) & tool_calls.c.outcome.is_(None)
    outcome = case((tool_calls.c.state == "wanted", "interrupted"), else_="unknown")
    await tx.execute(update(tool_calls).where(open_rows).values(state="done", outcome=outcome, ended_at=now))


async def find_last_use(tx: AsyncConnection, endpoint: str) -> float | None:
    """When this endpoint was asked last (epoch seconds); None if it never was."""
    newest = select(model_calls.c.created_at).where(model_calls.c.endpoint == endpoint)
    return (await tx.execute(newest.order_by(model_calls.c.created_at.desc()).limit(1))).scalar_one_or_none()


async def find_first_prompt_tokens(tx: AsyncConnection, turn: int) -> tuple[int | None, int | None]:
    """Prompt tokens and cached tokens of a turn's first call, as the server counted them; None where it did
    not.
    """
    query = (
        select(model_calls.c.prompt_tokens, model_calls.c.cached_tokens)
        .where(
            model_calls.c.turn == turn,
            model_calls.c.purpose == "turn",
            model_calls.c.prompt_tokens.is_not(None),
        )
        .order_by(model_calls.c.id)
        .limit(1)
    )
    found = (await tx.execute(query)).one_or_none()
    if found:
        return (found.prompt_tokens, found.cached_tokens)
    return (None, None)


def _is_turn_call(turn: int) -> ColumnElement[bool]:
    """The turn's own calls: a reading that was made before it began is no step of it."""
    return and_(model_calls.c.turn == turn, model_calls.c.purpose == "turn")


async def load_replies(tx: AsyncConnection, turn: int) -> list[Reply]:
    """The replies of a turn's finished calls, in order, to be played again; those cut by our brake are such."""
    finished = (model_calls.c.outcome == "ok") | (model_calls.c.finish_reason == BRAKE_FINISH_REASON)
    query = select(*_REPLY_COLUMNS).where(_is_turn_call(turn), finished).order_by(model_calls.c.id)
    return [_to_reply(row) for row in await tx.execute(query)]


async def load_interrupted_reply(tx: AsyncConnection, turn: int) -> Reply | None:
    """What had come of the turn's newest call when the house went down in good order; None if it did not."""
    query = select(*_REPLY_COLUMNS).where(_is_turn_call(turn)).order_by(model_calls.c.id.desc()).limit(1)
    newest = (await tx.execute(query)).one_or_none()
    if newest is None or newest.outcome != "cancelled" or newest.reply is None:
        return None
    return _to_reply(newest)


def _to_reply(row: Row[Any]) -> Reply:
    """A reply with all that decides how its turn goes on."""
    kept = json.loads(row.reply)
    calls = tuple(ToolCall(**call) for call in kept["calls"])
    usage = Usage(completion_tokens=row.completion_tokens, reasoning_tokens=row.reasoning_tokens)
    times = CallTimes(row.created_at)
    return Reply(kept["text"], kept["reasoning"], calls, kept["finish_reason"], usage, times, row.blocks)


async def insert_tool_calls(
    tx: AsyncConnection,
    turn: int,
    step: int,
    calls: Iterable[ToolCall],
    refused: Iterable[ToolResult] = (),
    *,
    now: float,
) -> None:
    """Write down the tools that are about to run, and those refused with the sentence the model reads
    instead.

    Those of a step that is done again after a restart are there already.
    """
    rows = [_build_tool_row(turn, step, call, {"state": "running", "began_at": now}) for call in calls]
    no = {"state": "done", "outcome": "refused", "began_at": now, "ended_at": now}
    rows_refused = [_build_tool_row(turn, step, one.call, no | {"result": one.text}) for one in refused]
    if rows:
        await tx.execute(_INSERT_TOOL_CALL, rows)
    if rows_refused:
        await tx.execute(_UPSERT_REFUSED, rows_refused)


async def hold_tool_calls(tx: AsyncConnection, turn: int, step: int, calls: Iterable[ToolCall]) -> None:
    """Write down tools that a person has to allow before they run."""
    rows = [_build_tool_row(turn, step, call, {"state": "wanted", "began_at": None}) for call in calls]
    await tx.execute(_INSERT_TOOL_CALL, rows)


def _build_tool_row(
    turn: int, step: int, call: ToolCall, state_columns: dict[str, object]
) -> dict[str, object]:
    return {
        "turn": turn,
        "step": step,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    } | state_columns


async def start_tool_calls(
    tx: AsyncConnection, turn: int, step: int, calls: Iterable[ToolCall], *, now: float
) -> None:
    """Calls that waited for a person are about to run."""
    ids = [call.id for call in calls]
    mine = (tool_calls.c.turn == turn) & (tool_calls.c.step == step) & tool_calls.c.call_id.in_(ids)
    begun = update(tool_calls).where(mine, tool_calls.c.state == "wanted")
    await tx.execute(begun.values(state="running", began_at=now))


async def store_tool_result(
    tx: AsyncConnection, turn: int, step: int, result: ToolResult, *, now: float
) -> None:
    """Write down what came of a tool call."""
    mine = (
        (tool_calls.c.turn == turn) & (tool_calls.c.step == step) & (tool_calls.c.call_id == result.call.id)
    )
    whole = result.text if result.full_text is None else result.full_text
    size = len(whole) if result.full_length is None else result.full_length
    said = {"outcome": result.outcome, "result": result.text, "whole": result.full_text, "size": size}
    await tx.execute(update(tool_calls).where(mine).values(state="done", ended_at=now, **said))
    await store_tool_images(tx, turn, result)


async def find_result_number(tx: AsyncConnection, turn: int, step: int, call_id: str) -> int:
    """The number by which a result is gone on with."""
    mine = (tool_calls.c.turn == turn) & (tool_calls.c.step == step) & (tool_calls.c.call_id == call_id)
    return int((await tx.execute(select(tool_calls.c.id).where(mine))).scalar_one())


async def load_whole_result(tx: AsyncConnection, lane: Lane, number: int) -> str | None:
    """A result of the lane's current conversation that was cut, as it came; None if there is none of this
    number.
    """
    here = select(lanes.c.conversation).where(lanes.c.lane == lane.key).scalar_subquery()
    mine = and_(turns.c.lane == lane.key, turns.c.conversation == here, tool_calls.c.id == number)
    query = select(tool_calls.c.whole).join(turns, turns.c.id == tool_calls.c.turn).where(mine)
    return (await tx.execute(query)).scalar_one_or_none()


async def load_tool_results(tx: AsyncConnection, turn: int) -> list[StoredResult]:
    """The tool calls of a turn, in order."""
    query = select(tool_calls).where(tool_calls.c.turn == turn).order_by(tool_calls.c.id)
    images = await load_tool_images(tx, [turn])
    return [
        StoredResult(
            row.step,
            ToolCall(row.call_id, row.name, row.arguments),
            row.outcome,
            row.result,
            row.state != "wanted",
            images.get((turn, row.call_id), ()),
        )
        for row in await tx.execute(query)
    ]
