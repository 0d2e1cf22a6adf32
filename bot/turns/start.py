"""Opens a turn, or resumes it after a restart: its user messages, thinking, tools and prompt.

All of this is decided once a turn and stored with it; execution.py runs the turn from there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from bot.agent import history, prompt
from bot.agent.thinking_policy import ThinkingDecision, ThinkingEvidence, ThinkingSetting, decide_thinking
from bot.agent.toolbox import Toolbox
from bot.db.conversations import attachments, calls, conversations, turns
from bot.db.conversations.calls import StoredResult
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Transaction
from bot.domain import Lane, Message, Reply
from bot.turns import context_window
from bot.turns.context_window import ContextWindow, ToolboxFor
from bot.turns.turn_request import (
    PreflightRequest,
    PreflightResult,
    TurnConfig,
    TurnRequest,
    build_user_messages,
)

TOOL_RESERVE_TOKENS = 2000  # tokens kept free for tool results, where tools match the message
THINKING_THRESHOLD = 0.5  # a turn thinks if the endpoint gives tool work at least this chance


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn ready to run: its prompt, and what an earlier attempt stored of it.

    `prompt_tokens`: estimate for the prompt.
    `tokens_left`: estimate of what the turn's steps may add to it.
    `needs_cut_notice`: turns have left the prompt, and the chat has not been notified yet.
    `is_summary_outside`: the summary in its prompt was made of text of strangers.
    `is_conversation_over`: the turn belongs to a conversation that has ended.
    `stored_messages`: all messages of the turn but the user's.
    `partial_reply`: what the newest call had produced when it was interrupted.
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
    is_summary_outside: bool = False
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
    """Open the turn of a request, or find it as an earlier attempt stored it.

    `budget` bounds its prompt, in tokens. A PreflightRequest means that the turn is new and the endpoint
    should be asked first: call this again with its answer as `preflight_result`, which is None until then.
    """
    assessment = await _assess(tx, config, request, preflight_result or PreflightResult(), now)
    new_tokens = assessment.user_tokens
    if assessment.decision.tools:  # a turn that is about to use tools must not find its prompt full
        new_tokens += min(TOOL_RESERVE_TOKENS, budget // 4)
    if preflight_result is None:
        preflight = _plan_preflight(config, request, assessment, new_tokens, budget)
        if preflight is not None and not await turns.has_turn(tx, request.items[0].id):
            if not preflight.needs_token_count:
                return preflight
            full_prompt = await context_window.build_prompt(
                tx, assessment.current_window, config.system, assessment.user_messages
            )
            return replace(preflight, prompt=full_prompt)
    window = assessment.counted_window
    target = window.cut_to_fit(budget, new_tokens)
    if target is not window:
        target = replace(target, toolbox=assessment.toolbox_for(None))
    turn = await _store_turn(tx, config, request, assessment, target.toolbox, now)
    # A resumed turn keeps its tools, and the window it began with unless its prompt was too long for the
    # endpoint.
    if turn.is_resumed and budget < config.prompt_budget:
        target = replace(target, toolbox=window.toolbox)
    elif turn.is_resumed:
        target = window
    window = await _store_window(tx, config, request.lane, window, target)
    conversation = window.conversation
    is_cut_unknown = conversation.cut is not None and not conversation.told_cut
    tokens_left = int(budget / window.token_ratio) - window.estimated_tokens - assessment.user_tokens
    return replace(
        turn,
        may_think=assessment.thinking_setting != "off",
        prompt=await context_window.build_prompt(tx, window, config.system, turn.user_messages),
        prompt_tokens=window.estimated_tokens + assessment.user_tokens,
        tokens_left=max(0, tokens_left),
        notes_chars=len(conversation.notes or ""),
        needs_cut_notice=is_cut_unknown and not conversation.is_over,
        is_summary_outside=conversation.is_summary_outside,
        is_conversation_over=conversation.is_over,
    )


@dataclass(frozen=True, slots=True)
class _Assessment:
    """What is decided about a turn before anything of it is stored.

    `toolbox_for`: gives the tools of its conversation.
    `user_tokens`: estimate for its user messages.
    """

    current_window: ContextWindow
    toolbox_for: ToolboxFor
    user_messages: tuple[Message, ...]
    user_tokens: int
    preflight_result: PreflightResult
    thinking_setting: ThinkingSetting
    decision: ThinkingDecision

    @property
    def is_undecided(self) -> bool:
        """Whether neither the words of the message nor a setting decide if the turn thinks."""
        return self.decision.is_unsure and self.thinking_setting == "auto"

    @property
    def counted_window(self) -> ContextWindow:
        """The window, with the server's count of the prompt that was in doubt if there is one."""
        tokens = self.preflight_result.prompt_tokens
        if not tokens:
            return self.current_window
        estimated = self.current_window.estimated_tokens + self.user_tokens
        return replace(self.current_window, token_ratio=history.compute_token_ratio(estimated, tokens))


async def _assess(
    tx: Transaction,
    config: TurnConfig,
    request: TurnRequest,
    preflight_result: PreflightResult,
    now: float,
) -> _Assessment:
    # A turn that waited for an approval may belong to an earlier conversation, and stays in it.
    number = None
    if request.items[0].attempt > 1:
        number = await turns.find_conversation(tx, request.items[0].id)
    # The tools of recent turns matter only where a prompt does not hold all tools.
    recent_tools: list[str] = []
    if config.tool_registry.needs_tool_search:
        recent_tools = await turns.list_recent_tools(tx, request.lane)
    toolbox_for = _bind_toolbox(config, request, recent_tools)
    window = await context_window.load_window(tx, request.lane, config.system, toolbox_for, number)
    last_message_at = 0.0
    if window.past_turns:
        last_message_at = window.past_turns[-1].received_at
    user_messages = build_user_messages(request, last_message_at, now)
    thinking_setting = window.conversation.think or config.thinking
    return _Assessment(
        window,
        toolbox_for,
        user_messages,
        history.estimate_tokens(user_messages),
        preflight_result,
        thinking_setting,
        _decide_thinking(request, window, thinking_setting, preflight_result),
    )


def _plan_preflight(
    config: TurnConfig, request: TurnRequest, assessment: _Assessment, new_tokens: int, budget: int
) -> PreflightRequest | None:
    """What the endpoint should be asked before this turn begins, about its user messages; None: nothing."""
    window = assessment.current_window
    needs_count = config.can_count_tokens and window.is_near_budget(new_tokens, budget)
    needs_chance = config.can_estimate_tool_work and assessment.is_undecided and not request.deep
    if not (needs_count or needs_chance):
        return None
    return PreflightRequest(
        needs_count, needs_chance, assessment.decision.thinking, assessment.user_messages, window.toolbox
    )


def _bind_toolbox(config: TurnConfig, request: TurnRequest, recent_tools: Iterable[str]) -> ToolboxFor:
    texts = [prompt.strip_files(text) for text in request.texts]
    return partial(
        config.tool_registry.build_conversation_toolbox,
        request.person,
        request.lane.chat,
        texts,
        recent_names=recent_tools,
    )


def _decide_thinking(
    request: TurnRequest,
    window: ContextWindow,
    thinking_setting: ThinkingSetting,
    preflight_result: PreflightResult,
) -> ThinkingDecision:
    evidence = ThinkingEvidence(thinking_setting, attachment_count=request.attachment_count)
    if window.past_turns:
        last_turn = window.past_turns[-1]
        evidence = replace(evidence, recent_tools=last_turn.used, was_thinking=last_turn.thinking)
    texts = [prompt.strip_files(text) for text in request.texts]
    decision = decide_thinking(texts, window.toolbox.tool_index, evidence)
    chance = preflight_result.tool_work_chance
    if chance is None or not decision.is_unsure:
        return decision
    reason = f"words did not tell; the endpoint reads {chance:.0%} for tool work"
    return replace(decision, thinking=chance >= THINKING_THRESHOLD, reason=reason)


async def _store_turn(
    tx: Transaction,
    config: TurnConfig,
    request: TurnRequest,
    assessment: _Assessment,
    toolbox: Toolbox,
    now: float,
) -> PreparedTurn:
    number = assessment.current_window.conversation.number
    new_turn = NewTurn(
        item=request.items[0].id,
        lane=request.lane,
        person=request.person,
        conversation=number,
        tools=toolbox.offered_names,
        thinking=assessment.decision.thinking,
        thinking_why=assessment.decision.reason,
        received_at=request.items[0].received_at,
    )
    items = [item.id for item in request.items]
    turn = await turns.open_turn(tx, new_turn, items, assessment.user_messages, now=now)
    if turn is None:
        return await _resume_turn(tx, config, assessment.toolbox_for, request.items[0].id, now)
    if request.attachment_count:
        await attachments.store(tx, turn.id, request.attachments)
    if assessment.preflight_result.call is not None:
        await calls.assign_to_turn(tx, assessment.preflight_result.call, turn.id)
    return PreparedTurn(
        turn.id,
        number,
        assessment.user_messages,
        toolbox,
        assessment.decision.thinking,
        is_stopped=turn.stopped,
    )


async def _resume_turn(
    tx: Transaction, config: TurnConfig, toolbox_for: ToolboxFor, item: int, now: float
) -> PreparedTurn:
    turn = await turns.find(tx, item)
    await calls.abandon_model_calls(tx, turn.id, now=now)
    results = tuple(await calls.load_tool_results(tx, turn.id))
    called_tools = [result.call.name for result in results if result.outcome != "refused"]
    return PreparedTurn(
        turn.id,
        turn.conversation,
        turn.user_messages,
        config.tool_registry.extend_toolbox(toolbox_for(turn.tools), called_tools),
        turn.thinking,
        is_resumed=True,
        is_stopped=turn.stopped,
        is_over=turn.state != "running",
        stored_messages=turn.agent_messages,
        replies=tuple(await calls.load_replies(tx, turn.id)),
        partial_reply=await calls.load_interrupted_reply(tx, turn.id),
        results=results,
    )


async def _store_window(
    tx: Transaction, config: TurnConfig, lane: Lane, current: ContextWindow, target: ContextWindow
) -> ContextWindow:
    """Store that the conversation has begun, or that it is cut to the `target` window."""
    if target is not current:
        return await context_window.store_cut(tx, lane, target, config.system)
    if not current.is_begun:
        await conversations.begin(
            tx,
            lane,
            current.conversation.number,
            current.conversation.notes or "",
            current.toolbox.offered_names,
        )
    return current
