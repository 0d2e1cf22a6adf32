"""/jobs and its buttons: a person's reminders and tasks by time, and a card of each with what can be done.

In a group everybody sees the group's; what can be done is done by who set it. Jobs are counted as they stand
in the list; buttons carry their ids, so that a list may be old.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonExpired,
    build_hint,
    build_part,
    build_rows,
)
from bot.db.queues import jobs, outbox, snoozes
from bot.db.queues.item_bodies import JobField, JobQuestion
from bot.db.queues.jobs import Job
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.jobs.snooze import build_snooze_buttons
from bot.jobs.times import formatting
from bot.jobs.times.zones import UnclearTime
from bot.jobs.user_jobs import capitalize, format_rule, get_mark, shorten_text
from bot.translations.translator import Translator, isolate, translatable

PAGE_SIZE = 10  # jobs of one page
BUTTONS_PER_ROW = 5
MAX_LINE_CHARS = 40  # of a job's text in the list
NO_JOBS = translatable(
    "You don't have any reminders or tasks yet. Set one: `/remind tomorrow at 9 call Anna`, or just tell "
    "me: `Every Monday at 8, tell me the news in my field`"
)
NO_GROUP_JOBS = translatable(
    "This group doesn't have any reminders or tasks yet. Set one: `/remind tomorrow at 9 call Anna`"
)
GONE = translatable("This no longer exists.")
DONE = translatable("This is already done.")
REFUSAL = translatable("Only the person who set this can change it.")
TIME_PASSED = translatable("Its time has passed. You can run it now or delete it.")
LEAVE = translatable("Leave as is")
LEAVE_VERB = "leave"  # of the button below a question; a reply to it is recognized by that
ANSWER_SECONDS = 3600  # a message that replies to nothing answers a question for so long
_REQUESTS: Mapping[JobField, str] = {
    "time": translatable("Reply with the new time, such as `tomorrow at 10` or `every weekday at 8`."),
    "text": translatable("Reply with the new text."),
}
_BUTTON = re.compile(r"(?P<verb>[a-z_]+):(?P<number>[0-9]{1,18})(?::(?P<page>[0-9]{1,9}))?")


async def handle_jobs(context: ActionContext) -> ActionResult:
    """/jobs, or /jobs NUMBER for the card of the job with this number in the list."""
    if re.fullmatch(r"[1-9][0-9]{0,4}", context.args):
        index = int(context.args) - 1
        for job in await _list_jobs(context, limit=1, offset=index):
            return ActionResult(parts=(await build_card(context, job, index // PAGE_SIZE),))
    return ActionResult(parts=(await _build_list(context, 0),))


async def handle_job_button(context: ActionContext) -> ActionResult:
    """A button of the list or of a card; `context.args` is such as `pause:12:0`: action, job and page."""
    button = context.match_args(_BUTTON)
    if button["verb"] == "page":
        return ActionResult(replacement=await _build_list(context, int(button["number"])))
    action = _BUTTON_ACTIONS.get(button["verb"])
    if action is None:
        raise ButtonExpired
    job = await jobs.find(context.tx, int(button["number"]))
    is_restored = button["verb"].startswith("restore")
    if job is None or not _is_seen(context, job) or (job.state == "deleted") != is_restored:
        raise ChangeRefused(GONE)
    if button["verb"] != "open" and not context.speaks_for(job.person):
        raise ChangeRefused(REFUSAL)
    return await action(context, job, int(button["page"] or 0))


def _is_seen(context: ActionContext, job: Job) -> bool:
    """Whether a job is shown here: those of a group to its people, in private all of one's own."""
    if context.is_group:
        return job.lane is not None and job.lane.chat == context.lane.chat
    return context.speaks_for(job.person)


async def _undo_job(context: ActionContext, job: Job, _: int) -> ActionResult:
    """Take back a job that was just confirmed."""
    if job.state == "done":
        raise ChangeRefused(DONE)
    assert job.person is not None
    await jobs.remove(context.tx, job.id, person=job.person)
    text = context.translate("Undone: {text}", text=job.text[:200])
    return ActionResult(toast=context.translate("Undone."), replacement=Part(text))


async def _open_card(context: ActionContext, job: Job, page: int) -> ActionResult:
    if job.state == "done":
        toast = context.translate(DONE)
        return ActionResult(toast=toast, replacement=await _build_list(context, page))
    return ActionResult(replacement=await build_card(context, job, page))


async def _offer_change(context: ActionContext, job: Job, page: int) -> ActionResult:
    """Ask what of a job is to be changed."""
    if is_over(job):
        raise ChangeRefused(DONE)
    fields = (
        Button(context.translate("New time"), f"job:time:{job.id}"),
        Button(context.translate("New text"), f"job:text:{job.id}"),
    )
    back = Button(context.translate(LEAVE), f"job:open:{job.id}:{page}")
    card = await build_card(context, job, page)
    return ActionResult(replacement=replace(card, buttons=(fields, (back,))))


async def _ask_for_field(context: ActionContext, job: Job, _: int, *, field: JobField) -> ActionResult:
    """Ask for the new time or text, once: a second tap has nothing else to ask."""
    stored = await jobs.find_to_change(context.tx, job.id)
    if stored is None or is_over(stored):
        raise ChangeRefused(GONE if stored is None else DONE)
    earlier = stored.question
    since = context.now - ANSWER_SECONDS
    if earlier and earlier.asked_at > since and (earlier.field, earlier.lane) == (field, context.lane):
        raise ChangeRefused("I've already asked you.")
    await jobs.put_question(context.tx, job.id, JobQuestion(field, context.lane, context.now))
    return ActionResult(parts=(build_question(context.translate, job, field),))


def build_question(translate: Translator, job: Job, field: JobField, refusal: str = "") -> Part:
    """Ask for the new time or text of a job; `refusal`: why what came cannot be it."""
    request = translate(_REQUESTS[field])
    subject = f"{get_mark(job.kind)} {shorten_text(job.text, 200).replace('`', chr(39))}"
    leave = Button(translate(LEAVE), f"job:{LEAVE_VERB}_{field}:{job.id}")
    return build_hint(f"{subject}\n\n{refusal or request}", (leave,))


async def _leave_job(context: ActionContext, job: Job, page: int) -> ActionResult:
    """Withdraw the question for a new time or text."""
    await jobs.put_question(context.tx, job.id, None)
    return ActionResult(replacement=await build_card(context, job, page))


def is_over(job: Job) -> bool:
    """Whether nothing is left to be changed: what comes once has come, or comes now."""
    return job.state == "done" or (job.rule is None and job.next_due is None)


async def _delete_job(context: ActionContext, job: Job, page: int) -> ActionResult:
    translate = context.translate
    await jobs.mark_deleted(context.tx, job.id)
    restore = "restore_paused" if job.state == "paused" else "restore"
    undo = Button(translate("Undo"), f"job:{restore}:{job.id}:{page}")
    text = translate("Deleted: {text}", text=shorten_text(job.text, 200))
    replacement = build_part(text, (undo,), (_build_back_button(context, page),))
    await _offer_snooze_again(context, job)
    return ActionResult(toast=translate("Deleted."), replacement=replacement)


async def _offer_snooze_again(context: ActionContext, job: Job) -> None:
    """Where a snooze was deleted, give its reminder the buttons back."""
    item = snoozes.get_item(job)
    if item is None:
        return
    messages = await snoozes.list_messages(context.tx, item)
    buttons = build_snooze_buttons(context.translate, item)
    await outbox.reopen_buttons(context.tx, messages, (buttons,))


async def _restore_job(context: ActionContext, job: Job, page: int) -> ActionResult:
    await _restore_paused_job(context, job, page)
    return await _resume_job(context, replace(job, state="paused"), page)


async def _restore_paused_job(context: ActionContext, job: Job, page: int) -> ActionResult:
    await context.deps.user_jobs.check_limits(context.tx, context.person)
    await jobs.restore(context.tx, job.id)
    return await _redraw_card(context, job, page, context.translate("Restored."))


async def _pause_job(context: ActionContext, job: Job, page: int) -> ActionResult:
    if job.state != "active":
        return await _redraw_card(context, job, page, context.translate("It isn't active."))
    await jobs.pause(context.tx, job.id)
    return await _redraw_card(context, job, page, context.translate("Paused."))


async def _resume_job(context: ActionContext, job: Job, page: int) -> ActionResult:
    translate = context.translate
    if job.state != "paused":
        return await _redraw_card(context, job, page, translate("It isn't paused."))
    try:
        next_due = await context.deps.user_jobs.compute_next_due(job)
    except UnclearTime as error:
        return await _redraw_card(context, job, page, error.explain(translate))
    if next_due is None:
        return await _redraw_card(context, job, page, translate(TIME_PASSED))
    await jobs.resume(context.tx, job.id, next_due)
    return await _redraw_card(context, job, page, await _format_next(context, next_due))


async def _move_job(
    context: ActionContext, job: Job, minutes: int, *, shows_card: bool = True
) -> ActionResult:
    """Move a job that comes once to the minute of the epoch that its button names."""
    if job.rule or job.next_due is None:
        raise ChangeRefused(GONE)
    next_due = minutes * 60.0
    if next_due <= context.now:
        raise ChangeRefused(TIME_PASSED)
    await jobs.set_next_due(context.tx, job.id, next_due)
    toast = await _format_next(context, next_due)
    if shows_card:
        return await _redraw_card(context, job, 0, toast)
    return ActionResult(toast=toast)


async def _format_next(context: ActionContext, next_due: float) -> str:
    zone = await _find_zone(context)
    time = formatting.format_near_time(context.translate, next_due, zone, context.now)
    return context.translate("Next: {time}", time=time)


async def _run_job_now(context: ActionContext, job: Job, _: int) -> ActionResult:
    if not await jobs.run_now(context.tx, job.id, jobs.build_inbox_row(job), now=context.now):
        raise ChangeRefused("I'm already on it.")
    return ActionResult(toast=context.translate("I'll do it now."))


async def _redraw_card(context: ActionContext, job: Job, page: int, toast: str) -> ActionResult:
    """Show a card as its job is now."""
    stored = await jobs.find(context.tx, job.id)
    return ActionResult(toast=toast, replacement=await build_card(context, stored or job, page))


async def _build_list(context: ActionContext, page: int) -> Part:
    translate = context.translate
    count, _ = await jobs.count_open(context.tx, _find_owner(context), chat=context.group_chat)
    if not count:
        return build_hint(translate(NO_GROUP_JOBS if context.is_group else NO_JOBS))
    page = min(page, (count - 1) // PAGE_SIZE)
    first = page * PAGE_SIZE
    listed = await _list_jobs(context, limit=PAGE_SIZE, offset=first)
    zone = await _find_zone(context)
    heading = translate("Your reminders and tasks ({zone}):", zone=formatting.format_zone(zone))
    if context.is_group:
        heading = translate("Reminders and tasks here ({zone}):", zone=formatting.format_zone(zone))
    lines = [heading]
    numbers = list[Button]()
    for number, job in enumerate(listed, start=first + 1):
        lines.append(f"{number}. {_format_line(context, job, zone)}")
        numbers.append(Button(str(number), f"job:open:{job.id}:{page}"))
    rows = build_rows(numbers, BUTTONS_PER_ROW)
    turners = list[Button]()
    if page:
        turners.append(Button(f"‹ {first - PAGE_SIZE + 1}–{first}", f"job:page:{page - 1}"))
    if first + PAGE_SIZE < count:
        last = min(first + 2 * PAGE_SIZE, count)
        turners.append(Button(f"{first + PAGE_SIZE + 1}–{last} ›", f"job:page:{page + 1}"))
    if turners:
        rows = (*rows, tuple(turners))
    return build_part("\n".join(lines), *rows)


async def _list_jobs(context: ActionContext, *, limit: int, offset: int) -> list[Job]:
    return await jobs.list_of_person(
        context.tx, _find_owner(context), chat=context.group_chat, limit=limit, offset=offset
    )


def _find_owner(context: ActionContext) -> int | None:
    """Whose jobs are listed; None: in a group those of all its people."""
    return None if context.is_group else context.person


def _format_line(context: ActionContext, job: Job, zone: str) -> str:
    when = context.translate("under way")
    if job.state == "paused":
        when = context.translate("paused")
    elif job.next_due is not None:
        when = formatting.format_near_time(context.translate, job.next_due, zone, context.now)
    repeat = " 🔁" if job.rule else ""
    group = job.lane and context.deps.groups.directory.find(job.lane.chat)
    origin = group.title if group else ""
    if context.is_group and job.person != context.lane.chat:
        origin = job.person_name
    place = f" · {isolate(shorten_text(origin, MAX_LINE_CHARS))}" if origin else ""
    text = isolate(shorten_text(job.text, MAX_LINE_CHARS))
    return f"{get_mark(job.kind)} {text} · {when}{repeat}{place}"


async def build_card(context: ActionContext, job: Job, page: int) -> Part:
    """The card of a job: what it says, when it comes, and what can be done."""
    translate = context.translate
    lines = [f"{get_mark(job.kind)} {job.text}", ""]
    if rule := format_rule(translate, job):
        lines.append(f"{capitalize(rule)}.")
    lines.append(await _format_state(context, job))
    switch = Button(translate("Pause"), f"job:pause:{job.id}:{page}")
    if job.state == "paused":
        switch = Button(translate("Resume"), f"job:resume:{job.id}:{page}")
    actions = (
        switch,
        Button(translate("Run now"), f"job:run:{job.id}:{page}"),
        Button(translate("Delete"), f"job:delete:{job.id}:{page}"),
    )
    change = Button(translate("Change"), f"job:change:{job.id}:{page}")
    return build_part("\n".join(lines), actions, (change, _build_back_button(context, page)))


async def _format_state(context: ActionContext, job: Job) -> str:
    translate = context.translate
    if job.state == "paused" and job.why_paused:
        return translate("Paused: {reason}.", reason=translate(job.why_paused))
    if job.state == "paused":
        return translate("Paused.")
    if job.next_due is None:
        return translate("Under way.")
    zone = await _find_zone(context)
    time = formatting.format_times(translate, [job.next_due], zone)
    return translate("Next: {time}", time=time)


def _build_back_button(context: ActionContext, page: int) -> Button:
    return Button(context.translate("‹ All"), f"job:page:{page}")


async def _find_zone(context: ActionContext) -> str:
    return await context.deps.user_jobs.find_zone(context.tx, context.person) or "UTC"


_BUTTON_ACTIONS: dict[str, Callable[[ActionContext, Job, int], Awaitable[ActionResult]]] = {
    "undo": _undo_job,
    "open": _open_card,
    "change": _offer_change,
    "time": partial(_ask_for_field, field="time"),
    "text": partial(_ask_for_field, field="text"),
    f"{LEAVE_VERB}_time": _leave_job,
    f"{LEAVE_VERB}_text": _leave_job,
    "pause": _pause_job,
    "resume": _resume_job,
    "move": _move_job,
    "move_one": partial(_move_job, shows_card=False),
    "run": _run_job_now,
    "delete": _delete_job,
    "restore": _restore_job,
    "restore_paused": _restore_paused_job,
}
