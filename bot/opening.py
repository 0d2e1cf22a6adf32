"""How a turn begins, or goes on after a restart: its user messages, its tools, and the prompt made of what is stored.

Decided once a turn and stored with it; turns.py plays it from there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bot.agent import history, prompting
from bot.agent.history import TurnSize
from bot.agent.toolbox import Toolbox
from bot.db import calls, notes
from bot.db import turns as stored
from bot.db.calls import StoredResult
from bot.db.engine import Transaction
from bot.db.turns import NewTurn, PastTurn
from bot.domain import InboxItem, Lane, Message, Reply
from tools.base import Tool

STAMP_SECONDS = 1800  # a conversation that pauses for so long is told the time again

_STAMPED = re.compile(r"\[\w{3} \d{4}-\d\d-\d\d \d\d:\d\d \S+\] ")


@dataclass(frozen=True, slots=True)
class Ask:
    """What a turn is to answer: a lane's waiting messages (`texts`, one each, sent at `sent`), and who wrote them.

    `items` are done when the turn is over. `silent`: the answer makes no sound; `preface` is put before it.
    """

    items: tuple[InboxItem, ...]
    lane: Lane
    person: int
    name: str
    texts: tuple[str, ...]
    sent: tuple[float, ...] = ()
    reply_to: int | None = None
    silent: bool = False
    preface: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every turn of this house shares: system text, tools, and the tokens a prompt may take."""

    system: str
    tools: Mapping[str, Tool]
    budget: int
    steps: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A turn ready to be played: its prompt, and what an earlier attempt stored of it.

    `said` is all that was said in it but the user's messages; `cut_short` what its newest call had come to.
    """

    id: int
    conversation: int
    user: tuple[Message, ...]
    toolbox: Toolbox
    prompt: tuple[Message, ...] = ()
    stopped: bool = False
    over: bool = False
    said: tuple[Message, ...] = ()
    replies: tuple[Reply, ...] = ()
    cut_short: Reply | None = None
    results: tuple[StoredResult, ...] = ()


async def begin(tx: Transaction, plan: Plan, ask: Ask, *, budget: int, now: float) -> Opened:
    """Open the turn of `ask`, or find it as an earlier attempt stored it. `budget` bounds its prompt, in tokens."""
    here = await stored.conversation(tx, ask.lane)
    past = await stored.past(tx, ask.lane, here.number)
    user = user_messages(ask, past[-1].received_at if past else 0.0, now)
    toolbox = Toolbox(plan.tools.values())
    new = NewTurn(
        item=ask.items[0].id,
        lane=ask.lane,
        person=ask.person,
        conversation=here.number,
        tools=tuple(toolbox.tools),
        thinking=False,
        thinking_why="thinking is off",
        opening=history.estimate(user),
        received_at=ask.items[0].received_at,
    )
    turn = await stored.open_turn(tx, new, [item.id for item in ask.items], user, now=now)
    if turn is None:
        opened = await _found(tx, plan, ask.items[0].id, now)
    else:
        opened = Opened(turn.id, here.number, user, toolbox, stopped=turn.stopped)
    kept = here.notes if here.notes is not None else await _keep_notes(tx, ask.lane, here.number)
    return await _with_prompt(tx, plan, opened, past, kept, budget)


async def _found(tx: Transaction, plan: Plan, item: int, now: float) -> Opened:
    found = await stored.find(tx, item)
    await calls.abandon(tx, found.id, now=now)
    return Opened(
        found.id,
        found.conversation,
        found.user,
        Toolbox(plan.tools[name] for name in found.tools if name in plan.tools),
        stopped=found.stopped,
        over=found.state != "running",
        said=found.said,
        replies=tuple(await calls.replies(tx, found.id)),
        cut_short=await calls.cut_short(tx, found.id),
        results=tuple(await calls.results(tx, found.id)),
    )


def user_messages(ask: Ask, last: float, now: float) -> tuple[Message, ...]:
    """The texts as they are stored and sent. One that comes a while after the `last` turn says when it was written.

    A stamp is a dozen tokens in every later prompt, so a lively conversation has few of them.
    """
    messages = []
    for text, moment in zip(ask.texts, ask.sent or (now,) * len(ask.texts), strict=True):
        late = moment - last >= STAMP_SECONDS and not _STAMPED.match(text)
        messages.append(Message("user", prompting.stamp(datetime.fromtimestamp(moment, UTC)) + text if late else text))
        last = max(last, moment)
    return tuple(messages)


async def _with_prompt(
    tx: Transaction, plan: Plan, opened: Opened, past: Sequence[PastTurn], notes_kept: str, budget: int
) -> Opened:
    frame = prompting.build(plan.system, (), (), notes_kept)
    fixed = history.estimate(frame) + tools_size(opened.toolbox) // history.BYTES_A_TOKEN
    sizes = [TurnSize(turn.opening, turn.size) for turn in past]
    chosen = past[history.choose(sizes, history.estimate(opened.user), budget, fixed) :]
    messages = await stored.messages_of(tx, [turn.id for turn in chosen])
    return replace(opened, prompt=prompting.build(plan.system, messages, opened.user, notes_kept))


async def _keep_notes(tx: Transaction, lane: Lane, number: int) -> str:
    """The chat's notes as they stand when the conversation begins, so that its prompts begin alike."""
    lines = "\n".join(f"{note.number}. {note.text}" for note in await notes.all_of(tx, lane))
    await stored.begin_conversation(tx, lane, number, lines)
    return lines


def tools_size(toolbox: Toolbox) -> int:
    """Characters of the tools' definitions."""
    return sum(len(str(one)) for one in toolbox.definitions)


@dataclass(frozen=True, slots=True)
class Composition:
    """What the next prompt of a lane is made of. `parts` are labels, such as `tool clock`, with estimated tokens.

    `last_prompt` and `last_cached` are the server's counts of the newest turn's first prompt, None where it gave none;
    `left_out_turns` are those of the conversation that are in the database only.
    """

    parts: tuple[tuple[str, int], ...]
    total: int
    budget: int
    last_prompt: int | None
    last_cached: int | None
    left_out_turns: int
