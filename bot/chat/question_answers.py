"""Takes what people write as the answer to what they were asked: by the model, or about a job they change."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from bot.db.queues import inbox, jobs
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


@dataclass(frozen=True, slots=True)
class JobAnswers:
    """Gives answers in words to the jobs that wait for them."""

    database: Database
    user_jobs: UserJobs
    actions: ActionRunner
    clock: Callable[[], float] = time.time

    async def take(self, updates: Sequence[ParsedUpdate], lane: Lane, role: RoleOrBlocked) -> bool:
        """Take messages as the answer to what was asked about a job; False: they are a request.

        Those that are more than words end the wait. In a group only a reply is an answer.
        """
        update = updates[0]
        if update.item.shape != "text" or update.item.has_turn:
            return False
        message = update.item.body["message"]
        texts = [find_plain_words(each.item.body["message"]) for each in updates]
        is_answer = all(texts) and not texts[0].startswith("/")
        replied = _LEAVE_DATA.fullmatch(find_replied_button(message))
        if replied is not None and is_answer:
            await self._change(updates, role, int(replied[2]), replied[1], "\n".join(texts))
            return True
        is_apart = lane.is_group or find_reply_target(message) or "external_reply" in message
        if is_apart and replied is None:
            return False
        job = await self._find_newest(update, lane)
        if job is None or job.question is None:
            return False
        if is_answer:
            await self._change(updates, role, job.id, job.question.field, "\n".join(texts))
            return True
        async with self.database.transaction() as tx:
            await jobs.put_question(tx, job.id, None)
        return False

    async def _find_newest(self, update: ParsedUpdate, lane: Lane) -> Job | None:
        """The job that a person was asked about last in this lane, before they wrote, and not long ago."""
        async with self.database.read_transaction() as tx:
            asked = await jobs.list_asked_about(tx, update.person or 0)
        since = self.clock() - ANSWER_SECONDS
        answered = {
            job.question.asked_at: job
            for job in asked
            if job.question
            and job.question.lane == lane
            and since < job.question.asked_at < update.item.received_at
        }
        return answered[max(answered)] if answered else None

    async def _change(
        self, updates: Sequence[ParsedUpdate], role: RoleOrBlocked, job: int, field: str, text: str
    ) -> None:
        await run_in_thread(load_data)  # for the dates of the card
        update = updates[0]
        schedule = None
        refusal = None
        if field == "time":
            language = self.actions.get_translator(update, role).language
            try:
                schedule = await self.user_jobs.parse_when(update.person or 0, text, language, update.sent_at)
            except UnclearTime as error:
                refusal = error
        action = partial(_change_job, job, field, schedule, text, refusal)
        await self.actions.run(updates, role, action, "")


async def _change_job(
    number: int,
    field: str,
    schedule: "ParsedSchedule | None",
    text: str,
    refusal: UnclearTime | None,
    context: ActionContext,
) -> ActionResult:
    """Change a job as it stands now; what cannot be its time or text is asked for again."""
    translate = context.translate
    job = await jobs.find_to_change(context.tx, number)
    if job is None or job.question is None or job.question.field != field:
        raise ChangeRefused(CLOSED_NOTICE)
    if job.person != context.person:
        raise ChangeRefused(REFUSAL)
    if job.state == "deleted":
        raise ChangeRefused(GONE)
    if is_over(job):
        raise ChangeRefused(DONE)
    try:
        if refusal is not None:
            raise refusal
        await context.deps.user_jobs.change_job(context.tx, job, schedule, text)
    except UnclearTime as error:
        question = replace(job.question, asked_at=context.now)
        await jobs.put_question(context.tx, job.id, question)
        return ActionResult(parts=(build_question(translate, job, question.field, error.explain(translate)),))
    changed = await jobs.find(context.tx, job.id)
    card = await build_card(context, changed or job, 0)
    return ActionResult(parts=(replace(card, text=f"{translate('Changed.')}\n{card.text}"),))
