"""How a turn begins, or goes on after a restart: its user messages, whether it thinks, and its prompt.

Decided once a turn and stored with it; turns.py plays it from there.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from bot.agent import history
from bot.agent import prompt as prompting
from bot.agent.thinking_policy import Decision, Evidence, Setting, decide
from bot.agent.toolbox import Toolbox
from bot.db.conversations import attachments, calls, conversations
from bot.db.conversations import turns as stored
from bot.db.conversations.calls import StoredResult
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Transaction
from bot.domain import PEOPLE, Attachment, Image, InboxItem, Lane, Message, Reply
from bot.tool_registry.registry import Catalogue
from bot.turns import context_window as window
from bot.turns.context_window import Window

STAMP_SECONDS = 1800  # a conversation that pauses for so long is told the time again
RESERVE = 2000  # tokens kept for what tools bring, where tools match
HALF = 0.5  # the chance from which the endpoint's reading says that a turn thinks

_STAMPED = re.compile(r"\[\w{3} \d{4}-\d\d-\d\d \d\d:\d\d \S+\] ")


@dataclass(frozen=True, slots=True)
class Ask:
    """What a turn is to answer: a lane's waiting messages (`texts`, one each, sent at `sent`), and who wrote
    them.

    `attachments` is what came with each of them, empty if nothing did with any. `items` are done when the
    turn is over. `silent`: the answer makes no sound; `preface` is put before it. `deep`: the second endpoint
    is asked for. `goes_on`: it is the last answer that is to go on. `priority` is that of its model calls.
    """

    items: tuple[InboxItem, ...]
    lane: Lane
    person: int
    name: str
    texts: tuple[str, ...]
    attachments: tuple[tuple[Attachment, ...], ...] = ()
    sent: tuple[float, ...] = ()
    reply_to: int | None = None
    silent: bool = False
    preface: str = ""
    deep: bool = False
    goes_on: bool = False
    priority: int = PEOPLE

    @property
    def attached(self) -> int:
        """How much came with the messages."""
        return sum(map(len, self.attachments))


@dataclass(frozen=True, slots=True)
class Plan:
    """What every turn of this house shares: system text, tools there are, and the tokens a prompt may take.

    `thinking` is what the house does where a chat has not said. `counts` and `reads`: whether the endpoint
    may be asked how long a prompt is, and whether to think; `sums`: whether a summary is made before a cut.
    """

    system: str
    catalogue: Catalogue
    budget: int
    steps: int
    max_tokens: int
    thinking: Setting = "auto"
    canvases: int = 4
    counts: bool = False
    reads: bool = False
    sums: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What the endpoint was asked before a turn began: the tokens of its prompt, and the chance that it needs
    thought.

    None: it was not asked that, or did not say. `call` is the ledger's row of the reading.
    """

    counted: int | None = None
    read: float | None = None
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Wanting:
    """Nothing is stored yet: the endpoint should be asked first how long `prompt` is, or whether to think."""

    count: bool
    read: bool
    thinking: bool
    prompt: tuple[Message, ...]
    toolbox: Toolbox


@dataclass(frozen=True, slots=True)
class Opened:
    """A turn ready to be played: its prompt, and what an earlier attempt stored of it.

    `size` estimates the prompt, `room` what its steps may add to it, in tokens. `tell_cut`: the chat does not
    know yet that something has left its prompt; `aside`: its conversation is over. `said` is all that was
    said in the turn but the user's messages; `cut_short` what its newest call had come to.
    """

    id: int
    conversation: int
    user: tuple[Message, ...]
    toolbox: Toolbox
    thinking: bool = False
    may_think: bool = True
    prompt: tuple[Message, ...] = ()
    size: int = 0
    room: int = 0
    notes_size: int = 0
    tell_cut: bool = False
    aside: bool = False
    is_found: bool = False
    stopped: bool = False
    over: bool = False
    said: tuple[Message, ...] = ()
    replies: tuple[Reply, ...] = ()
    cut_short: Reply | None = None
    results: tuple[StoredResult, ...] = ()


async def begin(
    tx: Transaction, plan: Plan, ask: Ask, told: Told | None, *, budget: int, now: float
) -> Opened | Wanting:
    """Open the turn of `ask`, or find it as an earlier attempt stored it. `budget` bounds its prompt, in
    tokens.

    Wanting: the turn is new, and the endpoint should be asked something; call this again with what it has
    `told`. Until then that is None.
    """
    judged = await _judge(tx, plan, ask, told, now)
    # A turn that is about to use tools shall not find the prompt full.
    newest = judged.size + (min(RESERVE, budget // 4) if judged.decision.tools else 0)
    count = plan.counts and told is None and judged.seen.near(newest, budget)
    read = plan.reads and told is None and judged.is_open and not ask.deep
    if (count or read) and not await stored.begun(tx, ask.items[0].id):
        if count:
            prompt = await window.messages(tx, judged.seen, plan.system, judged.user)
        else:
            prompt = judged.user
        return Wanting(count, read, judged.decision.thinking, prompt, judged.seen.toolbox)
    seen = judged.counted
    wanted = seen.within(budget, newest)
    if wanted is not seen:
        wanted = replace(wanted, toolbox=judged.kit(None))
    opened = await _open(tx, plan, ask, judged, wanted.toolbox, now)
    if opened.is_found:
        # It keeps the window it began with, unless its prompt was too long for the endpoint, and its tools
        # always.
        if budget < plan.budget:
            wanted = replace(wanted, toolbox=seen.toolbox)
        else:
            wanted = seen
    seen = await _settled(tx, plan, ask.lane, seen, wanted)
    return replace(
        opened,
        may_think=judged.setting != "off",
        prompt=await window.messages(tx, seen, plan.system, opened.user),
        size=seen.size + judged.size,
        room=max(0, int(budget / seen.ratio) - seen.size - judged.size),
        notes_size=len(seen.here.notes or ""),
        tell_cut=seen.here.cut is not None and not seen.here.told_cut and not seen.here.over,
        aside=seen.here.over,
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """What is thought of a turn before anything of it is stored; `size` estimates its user messages, in
    tokens.

    `kit` gives the tools of its conversation.
    """

    seen: Window
    kit: window.Kit
    user: tuple[Message, ...]
    size: int
    told: Told | None
    setting: Setting
    decision: Decision

    @property
    def is_open(self) -> bool:
        """Whether words did not tell, and nobody else did, if the turn thinks."""
        return self.decision.unsure and self.setting == "auto"

    @property
    def counted(self) -> Window:
        """The window, once the server has counted the prompt that was in doubt."""
        tokens = self.told.counted if self.told else None
        if not tokens:
            return self.seen
        return replace(self.seen, ratio=history.ratio(self.seen.size + self.size, tokens))


async def _judge(tx: Transaction, plan: Plan, ask: Ask, told: Told | None, now: float) -> _Judged:
    # A turn that waited for a person may be of an earlier conversation, and stays in it.
    if ask.items[0].attempt > 1:
        number = await stored.conversation(tx, ask.items[0].id)
    else:
        number = None
    # What was used before matters only where not all tools stand in a prompt.
    if plan.catalogue.crowded:
        recent = await stored.used_of_late(tx, ask.lane)
    else:
        recent = []
    kit = _kit(plan, ask, recent)
    seen = await window.look(tx, ask.lane, plan.system, kit, number)
    user = user_messages(ask, seen.past[-1].received_at if seen.past else 0.0, now)
    setting = seen.here.think or plan.thinking
    return _Judged(
        seen, kit, user, history.estimate(user), told, setting, _decided(plan, ask, seen, setting, told)
    )


def _kit(plan: Plan, ask: Ask, recent: Iterable[str]) -> window.Kit:
    texts = [prompting.without_files(text) for text in ask.texts]
    return partial(plan.catalogue.kit, ask.person, ask.lane.chat, texts, recent=recent)


async def _open(
    tx: Transaction, plan: Plan, ask: Ask, judged: _Judged, toolbox: Toolbox, now: float
) -> Opened:
    new = NewTurn(
        item=ask.items[0].id,
        lane=ask.lane,
        person=ask.person,
        conversation=judged.seen.here.number,
        tools=toolbox.offered,
        thinking=judged.decision.thinking,
        thinking_why=judged.decision.why,
        received_at=ask.items[0].received_at,
    )
    turn = await stored.open_turn(tx, new, [item.id for item in ask.items], judged.user, now=now)
    if turn is None:
        return await _found(tx, plan, judged.kit, ask.items[0].id, now)
    if ask.attached:
        await attachments.keep(tx, turn.id, ask.attachments)
    if judged.told is not None and judged.told.call is not None:
        await calls.belong(tx, judged.told.call, turn.id)
    number = judged.seen.here.number
    thinking = judged.decision.thinking
    return Opened(turn.id, number, judged.user, toolbox, thinking, stopped=turn.stopped)


async def _settled(tx: Transaction, plan: Plan, lane: Lane, seen: Window, wanted: Window) -> Window:
    """Store that the conversation has begun, or that it is cut to the `wanted` window."""
    if wanted is not seen:
        return await window.cut(tx, lane, wanted, plan.system)
    if not seen.begun:
        await conversations.begin(tx, lane, seen.here.number, seen.here.notes or "", seen.toolbox.offered)
    return seen


def _decided(plan: Plan, ask: Ask, seen: Window, setting: Setting, told: Told | None) -> Decision:
    last = seen.past[-1] if seen.past else None
    recent, thought = (last.used, last.thinking) if last else ((), False)
    evidence = Evidence(setting, recent=recent, thought=thought, attachments=ask.attached)
    decision = decide([prompting.without_files(text) for text in ask.texts], seen.toolbox.offer, evidence)
    if told is None or told.read is None or not decision.unsure:
        return decision
    why = f"words did not tell; the endpoint reads {told.read:.0%} for tool work"
    return replace(decision, thinking=told.read >= HALF, why=why)


async def _found(tx: Transaction, plan: Plan, kit: window.Kit, item: int, now: float) -> Opened:
    found = await stored.find(tx, item)
    await calls.abandon(tx, found.id, now=now)
    results = tuple(await calls.results(tx, found.id))
    called = [one.call.name for one in results if one.outcome != "refused"]
    return Opened(
        found.id,
        found.conversation,
        found.user,
        plan.catalogue.after(kit(found.tools), called),
        found.thinking,
        is_found=True,
        stopped=found.stopped,
        over=found.state != "running",
        said=found.said,
        replies=tuple(await calls.replies(tx, found.id)),
        cut_short=await calls.cut_short(tx, found.id),
        results=results,
    )


def user_messages(ask: Ask, last: float, now: float) -> tuple[Message, ...]:
    """The texts as they are stored and sent. One that comes a while after the `last` turn says when it was
    written.

    A stamp is a dozen tokens in every later prompt, so a lively conversation has few of them.
    """
    messages = []
    sent = ask.sent or (now,) * len(ask.texts)
    came = ask.attachments or ((),) * len(ask.texts)
    for text, moment, with_it in zip(ask.texts, sent, came, strict=True):
        late = moment - last >= STAMP_SECONDS and not _STAMPED.match(text)
        images = tuple(Image(one.media_type, one.data) for one in with_it if one.data is not None)
        if late:
            stamped = prompting.stamp(datetime.fromtimestamp(moment, UTC)) + text
        else:
            stamped = text
        messages.append(Message("user", stamped, images=images))
        last = max(last, moment)
    return tuple(messages)
