"""Answers to what running tools ask: taps on their buttons, and replies to their messages."""

import re
from functools import partial

from bot.chat.actions import ActionContext, ActionResult, ButtonExpired
from bot.errors import ChangeRefused
from bot.translations.translator import translatable
from tools.base import ToolAnswer

CLOSED_NOTICE = translatable("This question is no longer open, so I didn't use your reply.")
_DATA = re.compile(r"([0-9a-f]{12}):(no|[0-9]{1,2})")


async def handle_answer_button(context: ActionContext) -> ActionResult:
    """A button of a question; `context.args` is its key and the number of the choice, or `no`."""
    match = context.match_args(_DATA)
    questions = context.deps.turns.questions
    choice = None if match[2] == "no" else int(match[2])
    answer = questions.find_choice(match[1], choice, context.person)
    if answer is None and context.speaks_for(context.lane.chat):
        answer = questions.find_choice(match[1], choice, context.lane.chat)
    if answer is None:
        raise ButtonExpired
    take = partial(questions.answer, match[1], answer)
    if answer.has_declined:
        return ActionResult(toast=context.translate("Declined."), after_commit=(take,))
    return ActionResult(toast=context.translate("Thank you."), after_commit=(take,))


async def take_reply(key: str, context: ActionContext) -> ActionResult:
    """A reply to the question with this key; `context.args` is its text."""
    questions = context.deps.turns.questions
    question = questions.find_question(key, context.person)
    if question is None:
        raise ChangeRefused(CLOSED_NOTICE)
    if not question.takes_reply:
        raise ChangeRefused("Please tap one of the buttons.")
    return ActionResult(after_commit=(partial(questions.answer, key, ToolAnswer(context.args)),))
