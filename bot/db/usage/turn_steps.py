"""One turn by its id with everything stored about it: account, model calls, tools and messages.

Only reads. Texts of people, of the model and of tools are read only on request.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, get_args

from sqlalchemy import Select, null, select

from bot.canvases import costs_canvases, count_canvases
from bot.db.tables import (
    accounts,
    approvals,
    inbox,
    messages,
    model_calls,
    outbox,
    share_holds,
    tool_calls,
    turns,
)
from bot.db.transaction import Transaction
from bot.db.usage import speeches
from bot.db.usage.seat_calls import TimedCall
from bot.db.usage.speeches import Speech
from bot.db.usage.usage_sums import BreakdownColumn
from bot.domain import EndpointRole, Lane


@dataclass(frozen=True, slots=True)
class CallStep(TimedCall):
    """A model call with all that is stored about it. `server_ms` is JSON of the server's own timings.

    `block_ms` is JSON of the milliseconds from `created_at` to each of the first blocks; None: not stored.
    `chars_…` are characters of the prompt by their origin; None: not stored.
    """

    step: int
    again: str | None
    model: str
    thinking: bool
    tools_offered: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    usage_partial: bool
    usage_missing: str | None
    first_block_at: float | None
    last_block_at: float | None
    server_ms: str | None
    blocks: int
    finish_reason: str | None
    error: str | None
    chars_system: int | None = None
    chars_tools: int | None = None
    chars_notes: int | None = None
    chars_history: int | None = None
    images: int = 0
    block_ms: str | None = None

    @property
    def canvases(self) -> int | None:
        """Estimated from the output tokens; None: unknown, or it costs none."""
        if self.completion_tokens is None or not costs_canvases(self.purpose):
            return None
        return count_canvases(self.completion_tokens)

    @property
    def block_times(self) -> tuple[float, ...]:
        """When the first blocks came; empty if that is not stored."""
        milliseconds: list[int] = json.loads(self.block_ms or "[]")
        return tuple(self.created_at + number / 1000 for number in milliseconds)


@dataclass(frozen=True, slots=True)
class ToolStep:
    """A tool call.

    `arguments` and `result` are None unless texts were requested. `asked_at`: a person was asked about it;
    they gave an `answer` at `answered_at`. `refusal`: why it was refused, if it was; None: unknown.
    `answered_by` None: no person answered.
    """

    step: int
    name: str
    outcome: str | None
    began_at: float | None
    ended_at: float | None
    arguments: str | None
    result: str | None
    asked_at: float | None = None
    answered_at: float | None = None
    answer: str | None = None
    refusal: str | None = None
    answered_by: int | None = None


@dataclass(frozen=True, slots=True)
class PartStep:
    """A message of the answer and the state of its delivery."""

    state: str
    made_at: float
    sent_at: float | None
    done_at: float | None
    message_id: int | None = None


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """A message of the conversation, with its text."""

    role: str
    text: str
    made_at: float


@dataclass(frozen=True, slots=True)
class TurnTakeover:
    """At `taken_at` a gateway took the turn's chat over from another one, which had it until `left_at`.

    Both are named by the ids of their lives.
    """

    life: int
    taken_at: float
    previous_life: int
    left_at: float


@dataclass(frozen=True, slots=True)
class TurnSteps:
    """A turn step by step.

    `endpoint_why`: why it was answered at that endpoint; None: there was only one. `account` is its seconds
    by kind in the order of a turn, `whole` first; empty until it is settled. `said` is empty unless texts
    were requested. `used`: the names of the tools in its answers, as it ended. `speech`: how its answer was
    read out, beside its account; None: it was not.
    """

    id: int
    chat: str
    user: int
    state: str
    ending: str | None
    thinking: bool
    thinking_why: str
    endpoint: EndpointRole
    endpoint_why: str | None
    received_at: float
    taken_at: float | None
    began_at: float
    ended_at: float | None
    account: dict[str, float]
    calls: tuple[CallStep, ...]
    tools: tuple[ToolStep, ...]
    parts: tuple[PartStep, ...]
    said: tuple[TurnMessage, ...]
    takeovers: tuple[TurnTakeover, ...] = ()
    used: tuple[str, ...] = ()
    speech: Speech | None = None

    @property
    def seconds(self) -> float | None:
        """From its receipt to its delivery; without an account, to its end. None: it has not ended."""
        if self.ended_at is None:
            return None
        return self.account.get("whole", self.ended_at - self.received_at)

    @property
    def settled_at(self) -> float | None:
        """When its last message was delivered or given up; None: it is not, or the turn has not ended."""
        moments = [self.ended_at, *(part.done_at for part in self.parts)]
        known = [moment for moment in moments if moment is not None]
        return max(known) if len(known) == len(moments) else None


CALL_COLUMNS = tuple(model_calls.c[field.name] for field in fields(CallStep))
"""The columns of a CallStep, in the order of its fields."""
_SELECT_TURN = select(
    turns.c.id,
    turns.c.lane.label("chat"),
    turns.c.person.label("user"),
    turns.c.state,
    turns.c.ending,
    turns.c.thinking,
    turns.c.thinking_why,
    turns.c.endpoint,
    turns.c.endpoint_why,
    turns.c.received_at,
    inbox.c.taken_at,
    turns.c.began_at,
    turns.c.ended_at,
    turns.c.used,
    turns.c.item,
).select_from(turns.outerjoin(inbox, inbox.c.id == turns.c.item))


async def find_turn(tx: Transaction, item: int) -> int | None:
    """The turn that began with this inbox item; None: there is none."""
    return (await tx.execute(select(turns.c.id).where(turns.c.item == item))).scalar_one_or_none()


async def load_steps(tx: Transaction, turn: int, *, with_texts: bool) -> TurnSteps | None:
    """The turn with this id, or None if there is none."""
    row = (await tx.execute(_SELECT_TURN.where(turns.c.id == turn))).one_or_none()
    if row is None:
        return None
    values = row._asdict()
    item = values.pop("item")
    used: list[str] = json.loads(values.pop("used"))
    calls = select(*CALL_COLUMNS).where(model_calls.c.turn == turn).order_by(model_calls.c.id)
    parts = (
        select(*(outbox.c[name] for name in PartStep.__slots__))
        .where(outbox.c.item == item, outbox.c.body.is_not(None))
        .order_by(outbox.c.part)
    )
    said: tuple[TurnMessage, ...] = ()
    if with_texts:
        said = await _load_messages(tx, turn)
    steps = TurnSteps(
        **values,
        account=await load_breakdown(tx, turn),
        calls=tuple(CallStep(*call) for call in await _load_rows(tx, calls)),
        tools=await _load_tools(tx, turn, with_texts=with_texts),
        parts=tuple(PartStep(*part) for part in await _load_rows(tx, parts)),
        said=said,
        used=tuple(used),
        speech=await speeches.find(tx, turn),
    )
    return replace(steps, takeovers=await _load_takeovers(tx, steps))


async def list_accounted_turns(tx: Transaction, *, after: int = 0) -> list[TurnSteps]:
    """The accounted turns with an id above `after`, in order, with their texts."""
    query = select(accounts.c.turn).where(accounts.c.turn > after).order_by(accounts.c.turn)
    turn_ids = (await tx.execute(query)).scalars().all()
    steps = [await load_steps(tx, turn, with_texts=True) for turn in turn_ids]
    return [turn for turn in steps if turn is not None]


async def _load_takeovers(tx: Transaction, turn: TurnSteps) -> tuple[TurnTakeover, ...]:
    """Those of its chat from its receipt until its last message was delivered."""
    holds = select(share_holds.c.life, share_holds.c.began_at, share_holds.c.ended_at)
    holds = holds.where(share_holds.c.share == Lane.parse(turn.chat).share).order_by(share_holds.c.epoch)
    until = math.inf if turn.settled_at is None else turn.settled_at
    return tuple(
        TurnTakeover(later.life, later.began_at, earlier.life, earlier.ended_at)
        for earlier, later in pairwise((await tx.execute(holds)).all())
        if turn.received_at < later.began_at < until
    )


async def load_breakdown(tx: Transaction, turn: int) -> dict[str, float]:
    """The seconds of a turn by kind; empty while it is not settled."""
    return (await load_breakdowns(tx, [turn])).get(turn, {})


async def load_breakdowns(tx: Transaction, ids: Sequence[int]) -> dict[int, dict[str, float]]:
    """The seconds by kind of those of these turns that are settled."""
    kinds: tuple[str, ...] = get_args(BreakdownColumn)
    query = select(accounts.c.turn, *(accounts.c[kind] for kind in kinds)).where(accounts.c.turn.in_(ids))
    return {row[0]: dict(zip(kinds, row[1:], strict=True)) for row in await tx.execute(query)}


async def _load_tools(tx: Transaction, turn: int, *, with_texts: bool) -> tuple[ToolStep, ...]:
    columns: list[Any] = [tool_calls.c[name] for name in ("step", "name", "outcome", "began_at", "ended_at")]
    if with_texts:
        columns += [tool_calls.c.arguments, tool_calls.c.result]
    else:
        columns += [null(), null()]
    columns += [approvals.c.asked_at, approvals.c.answered_at, approvals.c.answer, tool_calls.c.refusal]
    columns.append(approvals.c.answered_by)
    with_approvals = tool_calls.outerjoin(approvals, approvals.c.id == tool_calls.c.approval)
    query = select(*columns).select_from(with_approvals)
    query = query.where(tool_calls.c.turn == turn).order_by(tool_calls.c.id)
    return tuple(ToolStep(*tool) for tool in await _load_rows(tx, query))


async def _load_messages(tx: Transaction, turn: int) -> tuple[TurnMessage, ...]:
    query = select(messages.c.role, messages.c.text, messages.c.made_at).where(messages.c.turn == turn)
    return tuple(TurnMessage(*message) for message in await _load_rows(tx, query.order_by(messages.c.id)))


async def _load_rows(tx: Transaction, query: Select[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await tx.execute(query)]
