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
from bot.agent.thinking_policy import ThinkingDecision, ThinkingEvidence, ThinkingSetting, decide_thinking
from bot.agent.toolbox import Toolbox
from bot.db.conversations import attachments, calls, conversations
from bot.db.conversations import turns as stored
from bot.db.conversations.calls import StoredResult
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Transaction
from bot.domain import PEOPLE_PRIORITY, Attachment, Image, InboxItem, Lane, Message, Reply
from bot.tool_registry.registry import ToolRegistry
from bot.turns import context_window as window
from bot.turns.context_window import ContextWindow

STAMP_SECONDS = 1800  # a conversation that pauses for so long is told the time again
TOOL_RESERVE_TOKENS = 2000  # tokens kept for what tools bring, where tools match
THINKING_THRESHOLD = 0.5  # the chance from which the endpoint's reading says that a turn thinks

_STAMP = re.compile(r"\[\w{3} \d{4}-\d\d-\d\d \d\d:\d\d \S+\] ")


@dataclass(frozen=True, slots=True)
class TurnRequest:
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
    sent_at: tuple[float, ...] = ()
    reply_to: int | None = None
    silent: bool = False
    preface: str = ""
    deep: bool = False
    is_continuation: bool = False
    priority: int = PEOPLE_PRIORITY

    @property
    def attachment_count(self) -> int:
        """How much came with the messages."""
        return sum(map(len, self.attachments))


@dataclass(frozen=True, slots=True)
class TurnConfig:
    """What every turn of this house shares: system text, tools there are, and the tokens a prompt may take.

    `thinking` is what the house does where a chat has not said. `counts` and `reads`: whether the endpoint
    may be asked how long a prompt is, and whether to think; `sums`: whether a summary is made before a cut.
    """

    system: str
    tool_registry: ToolRegistry
    prompt_budget: int
    max_steps: int
    max_tokens: int
    thinking: ThinkingSetting = "auto"
    thinking_canvases: int = 4
    can_count_tokens: bool = False
    can_estimate_tool_work: bool = False
    summaries_enabled: bool = False


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """What the endpoint was asked before a turn began: the tokens of its prompt, and the chance that it needs
    thought.

    None: it was not asked that, or did not say. `call` is the ledger's row of the reading.
    """

    prompt_tokens: int | None = None
    tool_work_chance: float | None = None
    call: int | None = None


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    """Nothing is stored yet: the endpoint should be asked first how long `prompt` is, or whether to think."""

    needs_token_count: bool
    needs_tool_work_chance: bool
    thinking: bool
    prompt: tuple[Message, ...]
    toolbox: Toolbox


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn ready to be played: its prompt, and what an earlier attempt stored of it.

    `size` estimates the prompt, `room` what its steps may add to it, in tokens. `tell_cut`: the chat does not
    know yet that something has left its prompt; `aside`: its conversation is over. `said` is all that was
    said in the turn but the user's messages; `cut_short` what its newest call had come to.
    """

    id: int
    conversation_number: int
    user_messages: tuple[Message, ...]
    toolbox: Toolbox
    thinking: bool = False
    may_think: bool = True
    prompt: tuple[Message, ...] = ()
    prompt_tokens: int = 0
    tokens_left: int = 0
    notes_chars: int = 0
    needs_cut_notice: bool = False
    is_conversation_over: bool = False
    is_resumed: bool = False
    is_stopped: bool = False
    is_over: bool = False
    stored_messages: tuple[Message, ...] = ()
    replies: tuple[Reply, ...] = ()
    partial_reply: Reply | None = None
    results: tuple[StoredResult, ...] = ()


async def open_turn(
    tx: Transaction,
    config: TurnConfig,
    request: TurnRequest,
    preflight_result: PreflightResult | None,
    *,
    budget: int,
    now: float,
) -> PreparedTurn | PreflightRequest:
    """Open the turn of `ask`, or find it as an earlier attempt stored it. `budget` bounds its prompt, in
    tokens.

    Wanting: the turn is new, and the endpoint should be asked something; call this again with what it has
    `told`. Until then that is None.
    """
    judged = await _assess(tx, config, request, preflight_result, now)
    # A turn that is about to use tools shall not find the prompt full.
    newest = judged.user_tokens + (min(TOOL_RESERVE_TOKENS, budget // 4) if judged.decision.tools else 0)
    count = (
        config.can_count_tokens
        and preflight_result is None
        and judged.current_window.is_near_budget(newest, budget)
    )
    read = (
        config.can_estimate_tool_work
        and preflight_result is None
        and judged.is_undecided
        and not request.deep
    )
    if (count or read) and not await stored.has_turn(tx, request.items[0].id):
        if count:
            prompt = await window.build_prompt(tx, judged.current_window, config.system, judged.user_messages)
        else:
            prompt = judged.user_messages
        return PreflightRequest(count, read, judged.decision.thinking, prompt, judged.current_window.toolbox)
    seen = judged.counted_window
    wanted = seen.cut_to_fit(budget, newest)
    if wanted is not seen:
        wanted = replace(wanted, toolbox=judged.toolbox_for(None))
    opened = await _store_turn(tx, config, request, judged, wanted.toolbox, now)
    if opened.is_resumed:
        # It keeps the window it began with, unless its prompt was too long for the endpoint, and its tools
        # always.
        if budget < config.prompt_budget:
            wanted = replace(wanted, toolbox=seen.toolbox)
        else:
            wanted = seen
    seen = await _store_window(tx, config, request.lane, seen, wanted)
    return replace(
        opened,
        may_think=judged.thinking_setting != "off",
        prompt=await window.build_prompt(tx, seen, config.system, opened.user_messages),
        prompt_tokens=seen.estimated_tokens + judged.user_tokens,
        tokens_left=max(0, int(budget / seen.token_ratio) - seen.estimated_tokens - judged.user_tokens),
        notes_chars=len(seen.conversation.notes or ""),
        needs_cut_notice=seen.conversation.cut is not None
        and not seen.conversation.told_cut
        and not seen.conversation.is_over,
        is_conversation_over=seen.conversation.is_over,
    )


@dataclass(frozen=True, slots=True)
class _Assessment:
    """What is thought of a turn before anything of it is stored; `size` estimates its user messages, in
    tokens.

    `kit` gives the tools of its conversation.
    """

    current_window: ContextWindow
    toolbox_for: window.ToolboxFor
    user_messages: tuple[Message, ...]
    user_tokens: int
    preflight_result: PreflightResult | None
    thinking_setting: ThinkingSetting
    decision: ThinkingDecision

    @property
    def is_undecided(self) -> bool:
        """Whether words did not tell, and nobody else did, if the turn thinks."""
        return self.decision.is_unsure and self.thinking_setting == "auto"

    @property
    def counted_window(self) -> ContextWindow:
        """The window, once the server has counted the prompt that was in doubt."""
        tokens = self.preflight_result.prompt_tokens if self.preflight_result else None
        if not tokens:
            return self.current_window
        return replace(
            self.current_window,
            token_ratio=history.compute_token_ratio(
                self.current_window.estimated_tokens + self.user_tokens, tokens
            ),
        )


async def _assess(
    tx: Transaction,
    config: TurnConfig,
    request: TurnRequest,
    preflight_result: PreflightResult | None,
    now: float,
) -> _Assessment:
    # A turn that waited for a person may be of an earlier conversation, and stays in it.
    if request.items[0].attempt > 1:
        number = await stored.find_conversation(tx, request.items[0].id)
    else:
        number = None
    # What was used before matters only where not all tools stand in a prompt.
    if config.tool_registry.needs_tool_search:
        recent = await stored.list_recent_tools(tx, request.lane)
    else:
        recent = []
    kit = _bind_toolbox(config, request, recent)
    seen = await window.load_window(tx, request.lane, config.system, kit, number)
    user = build_user_messages(request, seen.past_turns[-1].received_at if seen.past_turns else 0.0, now)
    setting = seen.conversation.think or config.thinking
    return _Assessment(
        seen,
        kit,
        user,
        history.estimate_tokens(user),
        preflight_result,
        setting,
        _decide_thinking(config, request, seen, setting, preflight_result),
    )


def _bind_toolbox(config: TurnConfig, request: TurnRequest, recent_tools: Iterable[str]) -> window.ToolboxFor:
    texts = [prompting.strip_files(text) for text in request.texts]
    return partial(
        config.tool_registry.build_conversation_toolbox,
        request.person,
        request.lane.chat,
        texts,
        recent_names=recent_tools,
    )


async def _store_turn(
    tx: Transaction,
    config: TurnConfig,
    request: TurnRequest,
    assessment: _Assessment,
    toolbox: Toolbox,
    now: float,
) -> PreparedTurn:
    new = NewTurn(
        item=request.items[0].id,
        lane=request.lane,
        person=request.person,
        conversation=assessment.current_window.conversation.number,
        tools=toolbox.offered_names,
        thinking=assessment.decision.thinking,
        thinking_why=assessment.decision.reason,
        received_at=request.items[0].received_at,
    )
    turn = await stored.open_turn(
        tx, new, [item.id for item in request.items], assessment.user_messages, now=now
    )
    if turn is None:
        return await _resume_turn(tx, config, assessment.toolbox_for, request.items[0].id, now)
    if request.attachment_count:
        await attachments.store(tx, turn.id, request.attachments)
    if assessment.preflight_result is not None and assessment.preflight_result.call is not None:
        await calls.assign_to_turn(tx, assessment.preflight_result.call, turn.id)
    number = assessment.current_window.conversation.number
    thinking = assessment.decision.thinking
    return PreparedTurn(turn.id, number, assessment.user_messages, toolbox, thinking, is_stopped=turn.stopped)


async def _store_window(
    tx: Transaction,
    config: TurnConfig,
    lane: Lane,
    current_window: ContextWindow,
    target_window: ContextWindow,
) -> ContextWindow:
    """Store that the conversation has begun, or that it is cut to the `wanted` window."""
    if target_window is not current_window:
        return await window.store_cut(tx, lane, target_window, config.system)
    if not current_window.is_begun:
        await conversations.begin(
            tx,
            lane,
            current_window.conversation.number,
            current_window.conversation.notes or "",
            current_window.toolbox.offered_names,
        )
    return current_window


def _decide_thinking(
    config: TurnConfig,
    request: TurnRequest,
    current_window: ContextWindow,
    thinking_setting: ThinkingSetting,
    preflight_result: PreflightResult | None,
) -> ThinkingDecision:
    last = current_window.past_turns[-1] if current_window.past_turns else None
    recent, thought = (last.used, last.thinking) if last else ((), False)
    evidence = ThinkingEvidence(
        thinking_setting, recent_tools=recent, was_thinking=thought, attachment_count=request.attachment_count
    )
    decision = decide_thinking(
        [prompting.strip_files(text) for text in request.texts], current_window.toolbox.tool_index, evidence
    )
    if preflight_result is None or preflight_result.tool_work_chance is None or not decision.is_unsure:
        return decision
    why = f"words did not tell; the endpoint reads {preflight_result.tool_work_chance:.0%} for tool work"
    return replace(decision, thinking=preflight_result.tool_work_chance >= THINKING_THRESHOLD, reason=why)


async def _resume_turn(
    tx: Transaction, config: TurnConfig, toolbox_for: window.ToolboxFor, item: int, now: float
) -> PreparedTurn:
    found = await stored.find(tx, item)
    await calls.abandon_model_calls(tx, found.id, now=now)
    results = tuple(await calls.load_tool_results(tx, found.id))
    called = [one.call.name for one in results if one.outcome != "refused"]
    return PreparedTurn(
        found.id,
        found.conversation,
        found.user_messages,
        config.tool_registry.extend_toolbox(toolbox_for(found.tools), called),
        found.thinking,
        is_resumed=True,
        is_stopped=found.stopped,
        is_over=found.state != "running",
        stored_messages=found.agent_messages,
        replies=tuple(await calls.load_replies(tx, found.id)),
        partial_reply=await calls.load_interrupted_reply(tx, found.id),
        results=results,
    )


def build_user_messages(request: TurnRequest, last_message_at: float, now: float) -> tuple[Message, ...]:
    """The texts as they are stored and sent. One that comes a while after the `last` turn says when it was
    written.

    A stamp is a dozen tokens in every later prompt, so a lively conversation has few of them.
    """
    messages = []
    sent = request.sent_at or (now,) * len(request.texts)
    came = request.attachments or ((),) * len(request.texts)
    for text, moment, with_it in zip(request.texts, sent, came, strict=True):
        late = moment - last_message_at >= STAMP_SECONDS and not _STAMP.match(text)
        images = tuple(Image(one.media_type, one.data) for one in with_it if one.data is not None)
        if late:
            stamped = prompting.format_timestamp(datetime.fromtimestamp(moment, UTC)) + text
        else:
            stamped = text
        messages.append(Message("user", stamped, images=images))
        last_message_at = max(last_message_at, moment)
    return tuple(messages)
