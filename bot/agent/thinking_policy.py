"""Decides whether a turn thinks, and why: it does if its work is heavy, several calls that belong together.

Pure. The decision is made once, before the turn begins, by a small model (heavy_turns). The tools are
indexed once (tool_matching.index); a decision then takes half a millisecond.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bot.agent.heavy_turns.message_features import (
    MessageText,
    describe_previous,
    is_continuation,
    read_message,
)
from bot.agent.heavy_turns.model import build_features, explain_heavy, explain_light, is_known, load_model
from bot.agent.heavy_turns.tool_features import MatchedMessage, match_message
from bot.agent.tool_matching.classifier import Weights, load_weights
from bot.agent.tool_matching.index import ToolIndex, ToolProfile

ThinkingSetting = Literal["auto", "on", "off"]

# Between these probabilities of heavy work the words do not decide.
UNSURE_FROM = 0.15
UNSURE_TO = 0.9
MIN_WORD_CHANCE = 0.2  # what the words count as at least, beside a read; of many languages they know nothing
NEEDS_CHANCE = 0.9  # probability that a tool is needed, from which one that needs thinking gets it

_ATTACHMENT_WORDS = " file document"


@dataclass(frozen=True, slots=True)
class ThinkingEvidence:
    """What is known apart from the message text.

    setting: the user's own.
    is_default: the setting is THINKING's, for all chats.
    recent_tools: those that the turn before used.
    was_thinking: whether it was thinking then.
    attachment_count: attachments of this message.
    threshold: the probability of heavy work from which the turn thinks; None: as shipped.
    """

    setting: ThinkingSetting = "auto"
    is_default: bool = False
    recent_tools: tuple[str, ...] = ()
    was_thinking: bool = False
    attachment_count: int = 0
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class ThinkingDecision:
    """Whether to think, the `reason` in plain words, and the tools that match.

    heavy_chance: probability, 0 to 1, that the work is heavy.
    tool_chance: probability, 0 to 1, that tools are needed.
    is_unsure: the words do not decide, so a typed read of the endpoint would help.
    """

    thinking: bool
    reason: str
    heavy_chance: float
    tool_chance: float
    tools: tuple[str, ...] = ()
    is_unsure: bool = False


def decide_thinking(
    texts: Sequence[str], tool_index: ToolIndex, evidence: ThinkingEvidence | None = None
) -> ThinkingDecision:
    """Decide for the newest user messages of a turn, given the tools offered to it."""
    evidence = evidence or ThinkingEvidence()
    text = "\n".join(texts)
    decision = _find_setting(evidence)
    if decision is None and tool_index.tools:
        return _decide_by_work(text, tool_index, evidence)
    if decision is None:
        return ThinkingDecision(
            thinking=False, reason="no tools are offered", heavy_chance=0.0, tool_chance=0.0
        )
    if tool_index.tools:
        return replace(decision, tools=_find_tools(text, tool_index, evidence))
    return decision


def settle_doubt(decision: ThinkingDecision, read_chance: float, threshold: float) -> ThinkingDecision:
    """Decide in doubt by the words and by what the endpoint reads.

    `read_chance`: the probability of heavy work that it gives. Both are weighed as independent judgements, so
    the clearer one decides. Words are never clearer than these bounds, as where none is known.
    """
    word_chance = min(max(decision.heavy_chance, MIN_WORD_CHANCE), UNSURE_TO)
    both = word_chance * read_chance
    chance = both / (both + (1 - word_chance) * (1 - read_chance))
    reason = f"in doubt: heavy by its words {decision.heavy_chance:.0%}, by the endpoint {read_chance:.0%}"
    return replace(
        decision, thinking=chance >= threshold, reason=reason, heavy_chance=chance, is_unsure=False
    )


def _find_setting(evidence: ThinkingEvidence) -> ThinkingDecision | None:
    """What was set; None: nothing was, so the words decide.

    How heavy the work is, is not judged then, for that takes longer than to find its tools.
    """
    setting = evidence.setting
    if setting == "auto":
        return None
    reason = f"you asked for it: /think {setting}"
    if evidence.is_default:
        reason = f"it is set for all chats: THINKING={setting}"
    return ThinkingDecision(thinking=setting == "on", reason=reason, heavy_chance=0.0, tool_chance=0.0)


def _decide_by_work(text: str, tool_index: ToolIndex, evidence: ThinkingEvidence) -> ThinkingDecision:
    weights = load_weights()
    model = load_model()
    message = read_message(text)
    matched = _match_tools(message, tool_index, evidence, weights)
    recent_tools = _list_recent_tools(tool_index, evidence)
    features = build_features(message, matched)
    features |= describe_previous(text, bool(recent_tools), bool(recent_tools) and evidence.was_thinking)
    heavy_chance = model.estimate_chance(features)
    tools = _list_clear_tools(matched, weights)
    decision = ThinkingDecision(
        thinking=False,
        reason=explain_light([tool.name for tool in tools]),
        heavy_chance=heavy_chance,
        tool_chance=matched.whole.tool_chance,
        tools=tuple(tool.name for tool in tools),
        is_unsure=UNSURE_FROM <= heavy_chance <= UNSURE_TO or not is_known(features),
    )
    threshold = model.threshold if evidence.threshold is None else evidence.threshold
    if heavy_chance >= threshold:
        return replace(decision, thinking=True, reason=explain_heavy(features))
    if recent_tools and is_continuation(text):
        return _continue_work(decision, recent_tools, evidence.was_thinking)
    if tools and tools[0].thinking == "needs" and decision.tool_chance >= NEEDS_CHANCE:
        reason = f"{tools[0].name} works best with thinking"
        return replace(decision, thinking=True, reason=reason, is_unsure=False)
    return decision


def _find_tools(text: str, tool_index: ToolIndex, evidence: ThinkingEvidence) -> tuple[str, ...]:
    """The tools that a message needs by its words, or that the turn it continues used."""
    weights = load_weights()
    matched = _match_tools(read_message(text), tool_index, evidence, weights)
    tools = tuple(tool.name for tool in _list_clear_tools(matched, weights))
    if not tools and is_continuation(text):
        return _list_recent_tools(tool_index, evidence)
    return tools


def _match_tools(
    message: MessageText, tool_index: ToolIndex, evidence: ThinkingEvidence, weights: Weights
) -> MatchedMessage:
    text = message.plain
    if evidence.attachment_count:
        text += _ATTACHMENT_WORDS
    return match_message(text, tool_index, weights)


def _list_clear_tools(matched: MatchedMessage, weights: Weights) -> list[ToolProfile]:
    """The tools that the message, or pieces of it, clearly need by their words."""
    tools = {}
    for piece in (matched.whole, *matched.pieces):
        if piece.tool_chance >= weights.threshold_for(piece.message.is_english):
            tools[piece.nearest_tool.name] = piece.nearest_tool
    return list(tools.values())


def _list_recent_tools(tool_index: ToolIndex, evidence: ThinkingEvidence) -> tuple[str, ...]:
    offered = {tool.name for tool in tool_index.tools}
    return tuple(name for name in evidence.recent_tools if name in offered)


def _continue_work(
    decision: ThinkingDecision, recent_tools: tuple[str, ...], was_thinking: bool
) -> ThinkingDecision:
    """A short message after tool work, such as `and tomorrow?`, needs what that needed."""
    reason = f"it continues {', '.join(recent_tools)}"
    return replace(
        decision, thinking=was_thinking, reason=reason, tools=decision.tools or recent_tools, is_unsure=False
    )
