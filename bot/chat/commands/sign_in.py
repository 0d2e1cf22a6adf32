"""What people send back from the page of a sign-in: deleted as soon as it is read, here and in the chat."""

import re
from dataclasses import replace
from functools import partial

from bot.chat.actions import ActionContext, ActionResult, reply_text
from bot.chat.commands.tool_tasks import unsay_message, write_tool_task
from bot.telegram.incoming.envelope import is_sign_in_address
from bot.translations.translator import translatable
from tools.mcp.sign_in import SignInAnswer, parse_answer

CLOSED_NOTICE = translatable(
    "This sign-in is no longer open: it may be too old, or I was restarted. /tools signin NAME gives you "
    "another link."
)
TAKEN_NOTICE = translatable("Thank you, I'm signing in.")
_SIGNIN_COMMAND = re.compile(r"/tools(?:@\w+)?\s+signin\s", re.IGNORECASE)


def is_answer(text: str) -> bool:
    """Whether a message is the address that a sign-in's page led to, alone or after /tools signin NAME."""
    return is_sign_in_address(text) or bool(_SIGNIN_COMMAND.match(text) and _find_answer(text))


def _find_answer(text: str) -> SignInAnswer | None:
    answers = (parse_answer(word) for word in text.split() if "://" in word)
    return next((answer for answer in answers if answer is not None), None)


async def take_answer(context: ActionContext) -> ActionResult:
    """Hand the answer to the sign-in that waits for it; keep nothing of the message."""
    answer = _find_answer(context.args)
    await unsay_message(context)
    flows = context.deps.tools.sign_ins
    if answer is None or not flows.is_open(answer, context.person):
        return reply_text(context.translate(CLOSED_NOTICE))
    receive = partial(flows.receive, answer)
    return replace(reply_text(context.translate(TAKEN_NOTICE)), after_commit=(receive,))


async def handle_sign_in_button(context: ActionContext) -> ActionResult:
    """The button of an offer to sign in; `context.args` is the source."""
    await write_tool_task(context, "signin", words=context.args)
    return ActionResult(toast=context.translate("I'm getting the link; it will appear here."))
