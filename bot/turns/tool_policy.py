"""What becomes of the calls of one turn before they run: by grant, by number, by caution, and by what people
answered.

Judged in the transaction that writes the calls down, and again after a wait or a restart.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bot.agent import approval_prompt as questions
from bot.agent import taint as caution
from bot.agent.events import RunTools
from bot.agent.taint import AllowCall, CallVerdict, DenyCall, RequireApproval, TaintState
from bot.agent.tool_calls import CheckedCall
from bot.agent.toolbox import Toolbox
from bot.db.engine import Transaction
from bot.db.queues import outbox
from bot.db.tools.approvals import ApprovalQuestion
from bot.domain import Lane, Part, ToolResult
from bot.tool_registry.assembly import format_unavailable
from bot.turns.approvals import NO_ADMIN, Approvals, PendingCall, Requester
from tools.base import Tool, hash_tool

NOT_GRANTED = "{} may not be used by this person here; it was not run. Say so: an admin can change that."
TOO_MANY = (
    "This was not run: no more than {} tool calls may be made for one answer. Say what you found so far."
)
CHANGED = "This was not run: the tool has changed since it was allowed. Say so; the person may ask again."
NOBODY = "This was not run: only an admin who did not ask could allow it, and none can be reached. Say so."
DENIED = "This was not run: {} did not allow it. Say so, and do not try it in another way."
EXPIRED = "This was not run: nobody allowed it in time. Say so."
STOPPED = "This was not run: the turn was stopped."

ResultsByCall = Mapping[tuple[int, str], ToolResult]


@dataclass(frozen=True, slots=True)
class ToolPolicyDependencies:
    """What the gates of all turns share: how a person is asked, who may use which tool in which chat, the
    `most` calls of one turn, and which tools rest, though a prompt still names them.
    """

    approvals: Approvals
    is_granted: Callable[[str, int, int], bool]
    max_calls: int
    is_suspended: Callable[[str], bool] = lambda name: False


@dataclass(frozen=True, slots=True)
class PolicyDecisions:
    """The calls of a step that have no result yet."""

    ready: tuple[CheckedCall, ...] = ()
    pending_calls: tuple[PendingCall, ...] = ()
    refused: tuple[ToolResult, ...] = ()


class ToolPolicy:
    """Of one turn; `reading` is what it had read before its first call, `asked` what people were asked in it
    before.
    """

    def __init__(
        self,
        dependencies: ToolPolicyDependencies,
        requester: Requester,
        toolbox: Toolbox,
        taint_state: TaintState,
        questions_by_call: Mapping[tuple[int, str], ApprovalQuestion],
    ) -> None:
        self._dependencies = dependencies
        self._requester = requester
        self._toolbox = toolbox
        self._taint_state = taint_state
        self._questions_by_call = questions_by_call
        self._lanes_to_notify: tuple[Lane, ...] = ()

    @property
    def has_questions(self) -> bool:
        """Whether calls of this turn have waited for a person."""
        return bool(self._questions_by_call)

    async def evaluate(
        self, tx: Transaction, event: RunTools, results: ResultsByCall, *, now: float
    ) -> PolicyDecisions:
        """Judge the calls of a step that have no result yet; `results` are all that the turn has."""
        self._lanes_to_notify = ()
        reading = self._read_results(results)
        made = sum(result.outcome != "refused" for result in results.values())
        ready = list[CheckedCall]()
        waiting = list[PendingCall]()
        refused = list[ToolResult]()
        for one in event.calls:
            if (event.step, one.call.id) in results:
                continue
            verdict = await self._judge_call(tx, event.step, one, reading, made, now)
            match verdict:
                case AllowCall():
                    ready.append(one)
                case RequireApproval():
                    is_asked = (event.step, one.call.id) in self._questions_by_call
                    waiting.append(PendingCall(one, self._toolbox.tools[one.call.name], verdict, is_asked))
                case DenyCall(why):
                    refused.append(ToolResult(one.call, why, "refused"))
            made += not isinstance(verdict, DenyCall)
        return PolicyDecisions(tuple(ready), tuple(waiting), tuple(refused))

    async def request_approvals(
        self, tx: Transaction, step: int, pending_calls: Iterable[PendingCall], *, now: float
    ) -> None:
        """Put the questions of a turn that is parked now; `tell` when that is committed."""
        self._lanes_to_notify = tuple(
            await self._dependencies.approvals.request(tx, self._requester, step, pending_calls, now=now)
        )

    def notify(self) -> None:
        """What was stored for people to read is committed."""
        if self._lanes_to_notify:
            self._dependencies.approvals.notify(self._lanes_to_notify)
            self._lanes_to_notify = ()

    def _read_results(self, results: ResultsByCall) -> TaintState:
        reading = TaintState(self._taint_state.is_tainted, [*self._taint_state.texts])
        for result in results.values():
            reading.add_result(self._toolbox.tools.get(result.call.name), result)
        return reading

    async def _judge_call(
        self,
        tx: Transaction,
        step: int,
        checked_call: CheckedCall,
        taint_state: TaintState,
        calls_made: int,
        now: float,
    ) -> CallVerdict:
        tool = self._toolbox.tools[checked_call.call.name]
        asker = self._requester
        if self._dependencies.is_suspended(tool.name):
            return DenyCall(format_unavailable(tool.name))
        if not self._dependencies.is_granted(tool.name, asker.person, asker.lane.chat):
            return DenyCall(NOT_GRANTED.format(tool.name))
        question = self._questions_by_call.get((step, checked_call.call.id))
        if question is not None:
            return _judge_answer(question, tool, checked_call)
        if calls_made >= self._dependencies.max_calls:
            return DenyCall(TOO_MANY.format(self._dependencies.max_calls))
        verdict = caution.assess(tool, checked_call.arguments, taint_state)
        if isinstance(verdict, RequireApproval):
            return await self._check_allowance(tx, tool, verdict, now)
        return verdict

    async def _check_allowance(
        self, tx: Transaction, tool: Tool, requirement: RequireApproval, now: float
    ) -> CallVerdict:
        """It asks, unless it was allowed for a while; where nobody can be asked, the chat is told so."""
        approvals = self._dependencies.approvals
        asker = self._requester
        if requirement.binding is not None and await approvals.is_allowed(
            tx, asker, tool, requirement.binding, now=now
        ):
            return AllowCall()
        if await approvals.find_recipients(tx, requirement.approver, asker):
            return requirement
        line = Part(NO_ADMIN.format(tool.name), silent=True)
        await outbox.add(tx, item=None, lane=asker.lane, parts=(line,), now=now)
        self._lanes_to_notify = (asker.lane,)
        return DenyCall(NOBODY)


def _judge_answer(question: ApprovalQuestion, tool: Tool, checked_call: CheckedCall) -> CallVerdict:
    """What a question has led to; what runs is what was shown, and nothing else."""
    match question.answer:
        case None:
            return RequireApproval("", question.who, question.binding)
        case "denied":
            return DenyCall(DENIED.format("an admin" if question.who == "admins" else "the person"))
        case "expired":
            return DenyCall(EXPIRED)
        case "stopped":
            return DenyCall(STOPPED)
    is_same = (
        hash_tool(tool) == question.hash
        and questions.serialize_arguments(checked_call.arguments) == question.arguments
    )
    was_theirs = question.who == "admins" or tool.rule.who == "asker"
    if is_same and was_theirs:
        return AllowCall(question.id)
    return DenyCall(CHANGED)
