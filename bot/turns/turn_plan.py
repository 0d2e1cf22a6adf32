"""Decides about a turn before anything of it is stored: its user messages, thinking, tools and prompt.

Only reads: the write lock is free while texts of others are judged. prepared_turn.py stores what was decided,
once a turn.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import partial

from bot.agent import history, prompt
from bot.agent.answer_sources import EarlierResults
from bot.agent.heavy_turns.model import load_model
from bot.agent.thinking_policy import (
    ThinkingDecision,
    ThinkingEvidence,
    ThinkingSetting,
    decide_thinking,
    settle_doubt,
)
from bot.db.conversations import turns
from bot.db.conversations.turns import StoredTurn
from bot.db.people import people
from bot.db.people.group_texts import StoredText
from bot.db.transaction import Transaction
from bot.domain import Message
from bot.turns import context_window
from bot.turns.context_window import ContextWindow, ToolboxFor
from bot.turns.said_before import build_block, load_earlier_block, load_texts
from bot.turns.thought_costs import ThoughtCost, adjust_threshold, explain_cost
from bot.turns.turn_request import (
    PreflightRequest,
    PreflightResult,
    TurnConfig,
    TurnRequest,
    build_user_messages,
    may_need_stamp,
)
from tools.base import Tool

# Tokens kept free for tool results, so that a turn that needs tools has space in its prompt:
TOOL_RESERVE_TOKENS = 2000  # where tools match the message
LEAST_RESERVE_TOKENS = 600  # else, for what no word of it shows: a search, or a short result

WITH_THINKING_REASON = "you asked for an answer with thinking"


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """What is decided about the turn of a request.

    `stored_turn`: the turn as an earlier attempt stored it; None: it is new.
    `window`: what the prompt holds of its conversation.
    `is_cut`: the window leaves out more than what is stored says.
    `toolbox_for`: gives the tools of its conversation.
    `preflight_call`: the ledger's row of the endpoint's judgement.
    `prompt_tokens`: estimate for the prompt.
    `tokens_left`: estimate of what the turn's steps may add to it.
    `image_tokens`: what a picture takes of the prompt.
    `said_before`: what a group's people said to each other, which the user messages begin with.
    """

    request: TurnRequest
    stored_turn: StoredTurn | None
    window: ContextWindow
    is_cut: bool
    toolbox_for: ToolboxFor
    user_messages: tuple[Message, ...]
    may_think: bool
    decision: ThinkingDecision
    preflight_call: int | None
    prompt: tuple[Message, ...]
    prompt_tokens: int
    tokens_left: int
    image_tokens: int
    said_before: tuple[StoredText, ...]
    earlier_results: EarlierResults

    @property
    def thinking(self) -> bool:
        """Whether the turn thinks; an earlier attempt has decided it once and for all."""
        return self.decision.thinking if self.stored_turn is None else self.stored_turn.thinking

    @property
    def preface(self) -> str:
        """What is put before its answer."""
        return self.request.preface if self.stored_turn is None else self.stored_turn.preface


async def plan_turn(
    tx: Transaction,
    config: TurnConfig,
    request: TurnRequest,
    preflight_result: PreflightResult | None,
    *,
    budget: int,
    now: float,
) -> TurnPlan | PreflightRequest:
    """Decide about the turn of a request, or find what an earlier attempt decided.

    `budget` bounds its prompt, in tokens. A PreflightRequest means that the turn is new and the endpoint
    should be asked first: call this again with its answer as `preflight_result`, which is None until then.
    """
    system = prompt.describe_chat(config.system, request.lane)
    assessment = await _assess(tx, config, request, system, preflight_result or PreflightResult(), now)
    new_tokens = assessment.user_tokens + min(assessment.tool_reserve_tokens, budget // 4)
    if preflight_result is None and assessment.stored_turn is None:
        preflight = _plan_preflight(config, request, assessment, new_tokens, budget)
        if preflight is not None:
            if not preflight.needs_token_count:
                return preflight
            full_prompt = await context_window.build_prompt(
                tx, assessment.current_window, system, assessment.user_messages
            )
            return replace(preflight, prompt=full_prompt)
    current = assessment.counted_window
    window = _fit_window(config, assessment, current, budget, new_tokens)
    is_cut = window is not current
    if is_cut:
        window = await context_window.renew_head(tx, request.lane, window, system)
    tokens_left = int(budget / window.token_ratio) - window.estimated_tokens - assessment.user_tokens
    return TurnPlan(
        request,
        assessment.stored_turn,
        window,
        is_cut,
        assessment.toolbox_for,
        assessment.user_messages,
        may_think=assessment.thinking_setting != "off",
        decision=assessment.decision,
        preflight_call=assessment.preflight_result.call,
        prompt=await context_window.build_prompt(tx, window, system, assessment.user_messages),
        prompt_tokens=window.estimated_tokens + assessment.user_tokens,
        tokens_left=max(0, tokens_left),
        image_tokens=config.image_tokens(),
        said_before=assessment.said_before,
        earlier_results=await context_window.load_earlier_results(
            tx, window, continues_answer=request.is_continuation
        ),
    )


@dataclass(frozen=True, slots=True)
class _Assessment:
    """A turn's request, judged in the conversation it belongs to.

    `stored_turn`: the turn as an earlier attempt stored it; None: there was none.
    `toolbox_for`: gives the tools of its conversation.
    `user_tokens`: estimate for its user messages.
    """

    stored_turn: StoredTurn | None
    current_window: ContextWindow
    toolbox_for: ToolboxFor
    user_messages: tuple[Message, ...]
    user_tokens: int
    preflight_result: PreflightResult
    thinking_setting: ThinkingSetting
    decision: ThinkingDecision
    said_before: tuple[StoredText, ...]

    @property
    def tool_reserve_tokens(self) -> int:
        """Tokens to keep free; a turn that has none left is not offered any tool."""
        return TOOL_RESERVE_TOKENS if self.decision.tools else LEAST_RESERVE_TOKENS

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
    system: str,
    preflight_result: PreflightResult,
    now: float,
) -> _Assessment:
    stored_turn = None
    if request.may_have_begun:
        stored_turn = await turns.find(tx, request.items[0].id)
    number = None
    if stored_turn is not None:
        # One that waited for an approval may belong to an earlier conversation, and stays in it.
        number = stored_turn.conversation
    # The tools of recent turns matter only where a prompt does not hold all tools.
    recent_tools: list[str] = []
    if config.tool_registry.needs_tool_search:
        recent_tools = await turns.list_recent_tools(tx, request.lane)
    likely_tools = preflight_result.likely_tools
    toolbox_for = _bind_toolbox(config, request, [*likely_tools, *recent_tools])
    window = await context_window.load_window(tx, request.lane, system, toolbox_for, number)
    last_message_at = 0.0
    if window.past_turns:
        last_message_at = window.past_turns[-1].received_at
    said_before: tuple[StoredText, ...] = ()
    if stored_turn is None:
        said_before = await load_texts(tx, request, now=now)
        zone: tzinfo = UTC
        if said_before or may_need_stamp(request, last_message_at, now):
            zone = await people.load_zone(tx, request.person, config.time_zone)
        blocks = (await load_earlier_block(tx, request), build_block(said_before, zone))
        block = "\n".join(filter(None, blocks))
        user_messages = build_user_messages(request, last_message_at, now, zone, block)
    else:
        user_messages = stored_turn.user_messages
    thinking_setting = window.conversation.think or config.thinking
    if request.with_thinking:
        thinking_setting = "on"
    thought_cost = await config.thought_costs.load(tx, now)
    return _Assessment(
        stored_turn,
        window,
        toolbox_for,
        user_messages,
        history.estimate_tokens(user_messages, config.image_tokens()),
        preflight_result,
        thinking_setting,
        _decide_thinking(request, window, thinking_setting, preflight_result.heavy_chance, thought_cost),
        said_before,
    )


def _fit_window(
    config: TurnConfig, assessment: _Assessment, current: ContextWindow, budget: int, new_tokens: int
) -> ContextWindow:
    """What the prompt may hold within the budget; it is `current` unless a cut is needed.

    A resumed turn keeps its tools, and the window it began with unless its prompt was too long for the
    endpoint, or its conversation has ended meanwhile: then nothing tells any more where that one was cut.
    """
    is_resumed = assessment.stored_turn is not None
    if is_resumed and budget == config.prompt_budget and not current.conversation.is_over:
        return current
    window = current.cut_to_fit(budget, new_tokens)
    if window is current or is_resumed:
        return window
    return replace(window, toolbox=assessment.toolbox_for(None))


def _plan_preflight(
    config: TurnConfig, request: TurnRequest, assessment: _Assessment, new_tokens: int, budget: int
) -> PreflightRequest | None:
    """What the endpoint should be asked before this turn begins, about its user messages; None: nothing."""
    window = assessment.current_window
    needs_count = config.can_count_tokens and window.is_near_budget(new_tokens, budget)
    needs_chance = config.can_estimate_heavy_work and assessment.is_undecided and not request.deep
    rivals = _find_tool_rivals(config, request, window)
    if not (needs_count or needs_chance or rivals):
        return None
    return PreflightRequest(
        request.lane.chat,
        needs_count,
        needs_chance,
        assessment.decision.thinking,
        assessment.user_messages,
        window.toolbox,
        rivals,
    )


def _find_tool_rivals(config: TurnConfig, request: TurnRequest, window: ContextWindow) -> tuple[Tool, ...]:
    """The tools among which words do not decide, where the prompt's tools are chosen now."""
    is_chosen_now = window.conversation.tools is None and config.tool_registry.needs_tool_search
    if not is_chosen_now or request.lane.is_guest or not config.can_choose_tools():
        return ()
    searchable = config.tool_registry.get_searchable_tools(request.person, request.lane.chat)
    return tuple(searchable.find_rivals([prompt.strip_files(text) for text in request.texts]))


def _bind_toolbox(config: TurnConfig, request: TurnRequest, recent_tools: Iterable[str]) -> ToolboxFor:
    texts = [prompt.strip_files(text) for text in request.texts]
    if request.lane.is_guest:
        return partial(config.tool_registry.build_guest_toolbox, texts)
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
    read_chance: float | None,
    thought_cost: ThoughtCost | None,
) -> ThinkingDecision:
    """`read_chance`: that the work is heavy, as the endpoint reads it; None: it was not asked."""
    evidence = ThinkingEvidence(
        thinking_setting,
        is_default=window.conversation.think is None,
        attachment_count=request.attachment_count,
    )
    if window.past_turns:
        last_turn = window.past_turns[-1]
        evidence = replace(evidence, recent_tools=last_turn.used, was_thinking=last_turn.thinking)
    texts = [prompt.strip_files(text) for text in request.texts]
    if thinking_setting != "auto":
        decision = decide_thinking(texts, window.toolbox.tool_index, evidence)
        if request.with_thinking:
            return replace(decision, reason=WITH_THINKING_REASON)
        return decision
    shipped_threshold = load_model().threshold
    threshold = adjust_threshold(shipped_threshold, thought_cost)
    decision = decide_thinking(texts, window.toolbox.tool_index, replace(evidence, threshold=threshold))
    if read_chance is not None and decision.is_unsure:
        decision = settle_doubt(decision, read_chance, threshold)
    explanation = explain_cost(
        decision.heavy_chance, shipped_threshold, thought_cost, thinking=decision.thinking
    )
    if explanation is None:
        return decision
    return replace(decision, reason=f"{decision.reason}; {explanation}")
