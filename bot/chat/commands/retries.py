"""An answer made again: by /retry, by its button, and by what stands below an answer that somebody dislikes.

A reaction to an answer is a verdict on it: it is stored, and nothing is said.
"""

import re
from dataclasses import replace

from bot.chat.actions import ActionContext, ActionResult, ButtonExpired, reply_text
from bot.chat.commands.conversation import queue_task
from bot.chat.quota import QUOTA_ENDING
from bot.db.conversations import retries, verdicts
from bot.db.conversations.retries import LastTurn
from bot.db.conversations.verdicts import AnswerMessage
from bot.db.queues import edited_messages, inbox, outbox
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.telegram.incoming.verdicts import judge_reactions
from bot.translations.formats import format_list

_BUTTON_ARGS = re.compile(r"([0-9]{1,18})(:think)?", re.ASCII)


async def handle_retry(context: ActionContext) -> ActionResult:
    """/retry."""
    last = await retries.find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None:
        raise ChangeRefused("There's nothing in this conversation to try again.")
    _check_may_repeat(context, last)
    return await _try_again(context, last)


async def handle_retry_button(context: ActionContext) -> ActionResult:
    """The button of the question whether tools may run a second time."""
    match = context.match_args(_BUTTON_ARGS)
    last = await retries.find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None or last.id != int(match[1]):
        return ActionResult(
            toast=context.translate("This is no longer the last answer."),
            replacement=Part(context.translate("OK, I won't try again.")),
        )
    _check_may_repeat(context, last)
    queued = await _repeat_turn(context, last, with_thinking=bool(match[2]))
    line = context.translate("Trying again.")
    return replace(queued, toast=line, replacement=Part(line))


async def handle_reaction(context: ActionContext) -> ActionResult:
    """Store what a person's reaction says about an answer; below one that is bad, offer another."""
    change = context.item.body["message_reaction"]
    answer = await verdicts.find_answer(context.tx, context.lane.chat, change["message_id"])
    if answer is None:
        return ActionResult()
    verdict = judge_reactions(change["new_reaction"])
    is_newest = await verdicts.store(
        context.tx, answer, context.person, verdict, item=context.item.id, now=context.now
    )
    if verdict != "bad" or not is_newest:
        return ActionResult()
    return await _offer_retry(context, answer)


async def handle_offer_button(context: ActionContext) -> ActionResult:
    """[Answer again] or [With thinking] below an answer."""
    match = context.match_args(_BUTTON_ARGS)
    remove_buttons = context.remove_tapped_buttons()
    if not remove_buttons:
        raise ButtonExpired
    if await inbox.is_lane_busy(context.tx, context.lane):
        raise ChangeRefused("I'm already working on something newer.")
    last = await retries.find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None or last.id != int(match[1]):
        line = context.translate("This is no longer the last answer.")
        return ActionResult(toast=line, best_effort_calls=remove_buttons)
    _check_may_repeat(context, last)
    result = await _try_again(context, last, with_thinking=bool(match[2]))
    toast = "" if result.parts else context.translate("Trying again.")
    return replace(result, toast=toast, best_effort_calls=remove_buttons)


def _check_may_repeat(context: ActionContext, last_turn: LastTurn) -> None:
    if not may_repeat(context, last_turn):
        raise ChangeRefused("Only the person who asked can get a new answer.")


def may_repeat(context: ActionContext, last_turn: LastTurn) -> bool:
    """Whether the person may have this answered again; in a group only who asked."""
    return not context.is_group or context.speaks_for(last_turn.person)


async def _offer_retry(context: ActionContext, answer: AnswerMessage) -> ActionResult:
    """Put the buttons below the last part of an answer, if it is the newest of its conversation."""
    last = await retries.find_last_turn(context.tx, answer.lane, before_item=context.item.id)
    if last is None or last.id != answer.turn or not may_repeat(context, last):
        return ActionResult()
    buttons = [Button(context.translate("Answer again"), f"redo:{last.id}")]
    if not last.thinking:
        buttons.append(Button(context.translate("With thinking"), f"redo:{last.id}:think"))
    row = await verdicts.find_last_row(context.tx, last.id)
    if row is not None:
        await outbox.add_buttons(context.tx, row, tuple(buttons))
    return ActionResult()


async def _try_again(
    context: ActionContext, last_turn: LastTurn, *, with_thinking: bool = False
) -> ActionResult:
    """Replace the last turn by a new one, or ask first if it ran what may not simply run again."""
    not_repeatable = [tool for tool in last_turn.ran_tools if not context.deps.tools.is_repeatable(tool)]
    if not not_repeatable:
        return await _repeat_turn(context, last_turn, with_thinking=with_thinking)
    question = context.translate(
        "I used {tools} for my last answer. If I try again, I may do so again.",
        tools=format_list(context.translate, not_repeatable),
    )
    how = ":think" if with_thinking else ""
    button = Button(context.translate("Try again anyway"), f"retry:{last_turn.id}{how}")
    return reply_text(question, (button,))


async def _repeat_turn(context: ActionContext, last_turn: LastTurn, *, with_thinking: bool) -> ActionResult:
    """Replace the last turn by a new one with the same messages; what came with a refused one is fetched."""
    await retries.mark_replaced(context.tx, last_turn.id)
    is_refused = last_turn.ending == QUOTA_ENDING
    if is_refused and await edited_messages.requeue(context.tx, last_turn.id, None, now=context.now):
        return ActionResult()
    await queue_task(
        context, last_turn.texts, of_turn=last_turn.id, deep=last_turn.deep, with_thinking=with_thinking
    )
    return ActionResult()
