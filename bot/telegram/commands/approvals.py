"""The buttons under a question whether a tool call may run, and /approvals: what waits for an answer, what is
allowed for a while, and how that is taken back.
"""

import re
from datetime import UTC, datetime
from functools import partial
from typing import cast, get_args

from bot.agent.approval_prompt import describe_binding
from bot.db.people import people
from bot.db.tools import approvals
from bot.db.tools.approvals import Allowance, ApprovalAnswer, ApprovalQuestion
from bot.domain import Button
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, build_pages

REVOKE_PREFIX = "revoke:"
MAX_LISTED = 60  # lines of a list

_ANSWERS = frozenset(get_args(ApprovalAnswer)) - {"expired", "stopped"}
_NUMBER = re.compile(r"[0-9]{1,18}")


async def handle_answer_button(context: ActionContext) -> ActionResult:
    """A button of a question; `call.words` is the answer and the number of the question."""
    word, _, number = context.args.partition(":")
    if word not in _ANSWERS or not _NUMBER.fullmatch(number):
        return BUTTON_EXPIRED
    by = (context.person, context.name)
    heard = await context.deps.approvals.answer(
        context.tx, int(number), cast(ApprovalAnswer, word), by, now=context.now
    )
    woken = (partial(context.deps.wake_sender, lane) for lane in dict.fromkeys(heard.lanes_to_wake))
    return ActionResult(
        toast=heard.toast, after_commit=(context.deps.wake_worker, *woken) if heard.is_settled else ()
    )


async def handle_approvals(context: ActionContext) -> ActionResult:
    """/approvals; admins see everybody's."""
    asked = [one for one in await approvals.list_open(context.tx) if _can_see(context, one)]
    allowed = await approvals.list_allowances(context.tx, _get_person_filter(context), now=context.now)
    names = await _load_names(context, {one.person for one in allowed} | {one.asker for one in asked})
    waiting = [(_format_question(one, names), ()) for one in asked[:MAX_LISTED]]
    standing = [(_format_allowance(one, names), (_build_revoke_button(one),)) for one in allowed[:MAX_LISTED]]
    left_out = len(asked) + len(allowed) - len(waiting) - len(standing)
    entries = [
        *([("Waiting for an answer:", ()), *waiting] if waiting else [("Nothing waits for an answer.", ())]),
        *(
            [("", ()), ("Allowed for a while:", ()), *standing]
            if standing
            else [("Nothing is allowed ahead.", ())]
        ),
        *([(f"… and {left_out} more", ())] if left_out else []),
    ]
    return ActionResult(parts=build_pages("Tools that ask first", entries, buttons_per_row=2))


async def handle_revoke_button(context: ActionContext) -> ActionResult:
    """A button of the list: such calls ask again."""
    if not _NUMBER.fullmatch(context.args):
        return BUTTON_EXPIRED
    standing = await approvals.list_allowances(context.tx, _get_person_filter(context), now=context.now)
    was = await approvals.revoke(context.tx, int(context.args), _get_person_filter(context))
    for one in standing:
        if one.id == int(context.args) and one.person != context.person:
            before = {
                "tool": one.tool,
                "allowed": describe_binding(one.binding),
                "until": _format_time(one.until),
            }
            await context.record_audit("took back what was allowed", f"person {one.person}", before, None)
    shown = (await handle_approvals(context)).parts
    toast = "It asks again." if was else "This is not allowed any more."
    return ActionResult(toast=toast, replacement=shown[0] if len(shown) == 1 else None)


def _get_person_filter(context: ActionContext) -> int | None:
    """Whose allowances somebody sees and takes back; None: everybody's."""
    if context.role == "admin":
        return None
    return context.person


def _can_see(context: ActionContext, question: ApprovalQuestion) -> bool:
    return question.asker == context.person or context.deps.approvals.can_answer(question, context.person)


async def _load_names(context: ActionContext, persons: set[int]) -> dict[int, str]:
    known = {one.id: one.name for one in await people.list_people(context.tx)}
    known |= {context.person: context.name}  # an admin by the settings has no row
    return {person: known.get(person, f"Person {person}") for person in persons}


def _format_question(question: ApprovalQuestion, names: dict[int, str]) -> str:
    who = "an admin" if question.who == "admins" else names[question.asker]
    return f"{question.tool}, for {names[question.asker]}: {who} may answer until {_format_time(question.expires_at)}"


def _format_allowance(allowance: Allowance, names: dict[int, str]) -> str:
    return f"{allowance.tool} {describe_binding(allowance.binding)}, for {names[allowance.person]}, until {_format_time(allowance.until)} (number {allowance.id})"


def _build_revoke_button(allowance: Allowance) -> Button:
    return Button(f"Ask again: {allowance.tool} ({allowance.id})", f"{REVOKE_PREFIX}{allowance.id}")


def _format_time(timestamp: float) -> str:
    return f"{datetime.fromtimestamp(timestamp, UTC):%-d %B %H:%M} UTC"
