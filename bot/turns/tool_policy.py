"""What becomes of the calls of one turn before they run: by grant, by number, by caution, and by what people
answered.

Judged in the transaction that writes the calls down, and again after a wait or a restart.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bot.agent import approval_prompt as questions
from bot.agent import taint as caution
from bot.agent.events import RunTools
from bot.agent.taint import Ask, Reading, Refuse, Run, Verdict
from bot.agent.tool_calls import Wanted
from bot.agent.toolbox import Toolbox
from bot.db.engine import Transaction
from bot.db.queues import outbox
from bot.db.tools.approvals import Question
from bot.domain import Lane, Part, ToolResult
from bot.tool_registry.assembly import unavailable
from bot.turns.approvals import NO_ADMIN, Approvals, Asker, Waiting
from tools.base import Tool, definition_hash

NOT_GRANTED = "{} may not be used by this person here; it was not run. Say so: an admin can change that."
TOO_MANY = (
    "This was not run: no more than {} tool calls may be made for one answer. Say what you found so far."
)
CHANGED = "This was not run: the tool has changed since it was allowed. Say so; the person may ask again."
NOBODY = "This was not run: only an admin who did not ask could allow it, and none can be reached. Say so."
DENIED = "This was not run: {} did not allow it. Say so, and do not try it in another way."
EXPIRED = "This was not run: nobody allowed it in time. Say so."
STOPPED = "This was not run: the turn was stopped."

ByCall = Mapping[tuple[int, str], ToolResult]


@dataclass(frozen=True, slots=True)
class Guard:
    """What the gates of all turns share: how a person is asked, who may use which tool in which chat, the
    `most` calls of one turn, and which tools rest, though a prompt still names them.
    """

    approvals: Approvals
    granted: Callable[[str, int, int], bool]
    most: int
    rests: Callable[[str], bool] = lambda name: False


@dataclass(frozen=True, slots=True)
class Sorted:
    """The calls of a step that have no result yet."""

    ready: tuple[Wanted, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    refused: tuple[ToolResult, ...] = ()


class Gate:
    """Of one turn; `reading` is what it had read before its first call, `asked` what people were asked in it
    before.
    """

    def __init__(
        self,
        guard: Guard,
        asker: Asker,
        toolbox: Toolbox,
        reading: Reading,
        asked: Mapping[tuple[int, str], Question],
    ) -> None:
        self._guard = guard
        self._asker = asker
        self._toolbox = toolbox
        self._reading = reading
        self._asked = asked
        self._told: tuple[Lane, ...] = ()

    @property
    def has_asked(self) -> bool:
        """Whether calls of this turn have waited for a person."""
        return bool(self._asked)

    async def sort(self, tx: Transaction, event: RunTools, results: ByCall, *, now: float) -> Sorted:
        """Judge the calls of a step that have no result yet; `results` are all that the turn has."""
        self._told = ()
        reading = self._read(results)
        made = sum(result.outcome != "refused" for result in results.values())
        ready = list[Wanted]()
        waiting = list[Waiting]()
        refused = list[ToolResult]()
        for one in event.calls:
            if (event.step, one.call.id) in results:
                continue
            verdict = await self._verdict(tx, event.step, one, reading, made, now)
            match verdict:
                case Run():
                    ready.append(one)
                case Ask():
                    is_asked = (event.step, one.call.id) in self._asked
                    waiting.append(Waiting(one, self._toolbox.tools[one.call.name], verdict, is_asked))
                case Refuse(why):
                    refused.append(ToolResult(one.call, why, "refused"))
            made += not isinstance(verdict, Refuse)
        return Sorted(tuple(ready), tuple(waiting), tuple(refused))

    async def ask(self, tx: Transaction, step: int, waiting: Iterable[Waiting], *, now: float) -> None:
        """Put the questions of a turn that is parked now; `tell` when that is committed."""
        self._told = tuple(await self._guard.approvals.ask(tx, self._asker, step, waiting, now=now))

    def tell(self) -> None:
        """What was stored for people to read is committed."""
        if self._told:
            self._guard.approvals.asked(self._told)
            self._told = ()

    def _read(self, results: ByCall) -> Reading:
        reading = Reading(self._reading.outside, [*self._reading.texts])
        for result in results.values():
            reading.read(self._toolbox.tools.get(result.call.name), result)
        return reading

    async def _verdict(
        self, tx: Transaction, step: int, one: Wanted, reading: Reading, made: int, now: float
    ) -> Verdict:
        tool = self._toolbox.tools[one.call.name]
        asker = self._asker
        if self._guard.rests(tool.name):
            return Refuse(unavailable(tool.name))
        if not self._guard.granted(tool.name, asker.person, asker.lane.chat):
            return Refuse(NOT_GRANTED.format(tool.name))
        question = self._asked.get((step, one.call.id))
        if question is not None:
            return _answered(question, tool, one)
        if made >= self._guard.most:
            return Refuse(TOO_MANY.format(self._guard.most))
        verdict = caution.judge(tool, one.arguments, reading)
        if isinstance(verdict, Ask):
            return await self._may(tx, tool, verdict, now)
        return verdict

    async def _may(self, tx: Transaction, tool: Tool, ask: Ask, now: float) -> Verdict:
        """It asks, unless it was allowed for a while; where nobody can be asked, the chat is told so."""
        approvals = self._guard.approvals
        asker = self._asker
        if ask.binding is not None and await approvals.allowed(tx, asker, tool, ask.binding, now=now):
            return Run()
        if await approvals.where(tx, ask.who, asker):
            return ask
        line = Part(NO_ADMIN.format(tool.name), silent=True)
        await outbox.add(tx, item=None, lane=asker.lane, parts=(line,), now=now)
        self._told = (asker.lane,)
        return Refuse(NOBODY)


def _answered(question: Question, tool: Tool, one: Wanted) -> Verdict:
    """What a question has led to; what runs is what was shown, and nothing else."""
    match question.answer:
        case None:
            return Ask("", question.who, question.binding)
        case "denied":
            return Refuse(DENIED.format("an admin" if question.who == "admins" else "the person"))
        case "expired":
            return Refuse(EXPIRED)
        case "stopped":
            return Refuse(STOPPED)
    is_same = definition_hash(tool) == question.hash and questions.stored(one.arguments) == question.arguments
    was_theirs = question.who == "admins" or tool.rule.who == "asker"
    if is_same and was_theirs:
        return Run(question.id)
    return Refuse(CHANGED)
