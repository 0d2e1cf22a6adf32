"""Decides whether a turn thinks, and why: it does if it needs tools and that work is heavy. Pure.

The decision is made once, before the turn begins. Its tools are indexed once (tool_matching.index); a
decision then takes well under a millisecond.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bot.agent.tool_matching.classifier import Weights, load_weights
from bot.agent.tool_matching.features import MAX_CHARS, MessageFeatures, extract_features
from bot.agent.tool_matching.index import ToolIndex, ToolProfile
from bot.agent.tool_matching.scores import build_features, match_tools

ThinkingSetting = Literal["auto", "on", "off"]

MAX_STEPS = 5  # steps of a message that are analyzed one by one
MIN_HEAVY_STEPS = 3  # requested steps from which the work of a single tool is heavy
MAX_FOLLOW_UP_WORDS = 6  # of a message that continues the tool work before it
MIN_ORDERED_SHARE = 0.5  # of the threshold; enough for a step that is a command, beside other steps
SURE_HINT_CHANCE = 0.75  # the probability where a hint, such as a link, is enough
DOUBT_MARGIN = 0.15  # distance from the threshold within which the words do not decide

_LINK = re.compile(r"https?://\S+|\bwww\.\S+", re.IGNORECASE)
_ATTACHMENT_WORDS = " file document"
_FOLLOW_UP_START = re.compile(
    r"\s*(?:(?:and|also|what about|how about|or|same|again|now)\b|"
    r"(?:und|auch|et|aussi|y|e|anche|também|и|а|ve|peki)\b|"
    r"و|ماذا عن|那|再|还有|じゃあ|では|\S+(?:\s+\S+){0,2}\s*[?？؟]\s*$)",
    re.IGNORECASE,
)
# What separates two steps, in the languages of concepts.txt. A comma or an `and` may also separate the
# items of a mere list.
_STEP_SEPARATOR = re.compile(
    r"(?:^|\n)[^\S\n]*(?:\d+[.)]|[-*•])[^\S\n]+|[;\n]|(?<=\w)[.!?]\s+|[。！？；؛]|"
    r"\b(?:then|after that|afterwards|finally|dann|danach|anschließend|puis|ensuite|"
    r"luego|después|poi|quindi|depois|"
    r"затем|потом|sonra|ardından)\b|\sثم\s|然后|再|接着|そして|それから|その後|"
    r"(?P<list>,|[，、،]|\b(?:and|und|et|y|ve)\b|\sи\s|\se\s|\sو|并且)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ThinkingEvidence:
    """What is known apart from the message text.

    setting: the user's own.
    job_setting: that of the job, which goes before the user's.
    recent_tools: those that the turn before used.
    was_thinking: whether it was thinking then.
    attachment_count: attachments of this message.
    """

    setting: ThinkingSetting = "auto"
    job_setting: ThinkingSetting = "auto"
    recent_tools: tuple[str, ...] = ()
    was_thinking: bool = False
    attachment_count: int = 0


@dataclass(frozen=True, slots=True)
class ThinkingDecision:
    """Whether to think, the `reason` in plain words, and the tools that match.

    tool_chance: probability, 0 to 1, that tools are needed.
    is_unsure: the words do not decide, so a typed read of the endpoint would help.
    """

    thinking: bool
    reason: str
    tool_chance: float
    tools: tuple[str, ...] = ()
    is_unsure: bool = False


@dataclass(frozen=True, slots=True)
class _MessageStep:
    """A message or a part of it.

    tool_chance: probability that it needs tools.
    threshold_share: `tool_chance` divided by the threshold.
    """

    tool_chance: float
    threshold_share: float
    nearest_tool: ToolProfile
    message: MessageFeatures

    @property
    def is_clear(self) -> bool:
        """Whether it needs a tool by its words alone."""
        return self.threshold_share >= 1

    @property
    def is_ordered(self) -> bool:
        """Whether it is a command, so that half the evidence is enough beside clearer steps."""
        return self.message.begins_with_command and self.threshold_share >= MIN_ORDERED_SHARE


@dataclass(frozen=True, slots=True)
class _RequestedWork:
    """What a message asks for: the tools that match, how many steps, and whether it needs a search first."""

    tool_chance: float
    is_readable: bool
    tools: tuple[ToolProfile, ...]
    step_count: int
    seeks_first: bool = False


def decide_thinking(
    texts: Sequence[str],
    tool_index: ToolIndex,
    evidence: ThinkingEvidence | None = None,
    weights: Weights | None = None,
) -> ThinkingDecision:
    """Decide for the newest user messages of a turn, given the tools offered to it."""
    evidence = evidence or ThinkingEvidence()
    weights = weights or load_weights()
    decision_by_setting = _decide_by_setting(evidence)
    if not tool_index.tools:
        return decision_by_setting or ThinkingDecision(
            thinking=False, reason="no tools are offered", tool_chance=0.0
        )
    text = "\n".join(texts)
    work = _analyze_message(text, tool_index, evidence, weights)
    if decision_by_setting is not None:
        tool_names = tuple(tool.name for tool in work.tools)
        return replace(decision_by_setting, tool_chance=work.tool_chance, tools=tool_names)
    if work.tools:
        return _decide_by_work(work)
    follow_up = _decide_follow_up(text, tool_index, evidence)
    if follow_up is not None:
        return follow_up
    if not work.is_readable:
        return _decide_unreadable(tool_index, work.tool_chance)
    is_near_threshold = abs(work.tool_chance - weights.threshold) < DOUBT_MARGIN
    return ThinkingDecision(
        thinking=False,
        reason="no tool fits",
        tool_chance=work.tool_chance,
        is_unsure=is_near_threshold or work.step_count >= MIN_HEAVY_STEPS,
    )


def estimate_tool_need(
    text: str, tool_index: ToolIndex, weights: Weights | None = None
) -> tuple[float, bool]:
    """The probability that a message needs one of the tools, and whether the message could be read at all."""
    message = extract_features(text)
    chance, _ = _estimate_tool_chance(message, tool_index, weights or load_weights())
    return chance, message.is_readable


def _estimate_tool_chance(
    message: MessageFeatures, tool_index: ToolIndex, weights: Weights
) -> tuple[float, list[ToolProfile]]:
    """The probability that tools are needed, and the tools, best first."""
    if not message.is_readable:
        return 0.0, list(tool_index.tools)
    matches = match_tools(message, tool_index)
    chance = weights.tool_chance(build_features(message, matches))
    if message.sure_hints & tool_index.postings.keys():
        chance = max(chance, SURE_HINT_CHANCE)
    return chance, [match.tool for match in matches]


def _decide_by_setting(evidence: ThinkingEvidence) -> ThinkingDecision | None:
    if evidence.job_setting != "auto":
        return ThinkingDecision(
            thinking=evidence.job_setting == "on",
            reason=f"the job asks for it: {evidence.job_setting}",
            tool_chance=0.0,
        )
    if evidence.setting != "auto":
        return ThinkingDecision(
            thinking=evidence.setting == "on",
            reason=f"you asked for it: /think {evidence.setting}",
            tool_chance=0.0,
        )
    return None


def _analyze_message(
    text: str, tool_index: ToolIndex, evidence: ThinkingEvidence, weights: Weights
) -> _RequestedWork:
    plain, link_count = _LINK.subn(" https:// ", text)  # the words of a URL say nothing about what is asked
    plain = plain[:MAX_CHARS]  # a decision must not hold up the event loop, however long the text is
    if evidence.attachment_count:
        suffix = _ATTACHMENT_WORDS
    else:
        suffix = ""
    full_message = _assess_step(extract_features(plain + suffix), tool_index, weights)
    is_english = full_message.message.is_english
    steps = []
    for part, is_list_item in _split_steps(plain):
        features = extract_features(part + suffix)
        is_step = features.begins_with_command or features.is_question
        if is_step or not (is_list_item and is_english):
            steps.append(_assess_step(features, tool_index, weights))
    # Two links are two things to look at, however few words stand around them.
    step_count = max(0, link_count - 1)
    step_count += sum(step.message.begins_with_command or step.is_clear for step in steps)
    clear_steps = [step for step in steps if step.is_clear]
    if not clear_steps and not full_message.is_clear:
        readable = full_message.message.is_readable
        return _RequestedWork(full_message.tool_chance, readable, (), step_count)
    tool_steps = [step for step in steps if step.is_clear or step.is_ordered]
    if not clear_steps:
        tool_steps.insert(0, full_message)
    tools = {step.nearest_tool.name: step.nearest_tool for step in tool_steps}
    seeks_first = bool(clear_steps) and any(
        step.message.begins_with_search and step.threshold_share < MIN_ORDERED_SHARE for step in steps
    )
    tool_chance = max(step.tool_chance for step in (full_message, *clear_steps))
    return _RequestedWork(tool_chance, True, tuple(tools.values()), max(1, step_count), seeks_first)


def _split_steps(text: str) -> list[tuple[str, bool]]:
    """The parts of a message, none if there is only one; True: it may be an item of a mere list."""
    parts = []
    start = 0
    is_list_item = False
    for separator in _STEP_SEPARATOR.finditer(text):
        parts.append((text[start : separator.start()], is_list_item))
        start = separator.end()
        is_list_item = separator["list"] is not None
    parts.append((text[start:], is_list_item))
    steps = [(part, is_item) for part, is_item in parts if len(part.strip()) > 1]
    if len(steps) > 1:
        return steps[:MAX_STEPS]
    return []


def _assess_step(message: MessageFeatures, tool_index: ToolIndex, weights: Weights) -> _MessageStep:
    chance, tools = _estimate_tool_chance(message, tool_index, weights)
    return _MessageStep(chance, chance / weights.threshold_for(message.is_english), tools[0], message)


def _decide_by_work(work: _RequestedWork) -> ThinkingDecision:
    """Tools are needed: is their work heavy?"""
    is_heavy, reason = _judge_weight(work)
    names = tuple(tool.name for tool in work.tools)
    return ThinkingDecision(thinking=is_heavy, reason=reason, tool_chance=work.tool_chance, tools=names)


def _judge_weight(work: _RequestedWork) -> tuple[bool, str]:
    """Whether the work is heavy, and why or why not."""
    count = len(work.tools)
    listed = ", ".join(tool.name for tool in work.tools)
    needs_thinking = next((tool.name for tool in work.tools if tool.thinking == "needs"), None)
    if needs_thinking is not None:
        return True, f"{needs_thinking} works best with thinking"
    all_light = all(tool.thinking == "never" for tool in work.tools)
    if all_light and not work.seeks_first:
        label = "one light tool" if count == 1 else "light tools"
        return False, f"{label}: {listed}"
    if count > 1 and not all_light:
        return True, f"{_NUMBER_WORDS.get(count, 'several')} tools match: {listed}"
    if work.step_count >= MIN_HEAVY_STEPS and not all_light:
        return True, f"several steps for {listed}"
    if work.seeks_first:
        return True, f"something to find out, and {listed}"
    return False, f"one tool, one step: {listed}"


_NUMBER_WORDS = {2: "two", 3: "three", 4: "four"}


def _decide_follow_up(
    text: str, tool_index: ToolIndex, evidence: ThinkingEvidence
) -> ThinkingDecision | None:
    """A short message after tool work, such as `and tomorrow?`, continues it as it was."""
    offered = {tool.name for tool in tool_index.tools}
    recent = tuple(name for name in evidence.recent_tools if name in offered)
    if not recent or len(text.split()) > MAX_FOLLOW_UP_WORDS or not _FOLLOW_UP_START.match(text.strip()):
        return None
    return ThinkingDecision(evidence.was_thinking, f"goes on with {', '.join(recent)}", 0.5, recent)


def _decide_unreadable(tool_index: ToolIndex, tool_chance: float) -> ThinkingDecision:
    heavy_tool = next((tool.name for tool in tool_index.tools if tool.thinking == "needs"), None)
    reason = "the words do not tell"
    if heavy_tool is not None:
        reason += f", and {heavy_tool} works best with thinking"
    return ThinkingDecision(
        thinking=heavy_tool is not None, reason=reason, tool_chance=tool_chance, is_unsure=True
    )
