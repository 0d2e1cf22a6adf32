"""Model calls and tool calls as they happen: a row before the request leaves, closed with its outcome.

Sums and rows for people are read by bot.db.usage. Functions work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, Row, and_, bindparam, case, insert, or_, select, update

from bot.db.conversations.attachments import load_tool_images, store_tool_images
from bot.db.portable_sql import ListMembership, upsert
from bot.db.tables import lanes, model_calls, tool_calls, turns
from bot.db.transaction import Transaction
from bot.domain import (
    BRAKE_FINISH_REASON,
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

RepeatReason = Literal["restart", "yielded"]
"""Why a call is made again that was interrupted.

`restart`: the gateway was stopped or killed. `yielded`: the task had given way to a person's message.
"""

# Statements that every message needs are built once: building one costs more than running it.
_CALL_KEY = ["turn", "step", "call_id"]
_INSERT_TOOL_CALL = upsert(tool_calls).on_conflict_do_nothing(index_elements=_CALL_KEY)

# A refusal also ends a call that waits for an approval, but never overwrites an outcome.
_INSERT_REFUSED = upsert(tool_calls)
_UPSERT_REFUSED = _INSERT_REFUSED.on_conflict_do_update(
    index_elements=_CALL_KEY,
    set_={
        name: _INSERT_REFUSED.excluded[name] for name in ("state", "outcome", "refusal", "result", "ended_at")
    },
    where=tool_calls.c.outcome.is_(None),
)
_INSERT_MODEL_CALL = insert(model_calls).returning(model_calls.c.id)
_UPDATE_MODEL_CALL = update(model_calls).where(model_calls.c.id == bindparam("which_call"))
_REPLY_COLUMNS: tuple[Column[Any], ...] = (
    model_calls.c.reply,
    model_calls.c.created_at,
    model_calls.c.completion_tokens,
    model_calls.c.reasoning_tokens,
    model_calls.c.blocks,
    model_calls.c.outcome,
)
_SELECT_SUCCESSES = (
    select(tool_calls.c.call_id, tool_calls.c.name, tool_calls.c.arguments, tool_calls.c.result)
    .where(ListMembership(tool_calls.c.turn, "turns"))
    .where(tool_calls.c.outcome == "ok", tool_calls.c.result.is_not(None))
    .order_by(tool_calls.c.id.desc())
    .limit(bindparam("row_limit"))
)


# Why a call was interrupted that its turn makes again; stored as its error.
PROCESS_ENDED = "the process ended"
GATEWAY_STOPPED = "the gateway was stopped"
GAVE_WAY = "it gave way to a message"
_REPEATED_REASONS: Mapping[str, RepeatReason] = {
    PROCESS_ENDED: "restart",
    GATEWAY_STOPPED: "restart",
    GAVE_WAY: "yielded",
}


@dataclass(frozen=True, slots=True)
class NewCall:
    """A model call about to be made.

    `again`: why it repeats a call: a bot.agent.events.RetryReason, a RepeatReason, "blind" (without images),
    "away" or "refused" (by the endpoint), "main" or "fallback" (it goes on there); None: it repeats none.
    `chars_…` are characters of the prompt by their origin, `images` is a count.
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
    """A stored tool call. `outcome` None: none is known; it has begun, or waits for an approval."""

    step: int
    call: ToolCall
    outcome: ResultOutcome | None
    text: str | None
    has_begun: bool = True
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class CallCompletion:
    """How a model call ended, to be stored in one transaction with what follows from it."""

    call: int
    reply: Reply | None
    outcome: CallOutcome
    error: str | None = None


@dataclass(frozen=True, slots=True)
class InterruptedCall:
    """A turn's newest call, if it ended with its process or gave way: its step is asked again.

    `reply`: what had come of it; None: that is lost, or nothing had.
    """

    step: int
    repeat_reason: RepeatReason
    reply: Reply | None


async def open_call(tx: Transaction, new_call: NewCall, *, now: float, life: int | None = None) -> int:
    """Store that a call is made; returns its id. `life`: of the process, where the call has no turn yet."""
    inserted = await tx.execute(_INSERT_MODEL_CALL, asdict(new_call) | {"created_at": now, "life": life})
    return int(inserted.scalar_one())


async def assign_to_turn(tx: Transaction, call: int, turn: int) -> None:
    """Assign a call made before its turn began to that turn."""
    await tx.execute(update(model_calls).where(model_calls.c.id == call).values(turn=turn))


async def close_call(tx: Transaction, completion: CallCompletion, *, now: float) -> None:
    """Store how a call ended; unknown counts stay NULL, with the reason."""
    reply = completion.reply
    row: dict[str, object] = {
        "which_call": completion.call,
        "outcome": completion.outcome,
        "error": completion.error,
        "ended_at": now,
    }
    if reply and reply.model:
        row["model"] = reply.model  # the one that answered
    await tx.execute(_UPDATE_MODEL_CALL, row | _to_columns(reply))


def _to_columns(reply: Reply | None) -> dict[str, object]:
    if reply is None:
        return {"usage_missing": "the call ended before anything came"}
    usage = reply.usage
    times = reply.times
    columns: dict[str, object] = {
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
        "server_ms": json.dumps(dict(reply.server_timings)) if reply.server_timings else None,
        "blocks": reply.blocks,
        "block_ms": _to_milliseconds(times) if times.blocks else None,
        "finish_reason": reply.finish_reason,
        "request_id": reply.request_id,
        "fingerprint": reply.fingerprint,
        "reply": _to_json(reply),
    }
    if times.ended is not None:
        columns["ended_at"] = times.ended
    return columns


def _to_milliseconds(times: CallTimes) -> str:
    return json.dumps([round(1000 * (moment - times.created)) for moment in times.blocks])


def _to_json(reply: Reply) -> str:
    fields = {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "calls": [asdict(call) for call in reply.calls],
        "finish_reason": reply.finish_reason,
    }
    return json.dumps(fields, ensure_ascii=False)


async def abandon_model_calls(tx: Transaction, turn: int, *, now: float, reason: str = PROCESS_ENDED) -> None:
    """Mark a turn's open model calls as broken off; their usage is unknown."""
    await _abandon(tx, model_calls.c.turn == turn, reason, now)


async def abandon_calls_without_turn(tx: Transaction, lives: Collection[int] = (), *, now: float) -> None:
    """Mark the open model calls without a turn as broken off, but for those of processes that still live."""
    is_gone = or_(model_calls.c.life.is_(None), model_calls.c.life.not_in(lives))
    await _abandon(tx, and_(model_calls.c.turn.is_(None), is_gone), PROCESS_ENDED, now)


async def _abandon(tx: Transaction, condition: ColumnElement[bool], reason: str, now: float) -> None:
    lost = {"outcome": "cancelled", "error": reason, "usage_missing": reason, "ended_at": now}
    await tx.execute(update(model_calls).where(condition, model_calls.c.outcome.is_(None)).values(lost))


async def abandon_tool_calls(tx: Transaction, turn: int, *, now: float) -> None:
    """End a turn's open tool calls: the outcome of those that ran is unknown; held ones did not run."""
    open_rows = (tool_calls.c.turn == turn) & tool_calls.c.outcome.is_(None)
    outcome = case((tool_calls.c.state == "wanted", "interrupted"), else_="unknown")
    await tx.execute(update(tool_calls).where(open_rows).values(state="done", outcome=outcome, ended_at=now))


async def find_last_use(tx: Transaction, endpoint: str) -> float | None:
    """When this endpoint was last called (epoch seconds); None if it never was."""
    newest = select(model_calls.c.created_at).where(model_calls.c.endpoint == endpoint)
    return (await tx.execute(newest.order_by(model_calls.c.created_at.desc()).limit(1))).scalar_one_or_none()


async def find_first_prompt_tokens(tx: Transaction, turn: int) -> tuple[int | None, int | None]:
    """Prompt and cached tokens of a turn's first call, as the server counted them; None where it did not."""
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
    row = (await tx.execute(query)).one_or_none()
    if row is None:
        return None, None
    return row.prompt_tokens, row.cached_tokens


def _is_turn_call(turn: int) -> ColumnElement[bool]:
    """The condition for the steps of a turn: a typed read that was made before it began is none of them."""
    return and_(model_calls.c.turn == turn, model_calls.c.purpose == "turn")


async def load_replies(tx: Transaction, turn: int) -> list[Reply]:
    """The replies of a turn's finished calls, in order, for replay; those that our brake cut are finished."""
    finished = (model_calls.c.outcome == "ok") | (model_calls.c.finish_reason == BRAKE_FINISH_REASON)
    query = select(*_REPLY_COLUMNS).where(_is_turn_call(turn), finished).order_by(model_calls.c.id)
    return [_to_reply(row) for row in await tx.execute(query)]


async def find_interrupted_call(tx: Transaction, turn: int) -> InterruptedCall | None:
    """The turn's newest call, if it has to be made again."""
    columns = (*_REPLY_COLUMNS, model_calls.c.step, model_calls.c.error)
    query = select(*columns).where(_is_turn_call(turn)).order_by(model_calls.c.id.desc()).limit(1)
    newest = (await tx.execute(query)).one_or_none()
    if newest is None or newest.outcome == "ok" or newest.error not in _REPEATED_REASONS:
        return None
    reply = None if newest.reply is None else _to_reply(newest)
    return InterruptedCall(newest.step, _REPEATED_REASONS[newest.error], reply)


def _to_reply(row: Row[Any]) -> Reply:
    """Rebuild a reply with everything that decides how its turn continues."""
    fields = json.loads(row.reply)
    calls = tuple(ToolCall(**call) for call in fields["calls"])
    usage = Usage(completion_tokens=row.completion_tokens, reasoning_tokens=row.reasoning_tokens)
    times = CallTimes(row.created_at)
    return Reply(
        fields["text"], fields["reasoning"], calls, fields["finish_reason"], usage, times, row.blocks
    )


async def insert_tool_calls(
    tx: Transaction,
    turn: int,
    step: int,
    calls: Iterable[ToolCall],
    refused: Iterable[ToolResult] = (),
    *,
    now: float,
) -> None:
    """Store the calls that are about to run, and refused ones with the text the model reads instead.

    Calls that were stored before, because a step is done again after a restart, stay as they are.
    """
    rows = [_build_tool_row(turn, step, call, {"state": "running", "began_at": now}) for call in calls]
    ending = {"state": "done", "outcome": "refused", "began_at": now, "ended_at": now}
    refused_rows = [
        _build_tool_row(turn, step, result.call, ending | {"refusal": result.refusal, "result": result.text})
        for result in refused
    ]
    if rows:
        await tx.execute(_INSERT_TOOL_CALL, rows)
    if refused_rows:
        await tx.execute(_UPSERT_REFUSED, refused_rows)


async def hold_tool_calls(tx: Transaction, turn: int, step: int, calls: Iterable[ToolCall]) -> None:
    """Store calls that a person has to allow before they run."""
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
    tx: Transaction, turn: int, step: int, calls: Iterable[ToolCall], *, now: float
) -> None:
    """Store that held calls are about to run."""
    ids = [call.id for call in calls]
    in_step = (tool_calls.c.turn == turn) & (tool_calls.c.step == step) & tool_calls.c.call_id.in_(ids)
    held = update(tool_calls).where(in_step, tool_calls.c.state == "wanted")
    await tx.execute(held.values(state="running", began_at=now))


async def store_tool_result(tx: Transaction, turn: int, step: int, result: ToolResult, *, now: float) -> None:
    """Store the outcome and the result of a tool call, with its pictures."""
    size = result.full_length
    if size is None:
        size = len(result.text if result.full_text is None else result.full_text)
    columns = {"outcome": result.outcome, "result": result.text, "whole": result.full_text, "size": size}
    call = update(tool_calls).where(_is_tool_call(turn, step, result.call.id))
    await tx.execute(call.values(state="done", ended_at=now, **columns))
    await store_tool_images(tx, turn, result)


async def find_result_number(tx: Transaction, turn: int, step: int, call_id: str) -> int:
    """The number by which the model reads more of a result."""
    query = select(tool_calls.c.id).where(_is_tool_call(turn, step, call_id))
    return int((await tx.execute(query)).scalar_one())


def _is_tool_call(turn: int, step: int, call_id: str) -> ColumnElement[bool]:
    return and_(tool_calls.c.turn == turn, tool_calls.c.step == step, tool_calls.c.call_id == call_id)


async def load_whole_result(tx: Transaction, lane: Lane, number: int) -> str | None:
    """The full text of a result that was cut, if it belongs to the lane's current conversation; else None."""
    current = select(lanes.c.conversation).where(lanes.c.lane == lane.key).scalar_subquery()
    in_conversation = and_(turns.c.lane == lane.key, turns.c.conversation == current)
    query = select(tool_calls.c.whole).join(turns, turns.c.id == tool_calls.c.turn)
    return (await tx.execute(query.where(in_conversation, tool_calls.c.id == number))).scalar_one_or_none()


async def load_successes(tx: Transaction, turn_ids: Sequence[int], *, limit: int) -> tuple[ToolResult, ...]:
    """What tools returned to these turns, in order, without pictures; of many results the newest."""
    if not turn_ids:
        return ()
    rows = await tx.execute(_SELECT_SUCCESSES, {"turns": turn_ids, "row_limit": limit})
    newest = [ToolResult(ToolCall(row.call_id, row.name, row.arguments), row.result, "ok") for row in rows]
    return tuple(reversed(newest))


async def load_tool_results(tx: Transaction, turn: int) -> list[StoredResult]:
    """The tool calls of a turn, in order."""
    query = select(tool_calls).where(tool_calls.c.turn == turn).order_by(tool_calls.c.id)
    images = await load_tool_images(tx, [turn])
    return [
        StoredResult(
            step=row.step,
            call=ToolCall(row.call_id, row.name, row.arguments),
            outcome=row.outcome,
            text=row.result,
            has_begun=row.state != "wanted",
            images=images.get((turn, row.call_id), ()),
        )
        for row in await tx.execute(query)
    ]
