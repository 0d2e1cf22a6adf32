"""Answers to what running tools ask: taps on their buttons, and replies to their messages."""

import re
from functools import partial

from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, reply_text
from tools.base import ToolAnswer

CLOSED_QUESTION = "This question is not open any more, so I did not use your reply."
TAP_A_BUTTON = "Please tap one of its buttons."
_DATA = re.compile(r"([0-9a-f]{12}):(no|[0-9]{1,2})")


async def handle_answer_button(context: ActionContext) -> ActionResult:
    """A button of a question; `context.args` is its key and the number of the choice, or `no`."""
    match = _DATA.fullmatch(context.args)
    questions = context.deps.tool_questions
    if match is None or questions is None:
        return BUTTON_EXPIRED
    choice = None if match[2] == "no" else int(match[2])
    answer = questions.find_choice(match[1], choice, context.person)
    if answer is None:
        return BUTTON_EXPIRED
    take = partial(questions.answer, match[1], answer)
    return ActionResult(toast="Declined." if answer.has_declined else "Thank you.", after_commit=(take,))


async def take_reply(key: str, context: ActionContext) -> ActionResult:
    """A reply to the question with this key; `context.args` is its text."""
    questions = context.deps.tool_questions
    choices = questions.list_choices(key, context.person) if questions else None
    if questions is None or choices is None:
        return reply_text(CLOSED_QUESTION)
    if choices:
        return reply_text(TAP_A_BUTTON)
    return ActionResult(after_commit=(partial(questions.answer, key, ToolAnswer(context.args)),))
