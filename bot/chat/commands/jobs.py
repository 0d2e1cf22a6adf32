"""/remind and /zone: what is asked for later, and the time zone it goes by."""

from bot.chat.actions import (
    ActionContext,
    ActionDependencies,
    ActionResult,
    ButtonExpired,
    build_part,
    reply_hint,
)
from bot.chat.commands.conversation import queue_task
from bot.chat.reminders import TIME_UNREAD
from bot.db.queues import inbox, requeued_items
from bot.db.queues.item_bodies import ReminderWish
from bot.db.transaction import Transaction
from bot.domain import Button, Part
from bot.jobs.schedule_tool import LINE_START
from bot.jobs.times import zones
from bot.jobs.times.formatting import format_near_time, format_zone
from bot.jobs.times.rrules import load_zone, to_local_time
from bot.jobs.times.zones import UnclearTime
from bot.jobs.user_jobs import ZONE_ASKED, ZONE_NEEDED, JobOwner, compute_same_reading, get_mark, shorten_text
from bot.translations.translator import Translator, translatable

HOW_TO = translatable(
    "Tell me when and what. Tap one to copy it:\n`/remind tomorrow at 9 call Anna`\n"
    "`/remind every weekday at 8 stand up`\n`/remind 20 min take out the pizza`\n"
    "/jobs shows what you have set."
)
MAX_SHIFTED = 10  # reminders that a reply about the zone names
MAX_LINE_CHARS = 40
ZONE_WAIT_SECONDS = 3600  # a /remind waits this long for its sender to set their zone


async def handle_remind(context: ActionContext) -> ActionResult:
    """/remind WHEN TEXT."""
    if not context.args:
        return reply_hint(context.translate(HOW_TO))
    said_at = context.now
    if context.item.stale:
        said_at = context.item.body["message"]["date"]
    body = ReminderWish(context.person, context.name, context.args, said_at).serialize()
    await inbox.add(
        context.tx, kind="reminder", lane=context.lane, sender=context.person, body=body, now=context.now
    )
    return ActionResult()


async def handle_remind_button(context: ActionContext, item: int) -> ActionResult:
    """The button below a time that was not read: the model reads the line, as its sender wrote it."""
    body = await requeued_items.take_failed(context.tx, item, context.lane, context.person, error=TIME_UNREAD)
    if body is None:
        raise ButtonExpired
    line = LINE_START + ReminderWish.parse(body).words
    await queue_task(context, (line,))
    text = context.translate("You asked: {question}", question=line)
    return ActionResult(replacement=Part(text))


async def handle_zone(context: ActionContext) -> ActionResult:
    """/zone, or /zone CITY."""
    if not context.args:
        return await _show_zone(context)
    try:
        zone = zones.resolve_zone(context.args[:60])
    except UnclearTime as error:
        return await _ask_for_city(context, error.explain(context.translate))
    owner = JobOwner(context.person, context.name, context.lane)
    return ActionResult((await set_zone(context.tx, context.deps, owner, zone, now=context.now),))


async def handle_zone_button(context: ActionContext) -> ActionResult:
    """The button below a place that is in another zone; `context.args` is that zone."""
    try:
        zone = zones.resolve_zone(context.args)
    except UnclearTime:
        raise ButtonExpired from None
    owner = JobOwner(context.person, context.name, context.lane)
    return ActionResult(replacement=await set_zone(context.tx, context.deps, owner, zone, now=context.now))


async def set_zone(
    tx: Transaction, deps: ActionDependencies, owner: JobOwner, zone: str, *, now: float
) -> Part:
    """Store a person's zone (an IANA name); what waited for it goes on. Returns the reply.

    What comes once keeps its moment: where that reads differently now, it is named, with a button.
    """
    moved_jobs = await deps.user_jobs.change_zone(tx, owner, zone)
    await requeued_items.requeue_failed(tx, owner.person, error=ZONE_NEEDED, since=now - ZONE_WAIT_SECONDS)
    translate = deps.access.get_translator(owner.person)
    text = _format_zone(translate, zone, now)
    shifted = [
        (job, due)
        for job in moved_jobs
        if owner.group_chat in {None, job.lane and job.lane.chat}
        if (due := compute_same_reading(job, zone))
    ][:MAX_SHIFTED]
    if shifted:
        text += "\n" + translate.plural(
            "This was set in another time zone and still comes at the same moment:",
            "These were set in another time zone and still come at the same moments:",
            len(shifted),
        )
    verb = "move" if len(shifted) == 1 else "move_one"
    buttons = list[tuple[Button, ...]]()
    for job, due in shifted:
        time = format_near_time(translate, job.next_due or due, zone, now)
        text += f"\n{get_mark(job.kind)} {shorten_text(job.text, MAX_LINE_CHARS)} · {time}"
        label = translate("Move to {time}", time=format_near_time(translate, due, zone, now))
        if len(shifted) > 1:
            label = f"{shorten_text(job.text, 20)}: {label}"
        buttons.append((Button(label, f"job:{verb}:{job.id}:{due / 60:.0f}"),))
    repeating = len([job for job in moved_jobs if job.rule])
    if repeating:
        text += "\n" if shifted else " "
        text += translate.plural(
            "Your repeating reminder now uses this time zone.",
            "Your {count} repeating reminders and tasks now use this time zone.",
            repeating,
        )
    return build_part(text, *buttons)


async def _show_zone(context: ActionContext) -> ActionResult:
    zone = await context.deps.user_jobs.find_zone(context.tx, context.person)
    if zone is None:
        question = context.translate("I don't know your time zone yet. Tell me a city: `/zone Berlin`")
        return await _ask_for_city(context, question)
    state = _format_zone(context.translate, zone, context.now)
    question = context.translate("To change it, name a city: `/zone Berlin`")
    return await _ask_for_city(context, f"{state} {question}")


async def _ask_for_city(context: ActionContext, question: str) -> ActionResult:
    """Ask for a city, which the person's next message may name without the command."""
    await requeued_items.store_error(context.tx, context.item.id, ZONE_ASKED)
    return reply_hint(question)


def _format_zone(translate: Translator, zone: str, now: float) -> str:
    time = f"{to_local_time(now, load_zone(zone)):%H:%M}"
    return translate("Your time zone is {zone}; it's {time} there.", zone=format_zone(zone), time=time)
