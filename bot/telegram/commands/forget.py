"""/forget: says what would be deleted and what stays, asks, and leaves the deletion to a system job."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from bot.db.maintenance import retention
from bot.db.queues import inbox, jobs, stop_requests
from bot.domain import Button, Lane, Part
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, reply_text

FORGET_QUESTION = (
    "Shall I forget this chat, in all its topics? I stop what runs, drop what waits, and delete for good:\n"
    "• what you wrote and sent, and what Telegram told me with it\n"
    "• my answers, thoughts and summaries\n"
    "• what tools were asked, and what they found\n"
    "• all notes, and what I was to say or do later"
)
KEPT_NOTICE = (
    "What stays: figures without words (when, how long, how many tokens, which tools), your name, "
    "that you are let in, and your settings here. "
    "What you see in this Telegram chat stays with Telegram until you delete it there."
)
BACKUP_NOTICE = "A copy of my database holds all that until {day}; then it is deleted, too."
NO_BACKUP_NOTICE = "There is no copy of my database that I made; copies made by others are beyond my reach."
YES = "forget:yes"
NO = "forget:no"


async def handle_forget(context: ActionContext) -> ActionResult:
    """/forget."""
    backup_notice = NO_BACKUP_NOTICE
    until = context.deps.backups_kept_until()
    if until is not None:
        backup_notice = BACKUP_NOTICE.format(
            day=f"{datetime.fromtimestamp(until, await context.load_zone()):%-d %B %Y}"
        )
    return reply_text(
        "\n\n".join((FORGET_QUESTION, KEPT_NOTICE, backup_notice)),
        (Button("Forget it all", YES), Button("Keep it", NO)),
    )


async def handle_forget_button(context: ActionContext) -> ActionResult:
    """A button of the question."""
    if context.args == "no":
        return ActionResult(toast="Nothing is deleted.", replacement=Part("I keep this chat as it is."))
    if context.args != "yes":
        return BUTTON_EXPIRED
    if await retention.is_forgetting(context.tx, context.lane):
        return ActionResult(toast="I am at it.")
    await jobs.remove_all(context.tx, context.person)  # what came due from now on would not be forgotten
    lanes = await retention.list_lanes(context.tx, context.lane.chat)
    lanes_to_wake = list[Lane]()
    for lane in lanes:
        lanes_to_wake += await context.deps.approvals.forget_lane(
            context.tx, lane, before=context.item.id, now=context.now
        )
        await stop_requests.stop(context.tx, lane, before=context.item.id, now=context.now)
        await retention.drop_waiting(context.tx, lane, before=context.item.id, now=context.now)
        body = {
            "job": "forget",
            "person": context.person,
            "asked_at": context.now,
            "tell": lane == context.lane,
        }
        await inbox.add(context.tx, kind="house", lane=lane, sender=None, body=body, now=context.now)
    after_commit: list[Callable[[], object]] = []
    after_commit += [partial(context.deps.turns.stop, lane, context.item.id) for lane in lanes]
    after_commit.append(context.deps.wake_worker)
    after_commit += [partial(context.deps.wake_sender, lane) for lane in lanes_to_wake]
    return ActionResult(
        toast="I forget this chat.",
        replacement=Part("I am forgetting this chat."),
        after_commit=tuple(after_commit),
    )
