"""/forget: says what would be deleted and what stays, asks, and leaves the deletion to a system job."""

from datetime import datetime
from functools import partial

from bot.chat.actions import ActionContext, ActionResult, ButtonExpired, reply_text
from bot.db.maintenance import retention
from bot.db.queues import inbox, jobs, stop_requests
from bot.db.queues.item_bodies import ForgetOrder
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.translations.formats import format_date
from bot.translations.translator import translatable

FORGET_QUESTION = translatable(
    "Forget this chat, with all its topics? I'll stop everything that is running or waiting and "
    "permanently delete:\n"
    "• what you wrote and sent\n"
    "• my answers, thoughts and summaries\n"
    "• requests to tools, and what they found\n"
    "• all notes, instructions, reminders and tasks"
)
KEPT_NOTICE = translatable(
    "Kept: statistics without text (when, how long, how much, which tools), your name, your access and "
    "your settings. What you see in this chat stays in Telegram until you delete it there."
)
BACKUP_NOTICE = translatable("My backups still hold all that until {day}; then they're deleted too.")
NO_BACKUP_NOTICE = translatable("I don't have backups of this. I can't delete copies that others made.")
SERVER_NOTICE = translatable(
    "The database server's logs and backups keep all that for as long as its owner has decided."
)
GUEST_NOTICE = translatable("That includes what you asked me in chats that I'm not part of.")
YES = "forget:yes"
NO = "forget:no"


async def handle_forget(context: ActionContext) -> ActionResult:
    """/forget."""
    translate = context.translate
    _check_right(context)
    backup_notice = translate(NO_BACKUP_NOTICE)
    if context.deps.settings.is_database_on_server:
        backup_notice = translate(SERVER_NOTICE)
    until = context.deps.settings.retention.find_copies_expiry()
    if until is not None:
        zone = await context.load_zone()
        backup_notice = translate(
            BACKUP_NOTICE, day=format_date(translate, datetime.fromtimestamp(until, zone))
        )
    question = translate(FORGET_QUESTION)
    if any(lane.is_guest for lane in await retention.list_lanes(context.tx, context.lane.chat)):
        question = f"{question}\n{translate(GUEST_NOTICE)}"
    return reply_text(
        "\n\n".join((question, translate(KEPT_NOTICE), backup_notice)),
        (Button(translate("Forget it all"), YES), Button(translate("Keep it"), NO)),
    )


def _check_right(context: ActionContext) -> None:
    if not context.moderates:
        raise ChangeRefused("Only administrators of this group can make me forget it.")


async def handle_forget_button(context: ActionContext) -> ActionResult:
    """A button of the question."""
    _check_right(context)
    if context.args == "ask":
        return await handle_forget(context)
    if context.args == "no":
        return ActionResult(
            toast=context.translate("Nothing is deleted."),
            replacement=Part(context.translate("I'll keep this chat as it is.")),
        )
    if context.args != "yes":
        raise ButtonExpired
    if await retention.is_forgetting(context.tx, context.lane):
        raise ChangeRefused("I'm already deleting it.")
    # What came due from now on would not be forgotten.
    if context.is_group:
        await jobs.remove_all_of_chat(context.tx, context.lane.chat)
    else:
        await jobs.remove_all(context.tx, context.person)
    lanes = await retention.list_lanes(context.tx, context.lane.chat)
    for lane in lanes:
        await context.deps.turns.approvals.forget_lane(
            context.tx, lane, before=context.item.id, now=context.now
        )
        await stop_requests.stop(context.tx, lane, before=context.item.id, now=context.now)
        await retention.drop_waiting(context.tx, lane, before=context.item.id, now=context.now)
        order = ForgetOrder(context.now, lane == context.lane, context.translate.language)
        await inbox.add(
            context.tx, kind="system", lane=lane, sender=None, body=order.serialize(), now=context.now
        )
    return ActionResult(
        toast=context.translate("I'm forgetting this chat."),
        replacement=Part(context.translate("I'm forgetting this chat.")),
        after_commit=tuple(partial(context.deps.turns.control.stop, lane, context.item.id) for lane in lanes),
    )
