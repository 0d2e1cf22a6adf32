"""Takes what people write as the answer to what they were asked: by the model, or about a job they change."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.chat.action_runner import ActionRunner
from bot.chat.actions import ActionContext, ActionResult
from bot.chat.commands.job_cards import (
    ANSWER_SECONDS,
    DONE,
    GONE,
    LEAVE_VERB,
    REFUSAL,
    build_card,
    build_question,
    is_over,
)
from bot.chat.commands.tool_answers import CLOSED_NOTICE
from bot.chat.message_turns import find_own_words
from bot.db.engine import Database
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import inbox, job_changes, jobs
from bot.db.queues.job_changes import JobQuestion
from bot.db.queues.jobs import Job
from bot.db.tools import approvals as approval_rows
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.jobs.times.zones import UnclearTime
from bot.jobs.user_jobs import UserJobs
from bot.telegram.incoming.envelope import find_replied_button
from bot.telegram.incoming.group_address import find_reply_target
from bot.telegram.incoming.prompt_text import extract_text
from bot.telegram.incoming.update import ParsedUpdate
from bot.translations.formats import load_data
from bot.turns import Approvals
from tools.builtin.ask import ask
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from bot.jobs.times.reader import ParsedSchedule

_LEAVE_DATA = re.compile(rf"job:{LEAVE_VERB}_(time|text):([0-9]{{1,18}})")


async def take_answer(
    database: Database, approvals: Approvals, updates: Sequence[ParsedUpdate], lane: Lane, *, now: float
) -> bool:
    """Take messages as the answer to the question that is open here; False: they are a request.

    Those that are more than words end the wait, and are answered after it.
    """
    if not approvals.may_have_open or updates[0].item.has_turn:
        return False
    async with database.read_transaction() as tx:
        question = await _find_question(tx, updates[0], lane, now)
    if question is None:
        return False
    ids = [update.item.id for update in updates]
    texts = [find_plain_words(update.item.body["message"]) for update in updates]
    async with database.transaction() as tx:
        await approval_rows.find(tx, question, to_answer=True)  # a tap at the same time waits
        if await _find_question(tx, updates[0], lane, now) != question:
            return False
        answerer = (updates[0].person or 0, updates[0].name)
        reply = "\n".join(texts) if all(texts) else None
        await approvals.answer(tx, question, "given", answerer, reply, now=now)
        if reply is None:
            await inbox.release(tx, ids)
        else:
            await inbox.mark_done(tx, ids, now=now)
    return True


async def _find_question(tx: Transaction, update: ParsedUpdate, lane: Lane, now: float) -> int | None:
    """The question that a message answers: in a group only a reply to it does, and no other reply."""
    message: dict[str, Any] = update.item.body["message"]
    if update.item.shape != "text" or update.person is None or extract_text(message).startswith("/"):
        return None
    asked = await approval_rows.find_asked(
        tx, lane, update.person, ask.name, received_at=update.item.received_at, now=now
    )
    if asked is None:
        return None
    question, question_message = asked
    target = find_reply_target(message)
    is_any_answer = not (target or lane.is_group or "external_reply" in message)
    if is_any_answer or target.get("message_id", 0) == question_message:
        return question
    return None


def find_plain_words(message: dict[str, Any]) -> str:
    """The text of a message, if all that came is what its sender wrote; else ""."""
    if "text" in message and find_own_words(message):
        return extract_text(message)
    return ""


class JobAnswers:
    """Gives answers in words to the jobs that wait for them.

    `may_have_open`: whether a question may be open that any message answers; most messages then cost nothing.
    """

    def __init__(
        self,
        database: Database,
        user_jobs: UserJobs,
        actions: ActionRunner,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._user_jobs = user_jobs
        self._actions = actions
        self._clock = clock
        self.may_have_open = True  # until it is known

    async def take(self, updates: Sequence[ParsedUpdate], lane: Lane, role: RoleOrBlocked) -> bool:
        """Take messages as the answer to what was asked about a job; False: they are a request.

        Those that are more than words end the wait. In a group only a reply is an answer.
        """
        update = updates[0]
        if update.item.shape != "text" or update.item.has_turn:
            return False
        message = update.item.body["message"]
        leave = _LEAVE_DATA.fullmatch(find_replied_button(message))
        if leave is not None:
            job = await self._find_replied(int(leave[2]))
            question = JobQuestion.parse(job.question) if job and job.question else None
            if job is None or question is None or question.field != leave[1]:
                return await self._reply(updates, role, CLOSED_NOTICE)
            if job.person != update.person:
                return await self._reply(updates, role, REFUSAL)
        else:
            if not self.may_have_open or lane.is_group:
                return False
            if find_reply_target(message) or "external_reply" in message:
                return False
            job = await self._find_newest(update, lane)
        if job is None:
            return False
        texts = [find_plain_words(each.item.body["message"]) for each in updates]
        if not all(texts) or texts[0].startswith("/"):
            async with self._database.transaction() as tx:
                await job_changes.put_question(tx, job.id, None)
            return False
        await self._change(updates, role, job, "\n".join(texts))
        return True

    async def _find_replied(self, number: int) -> Job | None:
        async with self._database.read_transaction() as tx:
            return await jobs.find(tx, number)

    async def _find_newest(self, update: ParsedUpdate, lane: Lane) -> Job | None:
        """The job that a person was asked about last in this lane, before they wrote, and not long ago."""
        self.may_have_open = False  # a tap sets it meanwhile
        async with self._database.read_transaction() as tx:
            asked = await jobs.list_asked_about(tx)
        since = self._clock() - ANSWER_SECONDS
        questions = [(JobQuestion.parse(job.question or ""), job) for job in asked]
        recent = [(question, job) for question, job in questions if question.asked_at > since]
        self.may_have_open |= bool(recent)
        answered = [
            (question.asked_at, job)
            for question, job in recent
            if (job.person, question.lane) == (update.person, lane)
            and question.asked_at < update.item.received_at
        ]
        return max(answered, key=lambda entry: entry[0])[1] if answered else None

    async def _change(
        self, updates: Sequence[ParsedUpdate], role: RoleOrBlocked, job: Job, text: str
    ) -> None:
        await run_in_thread(load_data)  # for the dates of the card
        schedule = None
        refusal = None
        if JobQuestion.parse(job.question or "").field == "time":
            language = self._actions.get_translator(updates[0], role).language
            try:
                schedule = await self._user_jobs.parse_when(
                    job.person or 0, text, language, updates[0].sent_at
                )
            except UnclearTime as error:
                refusal = error
        action = partial(_change_job, job, schedule, text, refusal)
        await self._actions.run(updates, role, action, "")

    async def _reply(self, updates: Sequence[ParsedUpdate], role: RoleOrBlocked, text: str) -> bool:
        async def refuse(_: ActionContext) -> ActionResult:
            raise ChangeRefused(text)

        await self._actions.run(updates, role, refuse, "")
        return True


async def _change_job(
    asked: Job,
    schedule: "ParsedSchedule | None",
    text: str,
    refusal: UnclearTime | None,
    context: ActionContext,
) -> ActionResult:
    """Change a job as it stands now; what cannot be its time or text is asked for again."""
    translate = context.translate
    job = await job_changes.find_to_change(context.tx, asked.id)
    if job is None or job.state == "deleted":
        raise ChangeRefused(GONE)
    if job.question is None or job.question != asked.question:
        raise ChangeRefused(CLOSED_NOTICE)
    if is_over(job):
        raise ChangeRefused(DONE)
    try:
        if refusal is not None:
            raise refusal
        await context.deps.user_jobs.change_job(context.tx, job, schedule, text)
    except UnclearTime as error:
        question = replace(JobQuestion.parse(job.question), asked_at=context.now)
        await job_changes.put_question(context.tx, job.id, question)
        return ActionResult(parts=(build_question(translate, job, question.field, error.explain(translate)),))
    changed = await jobs.find(context.tx, job.id)
    card = await build_card(context, changed or job, 0)
    return ActionResult(parts=(replace(card, text=f"{translate('Changed.')}\n{card.text}"),))
