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
from bot.agent.tool_matching.classifier import Weights, shipped
from bot.agent.tool_matching.features import Wording
from bot.agent.tool_matching.index import Offer, Shape

Setting = Literal["auto", "on", "off"]

PIECES = 5  # steps of a message that are looked at one by one
SEVERAL = 3  # steps asked for from which one tool's work is heavy
FOLLOW_UP = 6  # words a message has at most that goes on with the tool work before it
HELPED = 0.5  # of the threshold is enough for a step that says what to do, beside others
SURE = 0.75  # the probability where a sign, such as a link, says enough
DOUBT = 0.15  # how near to the threshold words do not tell

_LINK = re.compile(r"https?://\S+|\bwww\.\S+", re.IGNORECASE)
_ATTACHED = " file document"
_GOES_ON = re.compile(
    r"\s*(?:(?:and|also|what about|how about|or|same|again|now)\b|(?:und|auch|et|aussi|y|e|anche|também|и|а|ve|peki)\b|"
    r"و|ماذا عن|那|再|还有|じゃあ|では|\S+(?:\s+\S+){0,2}\s*[?？؟]\s*$)",
    re.IGNORECASE,
)
# What stands between two steps, in the languages of concepts.txt. A comma or an `and` may also part a mere
# list.
_NEXT = re.compile(
    r"(?:^|\n)\s*(?:\d+[.)]|[-*•])\s+|[;\n]|(?<=\w)[.!?]\s+|[。！？；؛]|"
    r"\b(?:then|after that|afterwards|finally|dann|danach|anschließend|puis|ensuite|luego|después|poi|quindi|depois|"
    r"затем|потом|sonra|ardından)\b|\sثم\s|然后|再|接着|そして|それから|その後|"
    r"(?P<list>,|[，、،]|\b(?:and|und|et|y|ve)\b|\sи\s|\se\s|\sو|并且)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known beside the words. `job` is the job's own setting and goes before the person's `setting`.

    `recent` are the tools the turn before used, `thought` whether it was thinking then; `attachments` of this
    message.
    """

    setting: Setting = "auto"
    job: Setting = "auto"
    recent: tuple[str, ...] = ()
    thought: bool = False
    attachments: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to think, `why` in plain words, the probability that tools are needed, and the tools that
    match.

    `unsure`: words do not tell, so a read of the endpoint's would help.
    """

    thinking: bool
    why: str
    needs_tools: float
    tools: tuple[str, ...] = ()
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """A message or a part: the probability that it needs tools, its share of the threshold, the tool nearest
    to it.
    """

    needs: float
    share: float
    tool: Shape
    said: Wording

    @property
    def clear(self) -> bool:
        """Whether its words tell that it needs a tool."""
        return self.share >= 1

    @property
    def ordered(self) -> bool:
        """Whether it says what to do, so that half the evidence is enough beside clearer steps."""
        return self.said.order and self.share >= HELPED


@dataclass(frozen=True, slots=True)
class _Work:
    """What a message asks for: the tools that match, how many steps, and whether something is to be found out
    first.
    """

    needs: float
    readable: bool
    tools: tuple[Shape, ...]
    steps: int
    sought: bool = False


def decide(
    texts: Sequence[str], offer: Offer, evidence: Evidence | None = None, weights: Weights | None = None
) -> Decision:
    """Decide for the newest user messages of a turn, given what is offered with them."""
    evidence = evidence or Evidence()
    weights = weights or shipped()
    told = _told(evidence)
    if not offer.tools:
        return told or Decision(thinking=False, why="no tools are offered", needs_tools=0.0)
    text = "\n".join(texts)
    work = _work(text, offer, evidence, weights)
    if told is not None:
        return Decision(told.thinking, told.why, work.needs, tuple(tool.name for tool in work.tools))
    if work.tools:
        return _by_weight(work)
    if going := _going_on(text, offer, evidence):
        return going
    if not work.readable:
        return _unknown(offer, work.needs)
    doubtful = abs(work.needs - weights.threshold) < DOUBT or work.steps >= SEVERAL
    return Decision(thinking=False, why="no tool fits", needs_tools=work.needs, unsure=doubtful)


def needs_tools(text: str, offer: Offer, weights: Weights | None = None) -> tuple[float, bool]:
    """The probability that a message needs one of the tools, and whether there was anything to judge it by."""
    said = wording.read(text)
    return _needs(said, offer, weights or shipped())[0], said.readable


def _needs(said: Wording, offer: Offer, weights: Weights) -> tuple[float, list[Shape]]:
    """The probability that tools are needed, and the tools, best first."""
    if not said.readable:
        return 0.0, list(offer.tools)
    found = matching.matches(said, offer)
    chance = weights.needs(matching.features(said, found))
    if said.sure & offer.spots.keys():
        chance = max(chance, SURE)
    return chance, [match.tool for match in found]


def _told(evidence: Evidence) -> Decision | None:
    if evidence.job != "auto":
        return Decision(
            thinking=evidence.job == "on", why=f"the job asks for it: {evidence.job}", needs_tools=0.0
        )
    if evidence.setting != "auto":
        return Decision(
            thinking=evidence.setting == "on",
            why=f"you asked for it: /think {evidence.setting}",
            needs_tools=0.0,
        )
    return None


def _work(text: str, offer: Offer, evidence: Evidence, weights: Weights) -> _Work:
    plain, links = _LINK.subn(" https:// ", text)  # the words of an address say nothing of what is asked
    added = _ATTACHED if evidence.attachments else ""
    whole = _step(wording.read(plain + added), offer, weights)
    parts = [(wording.read(piece + added), listed and whole.said.english) for piece, listed in _pieces(plain)]
    steps = [_step(said, offer, weights) for said, listed in parts if not listed or said.order or said.asks]
    # Two links are two things to look at, however few words stand around them.
    asked = sum(step.said.order or step.clear for step in steps) + max(0, links - 1)
    clear = [step for step in steps if step.clear]
    if not clear and not whole.clear:
        return _Work(whole.needs, whole.said.readable, (), asked)
    told = [step for step in steps if step.clear or step.ordered]
    tools = {step.tool.name: step.tool for step in (told if clear else [whole, *told])}
    sought = bool(clear) and any(step.said.seeks and step.share < HELPED for step in steps)
    needs = max(step.needs for step in (whole, *clear))
    return _Work(needs, True, tuple(tools.values()), max(1, asked), sought)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """The parts of a message; none where there is one only. True: it stands behind what may also part a mere
    list.
    """
    pieces = []
    begin = 0
    listed = False
    for between in _NEXT.finditer(text):
        pieces.append((text[begin : between.start()], listed))
        begin = between.end()
        listed = between["list"] is not None
    pieces.append((text[begin:], listed))
    told = [(piece, listed) for piece, listed in pieces if len(piece.strip()) > 1]
    if len(told) > 1:
        return told[:PIECES]
    return []


def _step(said: Wording, offer: Offer, weights: Weights) -> _Step:
    needs, found = _needs(said, offer, weights)
    return _Step(needs, needs / weights.least(said.english), found[0], said)


def _by_weight(work: _Work) -> Decision:
    """Tools are needed: is it heavy?"""
    names = tuple(tool.name for tool in work.tools)
    listed = ", ".join(names)
    needing = [tool.name for tool in work.tools if tool.thinking == "needs"]
    working = [tool.name for tool in work.tools if tool.thinking != "never"]
    if needing:
        heavy = True
        why = f"{needing[0]} works best with thinking"
    elif not working and not work.sought:
        heavy = False
        if len(names) == 1:
            why = f"one light tool: {listed}"
        else:
            why = f"light tools: {listed}"
    elif len(names) > 1 and working:
        heavy = True
        why = f"{_COUNT.get(len(names), 'several')} tools match: {listed}"
    elif work.steps >= SEVERAL and working:
        heavy = True
        why = f"several steps for {listed}"
    elif work.sought:
        heavy = True
        why = f"something to find out, and {listed}"
    else:
        heavy = False
        why = f"one tool, one step: {listed}"
    return Decision(thinking=heavy, why=why, needs_tools=work.needs, tools=names)


_COUNT = {2: "two", 3: "three", 4: "four"}


def _going_on(text: str, offer: Offer, evidence: Evidence) -> Decision | None:
    """A short message after tool work, such as `and tomorrow?`, goes on with it as it was."""
    offered = {tool.name for tool in offer.tools}
    recent = tuple(name for name in evidence.recent if name in offered)
    if not recent or len(text.split()) > FOLLOW_UP or not _GOES_ON.match(text):
        return None
    return Decision(evidence.thought, f"goes on with {', '.join(recent)}", 0.5, recent)


def _unknown(offer: Offer, needs: float) -> Decision:
    heavy = next((tool.name for tool in offer.tools if tool.thinking == "needs"), None)
    why = "the words do not tell" + (f", and {heavy} works best with thinking" if heavy else "")
    return Decision(thinking=heavy is not None, why=why, needs_tools=needs, unsure=True)
