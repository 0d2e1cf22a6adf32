"""The buttons under an approval question, and /approvals: open questions, and allowances to revoke."""

import re
from datetime import tzinfo
from typing import cast, get_args
from zoneinfo import ZoneInfo

from bot.agent.approval_prompt import describe_binding
from bot.chat.actions import ActionContext, ActionResult, ButtonExpired, ListEntry, build_pages, redraw_list
from bot.db.people import people
from bot.db.tools import approvals
from bot.db.tools.approvals import Allowance, ApprovalAnswer, ApprovalQuestion
from bot.domain import Button, Part
from bot.translations.formats import format_moment
from bot.translations.translator import ENGLISH, Translator
from bot.turns import find_choice

REVOKE_PREFIX = "revoke:"
MAX_LISTED = 60  # questions, and as many allowances

_ANSWERS = frozenset(get_args(ApprovalAnswer)) - {"expired", "given", "stopped"}
_NUMBER = re.compile(r"[0-9]{1,18}")


async def handle_answer_button(context: ActionContext) -> ActionResult:
    """A button of a question; `context.args` is the answer and the question's id."""
    answer, _, question_id = context.args.partition(":")
    if answer not in _ANSWERS:
        raise ButtonExpired
    question = await _find_question(context, question_id)
    return await _answer(context, question, cast(ApprovalAnswer, answer))


async def handle_choice_button(context: ActionContext) -> ActionResult:
    """A choice of a question of the model's own; `context.args` is its number and the question's id."""
    number, _, question_id = context.args.partition(":")
    if not _NUMBER.fullmatch(number):
        raise ButtonExpired
    question = await _find_question(context, question_id)
    choice = find_choice(question, int(number))
    if choice is None:
        raise ButtonExpired
    return await _answer(context, question, "given", choice)


async def _find_question(context: ActionContext, question_id: str) -> ApprovalQuestion:
    """Return the question that a button names. Raises ButtonExpired."""
    question = None
    if _NUMBER.fullmatch(question_id):
        question = await approvals.find(context.tx, int(question_id))
    if question is None:
        raise ButtonExpired
    return question


async def _answer(
    context: ActionContext,
    question: ApprovalQuestion,
    answer: ApprovalAnswer,
    reply: str | None = None,
) -> ActionResult:
    answerer = (context.person, context.name)
    if question.who == "asker" and context.speaks_for(question.asker):
        answerer = (question.asker, context.name)
    toast = await context.deps.turns.approvals.answer(
        context.tx, question.id, answer, answerer, reply, now=context.now
    )
    return ActionResult(toast=toast)


async def handle_approvals(context: ActionContext) -> ActionResult:
    """/approvals; admins see everybody's."""
    return ActionResult(parts=await _build_list(context))


async def handle_revoke_button(context: ActionContext, allowance_id: int) -> ActionResult:
    """A button of the list: such calls need approval again."""
    allowances = await approvals.list_allowances(context.tx, _get_person_filter(context), now=context.now)
    was_revoked = await approvals.revoke(context.tx, allowance_id, _get_person_filter(context))
    for allowance in allowances:
        if allowance.id == allowance_id and allowance.person != context.person:
            await _record_revocation(context, allowance)
    if was_revoked:
        toast = context.translate("I'll ask again.")
    else:
        toast = context.translate("This is no longer allowed.")
    return redraw_list(toast, await _build_list(context))


async def _record_revocation(context: ActionContext, allowance: Allowance) -> None:
    before = {
        "tool": allowance.tool,
        "allowed": describe_binding(ENGLISH, allowance.binding),
        "until": format_moment(ENGLISH, allowance.until, ZoneInfo(context.deps.settings.time_zone)),
    }
    await context.record_audit("took back what was allowed", f"person {allowance.person}", before, None)


async def _build_list(context: ActionContext) -> tuple[Part, ...]:
    may_answer = context.deps.turns.approvals.can_answer
    questions = [
        question
        for question in await approvals.list_open(context.tx)
        if question.asker == context.person or may_answer(question, context.person)
    ]
    allowances = await approvals.list_allowances(context.tx, _get_person_filter(context), now=context.now)
    people_named = {question.asker for question in questions}
    people_named |= {allowance.person for allowance in allowances}
    names = await _load_names(context, people_named)
    zone = await context.load_zone()
    entries: list[ListEntry] = []
    translate = context.translate
    if questions:
        entries.append((translate("Waiting for approval:"), ()))
        entries += [
            (_format_question(translate, question, names, zone), ()) for question in questions[:MAX_LISTED]
        ]
    if allowances:
        if questions:
            entries.append(("", ()))
        entries.append((translate("Allowed for a while:"), ()))
        entries += [
            (
                _format_allowance(translate, allowance, names, zone),
                (_build_revoke_button(translate, allowance),),
            )
            for allowance in allowances[:MAX_LISTED]
        ]
    if not entries:
        entries.append((translate("Nothing is waiting for approval, and nothing is allowed in advance."), ()))
    left_out = max(0, len(questions) - MAX_LISTED) + max(0, len(allowances) - MAX_LISTED)
    if left_out:
        entries.append((translate("… and {count} more", count=left_out), ()))
    return build_pages(translate("Tools that ask first"), entries, buttons_per_row=2)


def _get_person_filter(context: ActionContext) -> int | None:
    """Return whose allowances somebody may see and revoke; None: everybody's."""
    if context.role == "admin":
        return None
    return context.person


async def _load_names(context: ActionContext, persons: set[int]) -> dict[int, str]:
    names = {person.id: person.name for person in await people.list_people(context.tx)}
    names[context.person] = context.name  # an admin by the settings has no row
    return {person: names.get(person, f"Person {person}") for person in persons}


def _format_question(
    translate: Translator, question: ApprovalQuestion, names: dict[int, str], zone: tzinfo
) -> str:
    asker = names[question.asker]
    answerer = translate("an admin") if question.who == "admins" else asker
    return translate(
        "{tool}, for {asker}: {answerer} can answer until {time}",
        tool=question.tool,
        asker=asker,
        answerer=answerer,
        time=format_moment(translate, question.expires_at, zone),
    )


def _format_allowance(
    translate: Translator, allowance: Allowance, names: dict[int, str], zone: tzinfo
) -> str:
    return translate(
        "{tool} {covered}, for {name}, until {time} (number {number})",
        tool=allowance.tool,
        covered=describe_binding(translate, allowance.binding),
        name=names[allowance.person],
        time=format_moment(translate, allowance.until, zone),
        number=allowance.id,
    )


def _build_revoke_button(translate: Translator, allowance: Allowance) -> Button:
    label = translate("Ask again: {tool} ({number})", tool=allowance.tool, number=allowance.id)
    return Button(label, f"{REVOKE_PREFIX}{allowance.id}")
