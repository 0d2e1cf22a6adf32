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
from bot.jobs.times.errors import Unclear
from bot.jobs.user_jobs import Owner
from bot.telegram.actions import TOO_OLD, Answer, Call, pages, say

HOW_TO = (
    "Say when and what, such as:\n/remind tomorrow at 9 call Anna\n/remind every weekday at 8 stand up\n"
    "/remind in 20 minutes take out the pizza\n/jobs shows what there is."
)
NONE = (
    "Nothing is scheduled. Use /remind, or ask me in words: every Monday at 8, tell me the news of my field."
)
ZONE_ASKED = 3600  # seconds a /remind waits for its person to say where they are


async def remind(call: Call) -> Answer:
    """/remind WHEN TEXT."""
    if not call.words:
        return say(HOW_TO)
    said_at = call.item.body["message"]["date"] if call.item.stale else call.now
    body = {"person": call.person, "name": call.name, "words": call.words, "said_at": said_at}
    await inbox.add(call.tx, kind="reminder", lane=call.lane, sender=call.person, body=body, now=call.now)
    return Answer(then=(call.reach.wake_worker,))


async def show(call: Call) -> Answer:
    """/jobs."""
    return Answer(parts=await _list(call))


async def zone(call: Call) -> Answer:
    """/zone, or /zone CITY."""
    if not call.words:
        known = await call.reach.diary.zone(call.tx, call.person)
        if known:
            there = f"Your time zone is {known}, where it is {_clock(known, call.now)}."
        else:
            there = "I do not know yours."
        return say(f"{there} Send /zone and a city to set it, such as: /zone Berlin.")
    try:
        name = zones.find(call.words[:60])
    except Unclear as error:
        return say(str(error))
    moved = await call.reach.diary.move(call.tx, Owner(call.person, call.name, call.lane), name)
    if not moved:
        jobs_go = ""
    else:
        if moved > 1:
            jobs_go = " What comes again goes by it from now on."
        else:
            jobs_go = " Your job goes by it."
    then = [call.reach.diary.look]
    if await inbox.ask_again(call.tx, call.lane, error=diary.ZONE_NEEDED, since=call.now - ZONE_ASKED):
        then.append(call.reach.wake_worker)
    return Answer(
        say(f"Your time zone is {name}, where it is {_clock(name, call.now)}.{jobs_go}").parts,
        then=tuple(then),
    )


async def tapped(call: Call) -> Answer:
    """A button about a job: `call.words` is what to do and with which, such as `pause:12`."""
    verb, _, which = call.words.partition(":")
    act = _TAPS.get(verb)
    if act is None or not re.fullmatch(r"[0-9]{1,18}", which):
        return TOO_OLD
    job = await jobs.find(call.tx, int(which))
    if job is None or job.person != call.person:
        return Answer(toast="This is gone already.")
    return await act(call, job)


async def _undo(call: Call, job: Job) -> Answer:
    if job.state == "done":
        return Answer(toast="It is done already.")
    await jobs.remove(call.tx, job.id, person=call.person)
    return Answer(toast="Undone.", redraw=Part(f"Undone: {job.text[:200]}"))


async def _delete(call: Call, job: Job) -> Answer:
    await jobs.remove(call.tx, job.id, person=call.person)
    return await _redrawn(call, f"#{job.id} is deleted.")


async def _pause(call: Call, job: Job) -> Answer:
    if job.state != "active":
        return Answer(toast="It is not active.")
    await jobs.pause(call.tx, job.id)
    return await _redrawn(call, f"#{job.id} is paused.")


async def _resume(call: Call, job: Job) -> Answer:
    if job.state != "paused":
        return Answer(toast="It is not paused.")
    try:
        next_due = await call.reach.diary.next_due(job)
    except Unclear as error:
        return Answer(toast=str(error))
    if next_due is None:
        return Answer(toast="Its time has passed. Run it now, or delete it.")
    await jobs.resume(call.tx, job.id, next_due)
    done = await _redrawn(call, f"#{job.id} is due {saying.moment(next_due, job.zone)}.")
    return Answer(done.parts, done.toast, done.redraw, then=(call.reach.diary.look,))


async def _run(call: Call, job: Job) -> Answer:
    if not await jobs.run_now(call.tx, job.id, jobs.inbox_row(job), now=call.now):
        return Answer(toast="It is under way already.")
    return Answer(toast="I do it now.", then=(call.reach.wake_worker,))


async def _redrawn(call: Call, toast: str) -> Answer:
    """The list as it is now in the place of the one that was tapped, where that was the whole list."""
    shown = await _list(call)
    return Answer(toast=toast, redraw=shown[0] if len(shown) == 1 else None)


async def _list(call: Call) -> tuple[Part, ...]:
    found = await jobs.of_person(call.tx, call.person)
    if not found:
        return (Part(NONE),)
    entries = [(diary.line(job), _buttons(job)) for job in found]
    count, _ = await jobs.counts(call.tx, call.person)
    if count > len(found):
        entries.append((f"… and {count - len(found)} more", ()))
    return pages("Your jobs:", entries, in_a_row=3)


def _buttons(job: Job) -> tuple[Button, ...]:
    turn = ("Resume", "resume") if job.state == "paused" else ("Pause", "pause")
    acts = (turn, ("Run", "run"), ("Delete", "delete"))
    return tuple(Button(f"{label} #{job.id}", f"job:{verb}:{job.id}") for label, verb in acts)


def _clock(name: str, now: float) -> str:
    return f"{rules.local(now, rules.zone(name)):%H:%M}"


_TAPS: dict[str, Callable[[Call, Job], Awaitable[Answer]]] = {
    "undo": _undo,
    "pause": _pause,
    "resume": _resume,
    "run": _run,
    "delete": _delete,
}
