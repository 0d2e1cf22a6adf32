"""Asks a person about a tool call, hears the answer, and puts the turn back: also hours later, also after a
restart.

Owns who is asked and may answer, what an answer leads to, and when a question expires. Each act works inside
the caller's transaction and returns the lanes in which something is to be delivered once that is committed.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from bot.agent import approval_prompt as questions
from bot.agent.approval_prompt import ApprovalPrompt
from bot.agent.taint import RequireApproval
from bot.agent.tool_calls import CheckedCall
from bot.db.engine import Database, Transaction
from bot.db.queues import outbox
from bot.db.queues import parked_items as parking
from bot.db.queues.parked_items import EndedTurn
from bot.db.retry import retry_until_available
from bot.db.tools import approvals as stored
from bot.db.tools.approvals import (
    AllowanceKey,
    ApprovalAnswer,
    ApprovalQuestion,
    ApproverKind,
    NewApprovalQuestion,
)
from bot.domain import Lane, Part
from tools.base import Tool, hash_tool

ALLOW_HERE_SECONDS = questions.ALLOW_HERE_HOURS * 3600.0

ASKED_ADMINS = "I have asked the admins whether I may run {}. You can write on meanwhile; I answer here."
NO_ADMIN = (
    "Only an admin who did not ask could allow me to run {}, and none can be reached now. So I do not run it."
)
NOT_YOURS = "This is not yours to answer."
TOO_LATE = "It is too late for that: nobody answered in time."

_ANSWER_NOTICES: dict[ApprovalAnswer, str] = {
    "once": "Allowed once by {}.",
    "here": f"Allowed for {questions.ALLOW_HERE_HOURS} hours by {{}}. /approvals takes it back.",
    "denied": "Denied by {}.",
    "expired": "Nobody answered in time; it is not run.",
    "stopped": "Stopped; it is not run.",
}
_ANSWER_TOASTS: dict[ApprovalAnswer, str] = {
    "once": "Allowed once.",
    "here": "Allowed here.",
    "denied": "Denied.",
    "expired": TOO_LATE,
    "stopped": "This was stopped.",
}


@dataclass(frozen=True, slots=True)
class Requester:
    """In which turn, for whom and where a call is made."""

    turn: int
    person: int
    name: str
    lane: Lane


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that needs a person; `is_asked`: the question is put already, and open."""

    call: CheckedCall
    tool: Tool
    requirement: RequireApproval
    has_open_question: bool = False


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """What comes of a tap: a line for whoever tapped, the lanes to wake, and whether it `settled` the
    question.
    """

    toast: str
    lanes_to_wake: tuple[Lane, ...] = ()
    is_settled: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalDependencies:
    """What approvals need of the house: `admins` who can be written to now, who is one, and whom to wake.

    `ended` hears of turns that were ended where they waited, once that is committed; their lanes need not be
    woken.
    """

    reachable_admins: Callable[[Transaction], Awaitable[Sequence[int]]]
    is_admin: Callable[[int], bool]
    wake_sender: Callable[[Lane], None]
    wake_worker: Callable[[], None]
    on_turn_ended: Callable[[EndedTurn], None]


class Approvals:
    """The one way to ask; `seconds` is how long a question stays open."""

    def __init__(
        self,
        database: Database,
        dependencies: ApprovalDependencies,
        *,
        timeout_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._dependencies = dependencies
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._question_added = asyncio.Event()

    async def find_recipients(self, tx: Transaction, who: ApproverKind, requester: Requester) -> list[Lane]:
        """Where a question is put; empty if nobody who may answer can be reached."""
        if who == "asker":
            return [requester.lane]
        return [
            Lane(admin)
            for admin in await self._dependencies.reachable_admins(tx)
            if admin != requester.person
        ]

    async def is_allowed(
        self, tx: Transaction, requester: Requester, tool: Tool, binding: str, *, now: float
    ) -> bool:
        """Whether such a call of theirs was allowed in this chat for a while by somebody who may allow it
        now, and the tool is the same since.
        """
        call = AllowanceKey(requester.person, requester.lane.chat, tool.name, hash_tool(tool), binding)
        by = await stored.find_giver(tx, call, now=now)
        return by is not None and (tool.rule.who == "asker" or self._is_other_admin(by, requester.person))

    async def load_questions(self, tx: Transaction, turn: int) -> dict[tuple[int, str], ApprovalQuestion]:
        """What was asked in a turn, by step and call."""
        return await stored.load_of_turn(tx, turn)

    async def request(
        self,
        tx: Transaction,
        requester: Requester,
        step: int,
        pending_calls: Iterable[PendingCall],
        *,
        now: float,
    ) -> list[Lane]:
        """Put the questions of a turn that is parked now. Call `asked` once that is committed."""
        woken = []
        for one in pending_calls:
            if not one.has_open_question:
                woken += await self._put_question(tx, requester, step, one, now)
        return woken

    def notify(self, lanes: Iterable[Lane]) -> None:
        """What was put is committed: have it delivered, and look when it expires."""
        self._wake_senders(lanes)
        self._question_added.set()

    async def answer(
        self,
        tx: Transaction,
        question_id: int,
        answer: ApprovalAnswer,
        answered_by: tuple[int, str],
        *,
        now: float,
    ) -> AnswerOutcome:
        """Somebody tapped: who it is, by number and name. Wake the lanes, and the worker, once it is
        committed.
        """
        found = await stored.find(tx, question_id)
        (person, name) = answered_by
        if found is None or (answer == "here" and found.binding is None):
            return AnswerOutcome("This button is too old.")
        if not self.can_answer(found, person):
            return AnswerOutcome(NOT_YOURS)
        if found.answer is not None:
            mine = found.answered_by == person
            return AnswerOutcome(
                "You have answered this." if mine else _ANSWER_NOTICES[found.answer].format("another admin")
            )
        if found.expires_at <= now:
            return AnswerOutcome(
                TOO_LATE,
                await self._resolve_questions(tx, [found], "expired", None, now=now),
                is_settled=True,
            )
        lanes = await self._resolve_questions(tx, [found], answer, person, name, now=now)
        if answer == "here" and found.binding is not None:
            call = AllowanceKey(found.asker, found.lane.chat, found.tool, found.hash, found.binding)
            await stored.allow(tx, call, until=now + ALLOW_HERE_SECONDS, given_by=person, now=now)
        return AnswerOutcome(_ANSWER_TOASTS[answer], lanes, is_settled=True)

    def can_answer(self, question: ApprovalQuestion, person: int) -> bool:
        """Whether a question is this person's to answer; what only admins may allow is never the asker's own."""
        if question.who == "admins":
            return self._is_other_admin(person, question.asker)
        return person == question.asker

    def _is_other_admin(self, person: int, requester: int) -> bool:
        return person != requester and self._dependencies.is_admin(person)

    async def stop_turns(self, tx: Transaction, turns: Sequence[int], *, now: float) -> tuple[Lane, ...]:
        """A person stopped these parked turns: they come to their end when they are taken up again."""
        return await self._resolve_questions(
            tx, await stored.list_open(tx, turns=turns), "stopped", None, now=now
        )

    async def forget_lane(self, tx: Transaction, lane: Lane, *, before: int, now: float) -> tuple[Lane, ...]:
        """A chat is forgotten: what waits in this lane of it ends, what was allowed in it is allowed no more."""
        await stored.revoke_all(tx, chat=lane.chat)
        return await self.stop_turns(tx, await parking.list_parked_turns(tx, lane, before=before), now=now)

    async def end_for_person(
        self, tx: Transaction, person: int, *, reason: str, now: float
    ) -> tuple[Callable[[], object], ...]:
        """A person is let in no more: their questions, allowances and waiting turns end. Returns what is to
        be done once that is committed.
        """
        await stored.revoke_all(tx, person=person)
        lanes = []
        for one in await stored.list_open(tx, person=person):
            await stored.store_answer(tx, one.id, "stopped", None, now=now)
            lanes += await self._show_answer(tx, one, "stopped", "")
        ended = await parking.end_waiting_turns(tx, person, reason=reason, now=now)
        return (
            partial(self._wake_senders, lanes),
            *(partial(self._dependencies.on_turn_ended, one) for one in ended),
        )

    async def run(self) -> None:
        """Let questions expire, until cancelled."""
        while True:
            self._question_added.clear()
            at = await retry_until_available(self._expire_questions)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if at is None else max(0.0, at - self._clock())):
                    await self._question_added.wait()

    async def _expire_questions(self) -> float | None:
        """Deny what nobody answered in time; returns when the next question expires."""
        now = self._clock()
        lanes = tuple[Lane, ...]()
        async with self._database.read_transaction() as tx:
            at = await stored.find_next_expiry(tx)
        if at is None or at > now:
            return at
        async with self._database.transaction() as tx:
            lanes = await self._resolve_questions(
                tx, await stored.list_open(tx, expired_by=now), "expired", None, now=now
            )
            at = await stored.find_next_expiry(tx)
        self._wake_senders(lanes)
        self._dependencies.wake_worker()
        return at

    async def _put_question(
        self, tx: Transaction, requester: Requester, step: int, pending: PendingCall, now: float
    ) -> list[Lane]:
        arguments = questions.serialize_arguments(pending.call.arguments)
        tool = pending.tool
        new = NewApprovalQuestion(
            turn=requester.turn,
            step=step,
            call_id=pending.call.call.id,
            tool=tool.name,
            arguments=arguments,
            hash=hash_tool(tool),
            asker=requester.person,
            lane=requester.lane,
            who=pending.requirement.approver,
            why=pending.requirement.reason,
            binding=pending.requirement.binding,
            expires_at=now + self._timeout_seconds,
        )
        number = await stored.insert_question(tx, new, now=now)
        is_elsewhere = pending.requirement.approver == "admins"
        matter = ApprovalPrompt(
            tool.name,
            arguments,
            requester.name,
            requester.person,
            pending.requirement.reason,
            pending.requirement.binding,
            is_elsewhere,
        )
        parts = questions.render_question(matter, number)
        lanes = await self.find_recipients(tx, pending.requirement.approver, requester)
        for lane in lanes:
            rows = await outbox.add(tx, item=None, lane=lane, parts=parts, now=now)
            await outbox.allow_repeat(tx, rows)
            await stored.link_messages(tx, number, rows)
        if requester.lane not in lanes:
            line = Part(ASKED_ADMINS.format(tool.name), silent=True)
            await outbox.add(tx, item=None, lane=requester.lane, parts=(line,), now=now)
        return [*lanes, requester.lane]

    async def _resolve_questions(
        self,
        tx: Transaction,
        questions_to_close: Sequence[ApprovalQuestion],
        answer: ApprovalAnswer,
        answered_by: int | None,
        answerer_name: str = "",
        *,
        now: float,
    ) -> tuple[Lane, ...]:
        """Store one answer to several questions, tell it where they were put, and let turns go on that wait
        no more.
        """
        lanes = list[Lane]()
        for one in questions_to_close:
            await stored.store_answer(tx, one.id, answer, answered_by, now=now)
            lanes += await self._show_answer(tx, one, answer, answerer_name)
        waiting = {
            one.turn for one in await stored.list_open(tx, turns=[one.turn for one in questions_to_close])
        }
        for turn in {one.turn for one in questions_to_close} - waiting:
            await parking.resume(tx, turn, stopped=answer == "stopped", now=now)
        return tuple(lanes)

    async def _show_answer(
        self, tx: Transaction, question: ApprovalQuestion, answer: ApprovalAnswer, answerer_name: str
    ) -> list[Lane]:
        """Put the answer under the question, wherever that stands."""
        rows = await stored.list_messages(tx, question.id)
        return await outbox.close_buttons(tx, rows, _ANSWER_NOTICES[answer].format(answerer_name))

    def _wake_senders(self, lanes: Iterable[Lane]) -> None:
        for lane in dict.fromkeys(lanes):
            self._dependencies.wake_sender(lane)
