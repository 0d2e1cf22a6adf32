"""/remind, /jobs and /zone, and the buttons under what they say: what a person has asked to be done later."""

import re
from collections.abc import Awaitable, Callable

from bot.db.queues import inbox, jobs
from bot.db.queues.jobs import Job
from bot.domain import Button, Part
from bot.jobs import user_jobs as diary
from bot.jobs.times import formatting as saying
from bot.jobs.times import rrules as rules
from bot.jobs.times import zones
from bot.jobs.times.errors import UnclearTime
from bot.jobs.user_jobs import JobOwner
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, build_pages, reply_text

HOW_TO = (
    "Say when and what, such as:\n/remind tomorrow at 9 call Anna\n/remind every weekday at 8 stand up\n"
    "/remind in 20 minutes take out the pizza\n/jobs shows what there is."
)
NO_JOBS = (
    "Nothing is scheduled. Use /remind, or ask me in words: every Monday at 8, tell me the news of my field."
)
ZONE_WAIT_SECONDS = 3600  # seconds a /remind waits for its person to say where they are


async def handle_remind(context: ActionContext) -> ActionResult:
    """/remind WHEN TEXT."""
    if not context.args:
        return reply_text(HOW_TO)
    said_at = context.item.body["message"]["date"] if context.item.stale else context.now
    body = {"person": context.person, "name": context.name, "words": context.args, "said_at": said_at}
    await inbox.add(
        context.tx, kind="reminder", lane=context.lane, sender=context.person, body=body, now=context.now
    )
    return ActionResult(after_commit=(context.deps.wake_worker,))


async def handle_jobs(context: ActionContext) -> ActionResult:
    """/jobs."""
    return ActionResult(parts=await _build_list(context))


async def handle_zone(context: ActionContext) -> ActionResult:
    """/zone, or /zone CITY."""
    if not context.args:
        known = await context.deps.user_jobs.find_zone(context.tx, context.person)
        if known:
            there = f"Your time zone is {known}, where it is {_format_clock_time(known, context.now)}."
        else:
            there = "I do not know yours."
        return reply_text(f"{there} Send /zone and a city to set it, such as: /zone Berlin.")
    try:
        name = zones.resolve_zone(context.args[:60])
    except UnclearTime as error:
        return reply_text(str(error))
    moved = await context.deps.user_jobs.change_zone(
        context.tx, JobOwner(context.person, context.name, context.lane), name
    )
    if not moved:
        jobs_go = ""
    else:
        if moved > 1:
            jobs_go = " What comes again goes by it from now on."
        else:
            jobs_go = " Your job goes by it."
    then = [context.deps.user_jobs.wake_scheduler]
    if await inbox.requeue_failed(
        context.tx, context.lane, error=diary.ZONE_NEEDED, since=context.now - ZONE_WAIT_SECONDS
    ):
        then.append(context.deps.wake_worker)
    return ActionResult(
        reply_text(
            f"Your time zone is {name}, where it is {_format_clock_time(name, context.now)}.{jobs_go}"
        ).parts,
        after_commit=tuple(then),
    )


async def handle_job_button(context: ActionContext) -> ActionResult:
    """A button about a job: `call.words` is what to do and with which, such as `pause:12`."""
    verb, _, which = context.args.partition(":")
    act = _BUTTON_ACTIONS.get(verb)
    if act is None or not re.fullmatch(r"[0-9]{1,18}", which):
        return BUTTON_EXPIRED
    job = await jobs.find(context.tx, int(which))
    if job is None or job.person != context.person:
        return ActionResult(toast="This is gone already.")
    return await act(context, job)


async def _undo_job(context: ActionContext, job: Job) -> ActionResult:
    if job.state == "done":
        return ActionResult(toast="It is done already.")
    await jobs.remove(context.tx, job.id, person=context.person)
    return ActionResult(toast="Undone.", replacement=Part(f"Undone: {job.text[:200]}"))


async def _delete_job(context: ActionContext, job: Job) -> ActionResult:
    await jobs.remove(context.tx, job.id, person=context.person)
    return await _redraw_list(context, f"#{job.id} is deleted.")


async def _pause_job(context: ActionContext, job: Job) -> ActionResult:
    if job.state != "active":
        return ActionResult(toast="It is not active.")
    await jobs.pause(context.tx, job.id)
    return await _redraw_list(context, f"#{job.id} is paused.")


async def _resume_job(context: ActionContext, job: Job) -> ActionResult:
    if job.state != "paused":
        return ActionResult(toast="It is not paused.")
    try:
        next_due = await context.deps.user_jobs.compute_next_due(job)
    except UnclearTime as error:
        return ActionResult(toast=str(error))
    if next_due is None:
        return ActionResult(toast="Its time has passed. Run it now, or delete it.")
    await jobs.resume(context.tx, job.id, next_due)
    done = await _redraw_list(context, f"#{job.id} is due {saying.format_time(next_due, job.zone)}.")
    return ActionResult(
        done.parts, done.toast, done.replacement, after_commit=(context.deps.user_jobs.wake_scheduler,)
    )


async def _run_job_now(context: ActionContext, job: Job) -> ActionResult:
    if not await jobs.run_now(context.tx, job.id, jobs.build_inbox_row(job), now=context.now):
        return ActionResult(toast="It is under way already.")
    return ActionResult(toast="I do it now.", after_commit=(context.deps.wake_worker,))


async def _redraw_list(context: ActionContext, toast: str) -> ActionResult:
    """The list as it is now in the place of the one that was tapped, where that was the whole list."""
    shown = await _build_list(context)
    return ActionResult(toast=toast, replacement=shown[0] if len(shown) == 1 else None)


async def _build_list(context: ActionContext) -> tuple[Part, ...]:
    found = await jobs.list_of_person(context.tx, context.person)
    if not found:
        return (Part(NO_JOBS),)
    entries = [(diary.format_job(job), _build_buttons(job)) for job in found]
    count, _ = await jobs.count_open(context.tx, context.person)
    if count > len(found):
        entries.append((f"… and {count - len(found)} more", ()))
    return build_pages("Your jobs:", entries, buttons_per_row=3)


def _build_buttons(job: Job) -> tuple[Button, ...]:
    turn = ("Resume", "resume") if job.state == "paused" else ("Pause", "pause")
    acts = (turn, ("Run", "run"), ("Delete", "delete"))
    return tuple(Button(f"{label} #{job.id}", f"job:{verb}:{job.id}") for label, verb in acts)


def _format_clock_time(zone_name: str, now: float) -> str:
    return f"{rules.to_local_time(now, rules.load_zone(zone_name)):%H:%M}"


_BUTTON_ACTIONS: dict[str, Callable[[ActionContext, Job], Awaitable[ActionResult]]] = {
    "undo": _undo_job,
    "pause": _pause_job,
    "resume": _resume_job,
    "run": _run_job_now,
    "delete": _delete_job,
}
