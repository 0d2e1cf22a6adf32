"""The buttons below a reminder: its person has it come once more, later."""

import re

from bot.chat.actions import ActionContext, ActionResult
from bot.db.queues import jobs, outbox, snoozes
from bot.db.queues.snoozes import ShownReminder
from bot.domain import Part
from bot.errors import ChangeRefused
from bot.jobs.snooze import compute_snooze_due, format_snooze

_ARGS = re.compile(r"(?P<delay>\w+):(?P<item>[0-9]{1,18})")


async def handle_snooze_button(context: ActionContext) -> ActionResult:
    """[10 min], [1 h] or [Tomorrow]; `context.args` is the delay and the reminder's inbox item."""
    args = _ARGS.fullmatch(context.args)
    reminder = await snoozes.find_shown(context.tx, int(args["item"])) if args else None
    if args is None or reminder is None or not context.speaks_for(reminder.person):
        raise ChangeRefused("This reminder no longer exists.")
    user_jobs = context.deps.user_jobs
    zone = await user_jobs.find_zone(context.tx, context.person) or reminder.zone or "UTC"
    snooze = await snoozes.find_snooze(context.tx, reminder)
    if snooze is not None and snooze.state == "deleted":
        await jobs.remove(context.tx, snooze.id, person=reminder.person)
        snooze = None
    if snooze is not None and snooze.next_due is not None:
        return await _show_next_due(context, reminder, snooze.next_due, zone)
    if snooze is not None:
        raise ChangeRefused("I've already sent this reminder again.")
    next_due = compute_snooze_due(args["delay"], reminder.due_at, zone, context.now)
    if next_due is None:
        raise ChangeRefused("This reminder no longer exists.")
    await user_jobs.check_limits(context.tx, reminder.person)
    await snoozes.add_snooze(context.tx, reminder, next_due, zone, now=context.now)
    return await _show_next_due(context, reminder, next_due, zone)


async def _show_next_due(
    context: ActionContext, reminder: ShownReminder, next_due: float, zone: str
) -> ActionResult:
    """Replace the buttons by the time the reminder comes again, through the outbox: no crash loses that."""
    line = format_snooze(context.translate, next_due, zone, context.now)
    messages = await snoozes.list_messages(context.tx, reminder.item)
    replacement = None
    had_buttons = await outbox.close_buttons(context.tx, messages, line)
    if not had_buttons:  # the outcome of its first send is unknown, and it has come all the same
        replacement = Part(f"⏰ {reminder.text}\n\n{line}")
    return ActionResult(toast=line, replacement=replacement)
