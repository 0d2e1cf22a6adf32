"""/remind, /jobs and /zone, and their buttons: what a person has asked to be done later."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bot.db.engine import Transaction
from bot.db.queues import inbox, jobs
from bot.db.queues.jobs import Job
from bot.domain import Button, Part
from bot.jobs.times import zones
from bot.jobs.times.formatting import format_time
from bot.jobs.times.rrules import load_zone, to_local_time
from bot.jobs.times.zones import UnclearTime
from bot.jobs.user_jobs import ZONE_NEEDED, JobOwner, format_job
from bot.telegram.actions import (
    ActionContext,
    ActionDependencies,
    ActionResult,
    build_pages,
    expire_button,
    redraw_list,
    reply_text,
)

HOW_TO = (
    "Say when and what, such as:\n/remind tomorrow at 9 call Anna\n/remind every weekday at 8 stand up\n"
    "/remind in 20 minutes take out the pizza\n/jobs shows what there is."
)
NO_JOBS = (
    "Nothing is scheduled. Use /remind, or ask me in words: every Monday at 8, tell me the news of my field."
)
ZONE_WAIT_SECONDS = 3600  # a /remind waits this long for its sender to set their zone


@dataclass(frozen=True, slots=True)
class ZoneChange:
    """The text for a person whose zone was set; `after_commit` is called once that is committed."""

    text: str
    after_commit: tuple[Callable[[], None], ...]


async def handle_remind(context: ActionContext) -> ActionResult:
    """/remind WHEN TEXT."""
    if not context.args:
        return reply_text(HOW_TO)
    said_at = context.now
    if context.item.stale:
        said_at = context.item.body["message"]["date"]
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
        return await _show_zone(context)
    try:
        zone = zones.resolve_zone(context.args[:60])
    except UnclearTime as error:
        return reply_text(str(error))
    owner = JobOwner(context.person, context.name, context.lane)
    change = await set_zone(context.tx, context.deps, owner, zone, now=context.now)
    return ActionResult(reply_text(change.text).parts, after_commit=change.after_commit)


async def set_zone(
    tx: Transaction, deps: ActionDependencies, owner: JobOwner, zone: str, *, now: float
) -> ZoneChange:
    """Store a person's zone (an IANA name); a /remind that waited for it in the lane goes on."""
    moved_jobs = await deps.user_jobs.change_zone(tx, owner, zone)
    after_commit = [deps.user_jobs.wake_scheduler]
    if await inbox.requeue_failed(tx, owner.lane, error=ZONE_NEEDED, since=now - ZONE_WAIT_SECONDS):
        after_commit.append(deps.wake_worker)
    return ZoneChange(f"{_format_zone(zone, now)}{_format_moved_jobs(moved_jobs)}", tuple(after_commit))


async def _show_zone(context: ActionContext) -> ActionResult:
    state = "I do not know yours."
    zone = await context.deps.user_jobs.find_zone(context.tx, context.person)
    if zone:
        state = _format_zone(zone, context.now)
    return reply_text(f"{state} Send /zone and a city to set it, such as: /zone Berlin.")


def _format_zone(zone: str, now: float) -> str:
    return f"Your time zone is {zone}, where it is {to_local_time(now, load_zone(zone)):%H:%M}."


def _format_moved_jobs(count: int) -> str:
    match count:
        case 0:
            return ""
        case 1:
            return " Your job goes by it."
        case _:
            return " What comes again goes by it from now on."


async def handle_job_button(context: ActionContext) -> ActionResult:
    """A button about a job; `context.args` is the action and the job's id, such as `pause:12`."""
    verb, _, job_id = context.args.partition(":")
    action = _BUTTON_ACTIONS.get(verb)
    if action is None or not re.fullmatch(r"[0-9]{1,18}", job_id):
        return expire_button(context)
    job = await jobs.find(context.tx, int(job_id))
    if job is None or job.person != context.person:
        return ActionResult(toast="This is gone already.")
    return await action(context, job)


async def _undo_job(context: ActionContext, job: Job) -> ActionResult:
    if job.state == "done":
        return ActionResult(toast="It is done already.")
    await jobs.remove(context.tx, job.id, person=context.person)
    return ActionResult(toast="Undone.", replacement=Part(f"Undone: {job.text[:200]}"))


async def _delete_job(context: ActionContext, job: Job) -> ActionResult:
    await jobs.remove(context.tx, job.id, person=context.person)
    return redraw_list(f"#{job.id} is deleted.", await _build_list(context))


async def _pause_job(context: ActionContext, job: Job) -> ActionResult:
    if job.state != "active":
        return ActionResult(toast="It is not active.")
    await jobs.pause(context.tx, job.id)
    return redraw_list(f"#{job.id} is paused.", await _build_list(context))


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
    result = redraw_list(f"#{job.id} is due {format_time(next_due, job.zone)}.", await _build_list(context))
    return replace(result, after_commit=(context.deps.user_jobs.wake_scheduler,))


async def _run_job_now(context: ActionContext, job: Job) -> ActionResult:
    if not await jobs.run_now(context.tx, job.id, jobs.build_inbox_row(job), now=context.now):
        return ActionResult(toast="It is under way already.")
    return ActionResult(toast="I do it now.", after_commit=(context.deps.wake_worker,))


async def _build_list(context: ActionContext) -> tuple[Part, ...]:
    listed = await jobs.list_of_person(context.tx, context.person)
    if not listed:
        return (Part(NO_JOBS),)
    entries = [(format_job(job), _build_buttons(job)) for job in listed]
    count, _ = await jobs.count_open(context.tx, context.person)
    if count > len(listed):
        entries.append((f"… and {count - len(listed)} more", ()))
    return build_pages("Your jobs:", entries, buttons_per_row=3)


def _build_buttons(job: Job) -> tuple[Button, ...]:
    switch = ("Resume", "resume") if job.state == "paused" else ("Pause", "pause")
    labels_and_verbs = (switch, ("Run", "run"), ("Delete", "delete"))
    return tuple(Button(f"{label} #{job.id}", f"job:{verb}:{job.id}") for label, verb in labels_and_verbs)


_BUTTON_ACTIONS: dict[str, Callable[[ActionContext, Job], Awaitable[ActionResult]]] = {
    "undo": _undo_job,
    "pause": _pause_job,
    "resume": _resume_job,
    "run": _run_job_now,
    "delete": _delete_job,
}
