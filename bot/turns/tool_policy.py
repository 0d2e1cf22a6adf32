"""Decides which tool calls of a turn run: by grant, number, rule, taint, and what people answered.

Decides in the transaction that stores the calls, and again after a wait or a restart.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from bot.agent import approval_policy, approval_prompt
from bot.agent.approval_policy import AllowCall, CallVerdict, DenyCall, RequireApproval
from bot.agent.events import RunTools
from bot.agent.taint import TaintState
from bot.agent.tool_calls import CheckedCall
from bot.db.people import people
from bot.db.queues import outbox
from bot.db.tools.approvals import ApprovalQuestion
from bot.db.transaction import Transaction
from bot.domain import Part, ToolResult
from bot.tool_registry.assembly import format_unavailable
from bot.tool_registry.toolbox import Toolbox
from bot.turns.approval_questions import PendingCall, Requester
from bot.turns.approvals import NO_ADMIN, Approvals
from tools.base import Tool, ToolError, hash_tool
from tools.builtin.ask import NOBODY_TO_ASK, ask, parse_question

MAX_CALLS = 16  # of one turn

NOT_GRANTED = "{} may not be used by this person here; it was not run. Say so: an admin can change that."
TOO_MANY = (
    "This was not run: no more than {} tool calls may be made for one answer. Say what you found so far."
)
CHANGED = "This was not run: the tool has changed since it was allowed. Say so; the person may ask again."
NOBODY = "This was not run: only an admin who did not ask could allow it, and none can be reached. Say so."
DENIED = "This was not run: {} did not allow it. Say so, and do not try it in another way."
EXPIRED = "This was not run: nobody allowed it in time. Say so."
ASKED_BEFORE = "This was not asked: one question an answer. Go on with what you know."
ANSWERED_BELOW = (
    "They answered with a message that is more than words; you read it right after this answer. Say in a few "
    "words that you look at it, and end."
)
UNANSWERED = "Nobody answered in time. Say in one sentence what you still need to know, and end."
FOR_GUESTS = "This was not run: in a chat of others no tool may change or ask anything. Say so."
STOPPED = "This was not run: the turn was stopped."

ResultsByCall = Mapping[tuple[int, str], ToolResult]
"""Results by step and call id."""


@dataclass(frozen=True, slots=True)
class ToolPolicyDependencies:
    """What the policies of all turns share.

    `is_granted`: whether a tool (by name) may be used by a person in a chat.
    `is_suspended`: whether a tool is suspended, though a prompt may still name it.
    """

    approvals: Approvals
    is_granted: Callable[[str, int, int], bool]
    is_suspended: Callable[[str], bool] = lambda name: False


@dataclass(frozen=True, slots=True)
class PolicyDecisions:
    """What is decided about the calls of a step that have no result yet."""

    ready: tuple[CheckedCall, ...] = ()
    pending_calls: tuple[PendingCall, ...] = ()
    refused: tuple[ToolResult, ...] = ()


class ToolPolicy:
    """Decides about the calls of one turn.

    `taint_state`: what the turn had read before its first call.
    `questions_by_call`: what people were asked in it before, by step and call id.
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

    @property
    def has_questions(self) -> bool:
        """Whether calls of this turn have waited for an approval."""
        return bool(self._questions_by_call)

    async def evaluate(
        self, tx: Transaction, event: RunTools, results: ResultsByCall, *, now: float
    ) -> PolicyDecisions:
        """Decide about the calls of a step that have no result yet; `results` are all that the turn has."""
        taint_state = self.add_results(results)
        call_count = sum(result.outcome != "refused" for result in results.values())
        ready = list[CheckedCall]()
        pending = list[PendingCall]()
        refused = list[ToolResult]()
        for checked in event.calls:
            key = (event.step, checked.call.id)
            if key in results:
                continue
            if checked.call.name == ask.name and any(call.tool.name == ask.name for call in pending):
                verdict: CallVerdict = DenyCall("too_many", ASKED_BEFORE)
            else:
                verdict = await self._judge_call(tx, event.step, checked, taint_state, call_count, now)
            match verdict:
                case AllowCall():
                    ready.append(checked)
                case RequireApproval():
                    tool = self._toolbox.tools[checked.call.name]
                    pending.append(PendingCall(checked, tool, verdict, key in self._questions_by_call))
                case DenyCall(refusal, text):
                    refused.append(ToolResult(checked.call, text, "refused", refusal=refusal))
            call_count += not isinstance(verdict, DenyCall)
        return PolicyDecisions(tuple(ready), tuple(pending), tuple(refused))

    async def request_approvals(
        self, tx: Transaction, step: int, pending_calls: Iterable[PendingCall], *, now: float
    ) -> None:
        """Put the questions of a turn that is parked now."""
        await self._dependencies.approvals.request(tx, self._requester, step, pending_calls, now=now)

    def find_answer(self, step: int, call_id: str) -> str | None:
        """What the person has answered to what a call asks; None: it asks nothing, or nobody has."""
        question = self._questions_by_call.get((step, call_id))
        if question is None or question.answer != "given":
            return None
        return question.reply or ANSWERED_BELOW

    def add_results(self, results: ResultsByCall) -> TaintState:
        """What the turn has read, its results included."""
        known = self._taint_state
        taint_state = replace(known, texts=[*known.texts], results=[*known.results])
        for result in results.values():
            taint_state.add_result(self._toolbox.tools.get(result.call.name), result)
        return taint_state

    async def _judge_call(
        self,
        tx: Transaction,
        step: int,
        checked_call: CheckedCall,
        taint_state: TaintState,
        call_count: int,
        now: float,
    ) -> CallVerdict:
        tool = self._toolbox.tools[checked_call.call.name]
        requester = self._requester
        if self._dependencies.is_suspended(tool.name):
            return DenyCall("suspended", format_unavailable(tool.name))
        if not self._dependencies.is_granted(tool.name, requester.person, requester.lane.chat):
            return DenyCall("not_granted", NOT_GRANTED.format(tool.name))
        question = self._questions_by_call.get((step, checked_call.call.id))
        if question is not None:
            return _judge_answer(question, tool, checked_call)
        if call_count >= MAX_CALLS:
            return DenyCall("too_many", TOO_MANY.format(MAX_CALLS))
        if tool.name == ask.name:
            return self._judge_question(checked_call)
        verdict = approval_policy.assess(tool, checked_call.arguments, taint_state)
        changes = tool.changes and not tool.rule.only_reads
        if requester.lane.is_guest and (changes or isinstance(verdict, RequireApproval)):
            return DenyCall("guest", FOR_GUESTS)
        if isinstance(verdict, RequireApproval):
            return await self._check_allowance(tx, tool, verdict, now)
        return verdict

    def _judge_question(self, checked_call: CheckedCall) -> CallVerdict:
        """Whether the person is asked what the model wants to know."""
        if not self._requester.can_answer:
            return DenyCall("nobody", NOBODY_TO_ASK)
        if any(question.tool == ask.name for question in self._questions_by_call.values()):
            return DenyCall("too_many", ASKED_BEFORE)
        try:
            parse_question(checked_call.arguments["question"])
        except ToolError as error:
            return DenyCall("arguments", str(error))
        return RequireApproval("", "asker", None)

    async def _check_allowance(
        self, tx: Transaction, tool: Tool, requirement: RequireApproval, now: float
    ) -> CallVerdict:
        """Allow what was allowed for a while; deny, with a line in the chat, where nobody can be asked."""
        approvals = self._dependencies.approvals
        requester = self._requester
        binding = requirement.binding
        if binding is not None and await approvals.is_allowed(tx, requester, tool, binding, now=now):
            return AllowCall()
        if await approvals.find_recipients(tx, requirement.approver, requester):
            return requirement
        translate = await people.find_translator(tx, requester.person)
        line = Part(translate(NO_ADMIN, tool=tool.name), silent=True)
        await outbox.add(tx, item=None, lane=requester.lane, parts=(line,), now=now)
        return DenyCall("nobody", NOBODY)


def _judge_answer(question: ApprovalQuestion, tool: Tool, checked_call: CheckedCall) -> CallVerdict:
    """What a question has led to; a call runs only exactly as it was shown."""
    match question.answer:
        case None:
            return RequireApproval("", question.who, question.binding)
        case "given":
            return AllowCall()
        case "expired" if tool.name == ask.name:
            return DenyCall("expired", UNANSWERED)
        case "denied":
            return DenyCall("denied", DENIED.format("an admin" if question.who == "admins" else "the person"))
        case "expired":
            return DenyCall("expired", EXPIRED)
        case "stopped":
            return DenyCall("stopped", STOPPED)
    is_same_tool = hash_tool(tool) == question.hash
    is_same_call = approval_prompt.serialize_arguments(checked_call.arguments) == question.arguments
    could_answer = question.who == "admins" or tool.rule.who == "asker"
    if is_same_tool and is_same_call and could_answer:
        return AllowCall()
    return DenyCall("changed", CHANGED)
