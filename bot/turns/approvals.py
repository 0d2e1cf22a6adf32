"""Asks whether a tool call may run, takes the answer, and resumes the turn, also after a restart.

Owns who is asked and may answer, what an answer leads to, and when a question expires. Its methods work
inside the caller's transaction.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bot.agent.approval_prompt import ALLOW_HERE_HOURS
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import outbox, parked_items
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.parked_items import EndedTurn
from bot.db.retry import retry_until_available
from bot.db.tools import approvals as approval_rows
from bot.db.tools.approvals import (
    AllowanceKey,
    ApprovalAnswer,
    ApprovalQuestion,
    ApproverKind,
)
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.translations.translator import Translator, translatable
from bot.turns.approval_questions import PendingCall, Requester, build_question, put_question
from tools.base import Tool, hash_tool
from tools.builtin.ask import ask
from tools.builtin.notes import remember
from tools.builtin.schedule import schedule
from tools.safety.plain_text import to_plain_line

ALLOW_HERE_SECONDS = ALLOW_HERE_HOURS * 3600.0

NO_ADMIN = translatable(
    "Only another admin could allow me to run {tool}, and I can't reach any right now. So I won't run it."
)
TOO_LATE = translatable("Too late: nobody answered in time.")

ANSWERED = translatable("Answered: {answer}")
ANSWERED_BELOW = translatable("Answered below.")

_ANSWER_NOTICES: dict[ApprovalAnswer, str] = {
    "once": translatable("Allowed once by {name}."),
    "given": ANSWERED,
    "here": translatable("Allowed for {hours} hours by {name}. /approvals revokes that."),
    "denied": translatable("Denied by {name}."),
    "expired": translatable("Nobody answered in time, so I won't run it."),
    "stopped": translatable("Stopped; I won't run it."),
}
_ANSWER_TOASTS: dict[ApprovalAnswer, str] = {
    "once": translatable("Allowed once."),
    "given": translatable("Thank you."),
    "here": translatable("Allowed here."),
    "denied": translatable("Denied."),
    "expired": TOO_LATE,
    "stopped": translatable("This was stopped."),
}
_YES_OR_NO: dict[ApprovalAnswer, str] = {"once": translatable("Yes"), "denied": translatable("No")}
_ASKED_IN_WORDS = {remember.name, schedule.name}
_UNANSWERED_NOTICES: dict[ApprovalAnswer, str] = {  # of what the model itself asks
    "expired": translatable("Nobody answered in time."),
    "stopped": translatable("Stopped."),
}
MAX_SHOWN_ANSWER_CHARS = 100


@dataclass(frozen=True, slots=True)
class ApprovalDependencies:
    """What approvals need of the gateway.

    `notices`: know the admins who can be written to now.
    `on_turn_ended`: called for a turn that was ended where it waited, once that is committed.
    """

    notices: AdminNotices
    is_admin: Callable[[int], bool]
    on_turn_ended: Callable[[EndedTurn], None]


class Approvals:
    """Puts questions and settles them.

    `timeout_seconds` is how long a question stays open. `look_seconds`: between looks for questions that
    other processes have put (None: there are none).
    """

    def __init__(
        self,
        database: Database,
        dependencies: ApprovalDependencies,
        *,
        timeout_seconds: float,
        look_seconds: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._dependencies = dependencies
        self._timeout_seconds = timeout_seconds
        self._look_seconds = look_seconds
        self._clock = clock
        self._question_added = asyncio.Event()
        self._has_open_questions = True  # until it is known

    async def find_recipients(self, tx: Transaction, who: ApproverKind, requester: Requester) -> list[Lane]:
        """Where a question is put; empty if nobody who may answer can be reached."""
        if who == "asker":
            return [requester.lane]
        admins = await self._dependencies.notices.list_admins(tx)
        return [Lane(admin) for admin in admins if admin != requester.person]

    async def is_allowed(
        self, tx: Transaction, requester: Requester, tool: Tool, binding: str, *, now: float
    ) -> bool:
        """Whether such a call of the requester is allowed in this chat for a while.

        It was allowed by somebody who may allow it now, and the tool has not changed since.
        """
        key = AllowanceKey(requester.person, requester.lane.chat, tool.name, hash_tool(tool), binding)
        giver = await approval_rows.find_giver(tx, key, now=now)
        if giver is None:
            return False
        return tool.rule.who == "asker" or self._is_other_admin(giver, requester.person)

    async def request(
        self,
        tx: Transaction,
        requester: Requester,
        step: int,
        pending_calls: Iterable[PendingCall],
        *,
        now: float,
    ) -> None:
        """Put the questions of a turn that is parked now."""
        expires_at = now + self._timeout_seconds
        for pending in pending_calls:
            if pending.has_open_question:
                continue
            recipients = await self.find_recipients(tx, pending.requirement.approver, requester)
            question = build_question(requester, step, pending, expires_at=expires_at)
            await put_question(tx, question, requester, pending, recipients, now=now)

    def wake(self) -> None:
        """Watch when a question expires that was put just now."""
        self._has_open_questions = True
        self._question_added.set()

    @property
    def may_have_open(self) -> bool:
        """Whether a question may be open; costs nothing, since every message makes sure."""
        return self._has_open_questions or self._look_seconds is not None

    async def answer(
        self,
        tx: Transaction,
        question_id: int,
        answer: ApprovalAnswer,
        answered_by: tuple[int, str],
        reply: str | None = None,
        *,
        now: float,
    ) -> str:
        """Take the answer of a person, given by id and name; returns a line for who tapped.

        `reply`: what they say to a question of the model's own.
        """
        question = await approval_rows.find(tx, question_id, to_answer=True)
        person, _ = answered_by
        translate = await people.find_translator(tx, person)
        if (
            question is None
            or (answer == "here" and question.binding is None)
            or (answer == "given") != (question.tool == ask.name)
        ):
            return translate("This button is too old.")
        if not self.can_answer(question, person):
            return await self._explain_not_yours(tx, translate, question)
        if question.answer is not None and question.answered_by == person:
            return translate("You've already answered this.")
        if question.answer is not None:
            return _format_answer(translate, question, translate("another admin"))
        if question.expires_at <= now:
            await self._resolve_questions(tx, [question], "expired", None, now=now)
            return translate(TOO_LATE)
        await self._resolve_questions(tx, [question], answer, answered_by, reply, now=now)
        if answer == "here" and question.binding is not None:
            key = AllowanceKey(
                question.asker, question.lane.chat, question.tool, question.hash, question.binding
            )
            await approval_rows.allow(tx, key, until=now + ALLOW_HERE_SECONDS, given_by=person, now=now)
        if _is_yes_or_no(answered := replace(question, answer=answer)):
            return _format_answer(translate, answered, "")
        return translate(_ANSWER_TOASTS[answer])

    async def _explain_not_yours(
        self, tx: Transaction, translate: Translator, question: ApprovalQuestion
    ) -> str:
        """Who may answer a question that somebody else tapped."""
        if question.who == "admins":
            return translate("Only another admin can answer this.")
        asker = await people.find(tx, question.asker)
        if asker is None:
            return translate("Only the person who asked can answer this.")
        return translate("Only {name} can answer this.", name=asker.name)

    def can_answer(self, question: ApprovalQuestion, person: int) -> bool:
        """Whether this person may answer; admins may not allow their own calls where an admin decides."""
        if question.who == "admins":
            return self._is_other_admin(person, question.asker)
        return person == question.asker

    def _is_other_admin(self, person: int, requester: int) -> bool:
        return person != requester and self._dependencies.is_admin(person)

    async def stop_turns(self, tx: Transaction, turns: Sequence[int], *, now: float) -> None:
        """Stop parked turns: they come to their end when they are resumed."""
        questions = await approval_rows.list_open(tx, turns=turns)
        await self._resolve_questions(tx, questions, "stopped", None, now=now)

    async def forget_lane(self, tx: Transaction, lane: Lane, *, before: int, now: float) -> None:
        """Forget a chat: what waits in this lane of it ends, what was allowed in the chat is revoked."""
        await approval_rows.revoke_all(tx, chat=lane.chat)
        parked_turns = await parked_items.list_parked_turns(tx, lane, before=before)
        await self.stop_turns(tx, parked_turns, now=now)

    async def end_for_person(
        self, tx: Transaction, person: int, *, reason: str, now: float
    ) -> tuple[Callable[[], object], ...]:
        """End a person's questions, allowances and waiting turns: their access was removed.

        Returns what to call once that is committed.
        """
        await approval_rows.revoke_all(tx, person=person)
        await self._withdraw(tx, await approval_rows.list_open(tx, person=person), now)
        return self._report_ended(await parked_items.end_waiting_turns(tx, person, reason=reason, now=now))

    async def end_turns(
        self, tx: Transaction, turns: Sequence[int], *, reason: str, now: float
    ) -> tuple[Callable[[], object], ...]:
        """End those of these turns that wait, and withdraw their questions; returns as `end_for_person`."""
        await self._withdraw(tx, await approval_rows.list_open(tx, turns=turns), now)
        return self._report_ended(await parked_items.end_turns(tx, turns, reason=reason, now=now))

    async def _withdraw(self, tx: Transaction, questions: Sequence[ApprovalQuestion], now: float) -> None:
        for question in questions:
            await approval_rows.store_answer(tx, question.id, "stopped", None, now=now)
            await self._show_answer(tx, replace(question, answer="stopped"), "")

    def _report_ended(self, ended_turns: Iterable[EndedTurn]) -> tuple[Callable[[], object], ...]:
        return tuple(partial(self._dependencies.on_turn_ended, turn) for turn in ended_turns)

    async def run(self) -> None:
        """Let questions expire, until cancelled."""
        while True:
            self._question_added.clear()
            expires_at = await retry_until_available(self._expire_questions)
            if not self._question_added.is_set():
                self._has_open_questions = expires_at is not None
            seconds = self._look_seconds
            if expires_at is not None:
                seconds = min(max(0.0, expires_at - self._clock()), seconds or math.inf)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._question_added.wait()

    async def _expire_questions(self) -> float | None:
        """Deny what nobody answered in time; returns when the next question expires."""
        now = self._clock()
        async with self._database.read_transaction() as tx:
            expires_at = await approval_rows.find_next_expiry(tx)
        if expires_at is None or expires_at > now:
            return expires_at
        async with self._database.transaction() as tx:
            questions = await approval_rows.list_open(tx, expired_by=now)
            await self._resolve_questions(tx, questions, "expired", None, now=now)
            return await approval_rows.find_next_expiry(tx)

    async def _resolve_questions(
        self,
        tx: Transaction,
        questions: Sequence[ApprovalQuestion],
        answer: ApprovalAnswer,
        answered_by: tuple[int, str] | None,
        reply: str | None = None,
        *,
        now: float,
    ) -> None:
        """Store and show one answer to several questions, and resume the turns that have no open one left."""
        person, name = answered_by or (None, "")
        for question in questions:
            if await approval_rows.store_answer(tx, question.id, answer, person, reply, now=now):
                answered = replace(question, answer=answer, reply=reply)
                await self._show_answer(tx, answered, name)
        turns = [question.turn for question in questions]
        for turn in await approval_rows.list_answered_turns(tx, turns):
            await parked_items.resume(tx, turn, stopped=answer == "stopped", now=now)

    async def _show_answer(self, tx: Transaction, question: ApprovalQuestion, answerer_name: str) -> None:
        """Replace the buttons by the answer, in every chat the question was put to."""
        for row, lane in await approval_rows.list_messages(tx, question.id):
            translate = await people.find_translator(tx, lane.chat)
            line = _format_answer(translate, question, answerer_name)
            await outbox.close_buttons(tx, [row], line)


def _is_yes_or_no(question: ApprovalQuestion) -> bool:
    """Whether Yes or No is the answer: the question said in words what a tool of our own does."""
    return question.who == "asker" and question.tool in _ASKED_IN_WORDS and question.answer in _YES_OR_NO


def _format_answer(translate: Translator, question: ApprovalQuestion, name: str) -> str:
    """How a question was answered; one that is open still has no answer to format."""
    assert question.answer is not None
    if _is_yes_or_no(question):
        return translate(ANSWERED, answer=translate(_YES_OR_NO[question.answer]))
    notice = _ANSWER_NOTICES[question.answer]
    if question.tool == ask.name:
        notice = _UNANSWERED_NOTICES.get(question.answer, notice)
    if notice == ANSWERED and question.reply is None:
        notice = ANSWERED_BELOW
    shown_reply = to_plain_line(question.reply or "", MAX_SHOWN_ANSWER_CHARS)
    return translate(notice, name=name, hours=ALLOW_HERE_HOURS, answer=shown_reply)
