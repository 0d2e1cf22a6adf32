"""A message that its person edited after it was taken: it is answered again, or they are asked first.

The newest message is answered again at once, unless tools would change something a second time. Before an
older one is, a card asks, since what came after it would leave the conversation. No edit executes a command.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bot.chat.actions import ActionContext, ActionResult, ButtonExpired, build_part, reply_text
from bot.db.conversations import branches
from bot.db.conversations.branches import Branch, MadeThere
from bot.db.queues import admin_notices, edited_messages, inbox, outbox
from bot.db.queues.edited_messages import Revision, StoredMessage
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.jobs.times import formatting
from bot.telegram.incoming.edits import has_new_content
from bot.translations.formats import format_list, format_series
from bot.translations.translator import Translator, translatable

ASK_SECONDS = 3600.0  # then an older answer stays as it is
EDIT_IN_PLACE_SECONDS = 47 * 3600.0  # Telegram deletes what is left over of an answer for 48 hours
MAX_RETRIES = 20  # of one message that are followed

TOO_OLD = translatable("I can't go back to a message that old. Please send it again.")
LEFT = translatable("I've left my answer as it is.")
NOT_ANSWERED = translatable("I stopped when you edited it, and won't answer it.")
MESSAGE_EDITED = "its message was edited"

_BUTTON = re.compile(r"(again|leave):([0-9]{1,18})", re.ASCII)


async def handle_edit(context: ActionContext) -> ActionResult:
    """Answer a message again as it reads now, or ask whether to."""
    if context.item.lane is None or context.item.shape != "edit" or context.role not in {"admin", "member"}:
        return ActionResult()
    edited: dict[str, Any] = context.item.body["edited_message"]
    message_id = int(edited["message_id"])
    stored = await edited_messages.find(context.tx, context.lane, message_id)
    if stored is None or stored.sender != context.item.sender:
        return ActionResult()
    await edited_messages.store_text(context.tx, stored, edited)
    if stored.turn is None:  # it waits and is answered as it reads now, or it was refused
        return ActionResult()
    branch = await _find_branch(context, stored.turn)
    is_changed = has_new_content(edited, stored.message)
    if branch is None:
        return await _say_too_old(context, message_id) if is_changed else ActionResult()
    if not is_changed and not branch.was_cut:
        return ActionResult()
    if branch.later_turns or _list_not_repeatable(context, branch):
        card = await _build_card(context, branch, float(edited["date"]))
        return ActionResult(parts=(card,), reply_to=message_id)
    return await _answer_again(context, stored, branch, message_id)


async def handle_card_button(context: ActionContext) -> ActionResult:
    """A button of the card; `context.args` is the decision and the inbox item of the edit."""
    match = context.match_args(_BUTTON)
    edit = await edited_messages.find_edit(context.tx, context.lane, int(match[2]))
    if edit is None or not edit.is_newest:
        raise ButtonExpired
    translate = context.translate
    if not context.speaks_for(edit.sender):
        raise ChangeRefused("Only the person who edited the message can answer this.")
    stored = await edited_messages.find(context.tx, context.lane, edit.message_id)
    branch = None
    if stored is not None and stored.turn is not None:
        branch = await _find_branch(context, stored.turn)
    is_over = context.now > edit.received_at + ASK_SECONDS
    if match[1] == "leave" or is_over or stored is None:
        has_answer = branch is None or not branch.was_cut
        return ActionResult(replacement=Part(translate(LEFT if has_answer else NOT_ANSWERED)))
    if await inbox.is_lane_busy(context.tx, context.lane):
        raise ChangeRefused("I'm still answering. Tap again when I'm done.")
    if branch is None:
        return ActionResult(replacement=Part(translate(TOO_OLD)))
    result = await _answer_again(context, stored, branch, edit.message_id)
    return replace(result, replacement=Part(translate("I'm answering your edited message.")))


async def _find_branch(context: ActionContext, turn: int) -> Branch | None:
    """The turn that answers a message now: a /retry may have repeated the first one, and others that one."""
    branch = await branches.find(context.tx, context.lane, turn)
    current: int | None = turn
    for _ in range(MAX_RETRIES):
        if branch is not None or current is None:
            return branch
        current = await edited_messages.find_repeating_turn(context.tx, context.lane, current)
        if current is not None:
            branch = await branches.find(context.tx, context.lane, current)
    return branch


async def _answer_again(
    context: ActionContext, stored: StoredMessage, branch: Branch, message_id: int
) -> ActionResult:
    """Put a new turn with the same messages in the place of the old one and of all that came after it."""
    tx = context.tx
    removed = (branch.turn, *branch.later_turns)
    callbacks = await context.deps.turns.approvals.end_turns(
        tx, removed, reason=MESSAGE_EDITED, now=context.now
    )
    await branches.replace_turns(tx, context.lane, branch)
    in_place = not branch.later_turns and await _can_edit_answer(context, branch)
    assert stored.turn is not None
    revision = Revision(message_id, in_place, stored.turn)
    item = await edited_messages.requeue(tx, stored.turn, revision, now=context.now)
    if in_place and item is not None:
        await outbox.hand_over_answer(tx, branch.item, item)
        await outbox.take_back_voice(tx, branch.turn)
    return ActionResult(after_commit=callbacks)


async def _can_edit_answer(context: ActionContext, branch: Branch) -> bool:
    """Whether the new answer may stand in the messages of the old one: an edit of them makes no sound."""
    if await edited_messages.has_written_since(context.tx, context.lane, context.person, branch.last_item):
        return False
    since = context.now - EDIT_IN_PLACE_SECONDS
    return await outbox.can_edit_answer(context.tx, branch.item, since=since)


async def _say_too_old(context: ActionContext, message_id: int) -> ActionResult:
    """Say so, at most once a day and chat."""
    day = f"told on day {int(context.now // 86400)}"
    if not await admin_notices.record_if_changed(
        context.tx, f"edits {context.lane.chat}", day, now=context.now
    ):
        return ActionResult()
    return replace(reply_text(context.translate(TOO_OLD)), reply_to=message_id)


async def _build_card(context: ActionContext, branch: Branch, sent_at: float) -> Part:
    translate = context.translate
    zone = await context.load_zone()
    time = formatting.format_near_time(translate, sent_at, zone.key, context.now)
    lines = [translate("You edited a message ({time}). Shall I answer it again?", time=time)]
    if branch.later_turns:
        count = len(branch.later_turns)
        lines.append(
            translate.plural(
                "I'll no longer see the question after it and my answer.",
                "I'll no longer see the {count} questions after it and my answers.",
                count,
            )
        )
    if tools := _list_not_repeatable(context, branch):
        names = format_list(translate, tools)
        lines.append(translate("I used {tools} for it and may do so again.", tools=names))
    lines += _list_made(translate, await branches.count_made(context.tx, context.lane, branch.began_at))
    leave_label = translate("Leave as is")
    if branch.was_cut:  # there is no answer to leave
        leave_label = translate("Don't answer")
    buttons = (
        Button(translate("Answer again"), f"edit:again:{context.item.id}"),
        Button(leave_label, f"edit:leave:{context.item.id}"),
    )
    return build_part("\n".join(lines), buttons)


def _list_not_repeatable(context: ActionContext, branch: Branch) -> list[str]:
    return [tool for tool in branch.ran_tools if not context.deps.tools.is_repeatable(tool)]


def _list_made(translate: Translator, made: MadeThere) -> Iterator[str]:
    """A line of what stays of the exchanges that leave."""
    counts = []
    if made.notes:
        counts.append(translate.plural("{count} note", "{count} notes", made.notes))
    if made.reminders:
        counts.append(translate.plural("{count} reminder", "{count} reminders", made.reminders))
    if made.tasks:
        counts.append(translate.plural("{count} task", "{count} tasks", made.tasks))
    if counts:
        yield translate("These stay: {things}.", things=format_series(translate, counts))
