"""Whether a turn thinks, and why: does it need tools, and is that work heavy? Decided once, before it begins.
Pure.

The tools of a turn are indexed once (`offer.index`); a decision then takes well under a millisecond.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bot.agent.tool_matching import features as wording
from bot.agent.tool_matching import scores as matching
from bot.agent.tool_matching.classifier import Weights, load_weights
from bot.agent.tool_matching.features import MessageFeatures
from bot.agent.tool_matching.index import ToolIndex, ToolProfile

ThinkingSetting = Literal["auto", "on", "off"]

MAX_STEPS = 5  # steps of a message that are looked at one by one
MIN_HEAVY_STEPS = 3  # steps asked for from which one tool's work is heavy
MAX_FOLLOW_UP_WORDS = 6  # words a message has at most that goes on with the tool work before it
MIN_ORDERED_SHARE = 0.5  # of the threshold is enough for a step that says what to do, beside others
SURE_HINT_CHANCE = 0.75  # the probability where a sign, such as a link, says enough
DOUBT_MARGIN = 0.15  # how near to the threshold words do not tell

_LINK = re.compile(r"https?://\S+|\bwww\.\S+", re.IGNORECASE)
_ATTACHMENT_WORDS = " file document"
_FOLLOW_UP_START = re.compile(
    r"\s*(?:(?:and|also|what about|how about|or|same|again|now)\b|(?:und|auch|et|aussi|y|e|anche|também|и|а|ve|peki)\b|"
    r"و|ماذا عن|那|再|还有|じゃあ|では|\S+(?:\s+\S+){0,2}\s*[?？؟]\s*$)",
    re.IGNORECASE,
)
# What stands between two steps, in the languages of concepts.txt. A comma or an `and` may also part a mere
# list.
_STEP_SEPARATOR = re.compile(
    r"(?:^|\n)\s*(?:\d+[.)]|[-*•])\s+|[;\n]|(?<=\w)[.!?]\s+|[。！？；؛]|"
    r"\b(?:then|after that|afterwards|finally|dann|danach|anschließend|puis|ensuite|luego|después|poi|quindi|depois|"
    r"затем|потом|sonra|ardından)\b|\sثم\s|然后|再|接着|そして|それから|その後|"
    r"(?P<list>,|[，、،]|\b(?:and|und|et|y|ve)\b|\sи\s|\se\s|\sو|并且)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ThinkingEvidence:
    """What is known beside the words. `job` is the job's own setting and goes before the person's `setting`.

    `recent` are the tools the turn before used, `thought` whether it was thinking then; `attachments` of this
    message.
    """

    setting: ThinkingSetting = "auto"
    job_setting: ThinkingSetting = "auto"
    recent_tools: tuple[str, ...] = ()
    was_thinking: bool = False
    attachment_count: int = 0


@dataclass(frozen=True, slots=True)
class ThinkingDecision:
    """Whether to think, `why` in plain words, the probability that tools are needed, and the tools that
    match.

    `unsure`: words do not tell, so a read of the endpoint's would help.
    """

    thinking: bool
    reason: str
    tool_chance: float
    tools: tuple[str, ...] = ()
    is_unsure: bool = False


@dataclass(frozen=True, slots=True)
class _MessageStep:
    """A message or a part: the probability that it needs tools, its share of the threshold, the tool nearest
    to it.
    """

    tool_chance: float
    threshold_share: float
    nearest_tool: ToolProfile
    message: MessageFeatures

    @property
    def is_clear(self) -> bool:
        """Whether its words tell that it needs a tool."""
        return self.threshold_share >= 1

    @property
    def is_ordered(self) -> bool:
        """Whether it says what to do, so that half the evidence is enough beside clearer steps."""
        return self.message.begins_with_command and self.threshold_share >= MIN_ORDERED_SHARE


@dataclass(frozen=True, slots=True)
class _RequestedWork:
    """What a message asks for: the tools that match, how many steps, and whether something is to be found out
    first.
    """

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
    """Decide for the newest user messages of a turn, given what is offered with them."""
    evidence = evidence or ThinkingEvidence()
    weights = weights or load_weights()
    told = _decide_by_setting(evidence)
    if not tool_index.tools:
        return told or ThinkingDecision(thinking=False, reason="no tools are offered", tool_chance=0.0)
    text = "\n".join(texts)
    work = _analyze_message(text, tool_index, evidence, weights)
    if told is not None:
        return ThinkingDecision(
            told.thinking, told.reason, work.tool_chance, tuple(tool.name for tool in work.tools)
        )
    if work.tools:
        return _decide_by_work(work)
    if going := _decide_follow_up(text, tool_index, evidence):
        return going
    if not work.is_readable:
        return _decide_unreadable(tool_index, work.tool_chance)
    doubtful = abs(work.tool_chance - weights.threshold) < DOUBT_MARGIN or work.step_count >= MIN_HEAVY_STEPS
    return ThinkingDecision(
        thinking=False, reason="no tool fits", tool_chance=work.tool_chance, is_unsure=doubtful
    )


def estimate_tool_need(
    text: str, tool_index: ToolIndex, weights: Weights | None = None
) -> tuple[float, bool]:
    """The probability that a message needs one of the tools, and whether there was anything to judge it by."""
    said = wording.extract_features(text)
    return _estimate_tool_chance(said, tool_index, weights or load_weights())[0], said.is_readable


def _estimate_tool_chance(
    message: MessageFeatures, tool_index: ToolIndex, weights: Weights
) -> tuple[float, list[ToolProfile]]:
    """The probability that tools are needed, and the tools, best first."""
    if not message.is_readable:
        return 0.0, list(tool_index.tools)
    found = matching.match_tools(message, tool_index)
    chance = weights.tool_chance(matching.build_features(message, found))
    if message.sure_hints & tool_index.postings.keys():
        chance = max(chance, SURE_HINT_CHANCE)
    return chance, [match.tool for match in found]


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
    plain, links = _LINK.subn(" https:// ", text)  # the words of an address say nothing of what is asked
    added = _ATTACHMENT_WORDS if evidence.attachment_count else ""
    whole = _assess_step(wording.extract_features(plain + added), tool_index, weights)
    parts = [
        (wording.extract_features(piece + added), listed and whole.message.is_english)
        for piece, listed in _split_steps(plain)
    ]
    steps = [
        _assess_step(said, tool_index, weights)
        for said, listed in parts
        if not listed or said.begins_with_command or said.is_question
    ]
    # Two links are two things to look at, however few words stand around them.
    asked = sum(step.message.begins_with_command or step.is_clear for step in steps) + max(0, links - 1)
    clear = [step for step in steps if step.is_clear]
    if not clear and not whole.is_clear:
        return _RequestedWork(whole.tool_chance, whole.message.is_readable, (), asked)
    told = [step for step in steps if step.is_clear or step.is_ordered]
    tools = {step.nearest_tool.name: step.nearest_tool for step in (told if clear else [whole, *told])}
    sought = bool(clear) and any(
        step.message.begins_with_search and step.threshold_share < MIN_ORDERED_SHARE for step in steps
    )
    needs = max(step.tool_chance for step in (whole, *clear))
    return _RequestedWork(needs, True, tuple(tools.values()), max(1, asked), sought)


def _split_steps(text: str) -> list[tuple[str, bool]]:
    """The parts of a message; none where there is one only. True: it stands behind what may also part a mere
    list.
    """
    pieces = []
    begin = 0
    listed = False
    for between in _STEP_SEPARATOR.finditer(text):
        pieces.append((text[begin : between.start()], listed))
        begin = between.end()
        listed = between["list"] is not None
    pieces.append((text[begin:], listed))
    told = [(piece, listed) for piece, listed in pieces if len(piece.strip()) > 1]
    if len(told) > 1:
        return told[:MAX_STEPS]
    return []


def _assess_step(message: MessageFeatures, tool_index: ToolIndex, weights: Weights) -> _MessageStep:
    needs, found = _estimate_tool_chance(message, tool_index, weights)
    return _MessageStep(needs, needs / weights.threshold_for(message.is_english), found[0], message)


def _decide_by_work(work: _RequestedWork) -> ThinkingDecision:
    """Tools are needed: is it heavy?"""
    names = tuple(tool.name for tool in work.tools)
    listed = ", ".join(names)
    needing = [tool.name for tool in work.tools if tool.thinking == "needs"]
    working = [tool.name for tool in work.tools if tool.thinking != "never"]
    if needing:
        heavy = True
        why = f"{needing[0]} works best with thinking"
    elif not working and not work.seeks_first:
        heavy = False
        if len(names) == 1:
            why = f"one light tool: {listed}"
        else:
            why = f"light tools: {listed}"
    elif len(names) > 1 and working:
        heavy = True
        why = f"{_NUMBER_WORDS.get(len(names), 'several')} tools match: {listed}"
    elif work.step_count >= MIN_HEAVY_STEPS and working:
        heavy = True
        why = f"several steps for {listed}"
    elif work.seeks_first:
        heavy = True
        why = f"something to find out, and {listed}"
    else:
        heavy = False
        why = f"one tool, one step: {listed}"
    return ThinkingDecision(thinking=heavy, reason=why, tool_chance=work.tool_chance, tools=names)


_NUMBER_WORDS = {2: "two", 3: "three", 4: "four"}


def _decide_follow_up(
    text: str, tool_index: ToolIndex, evidence: ThinkingEvidence
) -> ThinkingDecision | None:
    """A short message after tool work, such as `and tomorrow?`, goes on with it as it was."""
    offered = {tool.name for tool in tool_index.tools}
    recent = tuple(name for name in evidence.recent_tools if name in offered)
    if not recent or len(text.split()) > MAX_FOLLOW_UP_WORDS or not _FOLLOW_UP_START.match(text):
        return None
    return ThinkingDecision(evidence.was_thinking, f"goes on with {', '.join(recent)}", 0.5, recent)


def _decide_unreadable(tool_index: ToolIndex, tool_chance: float) -> ThinkingDecision:
    heavy = next((tool.name for tool in tool_index.tools if tool.thinking == "needs"), None)
    why = "the words do not tell" + (f", and {heavy} works best with thinking" if heavy else "")
    return ThinkingDecision(thinking=heavy is not None, reason=why, tool_chance=tool_chance, is_unsure=True)
