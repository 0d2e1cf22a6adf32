"""/forget: says what would be deleted and what stays, asks, and leaves the deleting to the house's job."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from bot.db.maintenance import retention
from bot.db.queues import inbox, jobs
from bot.db.queues import stop_requests as stopping
from bot.domain import Button, Lane, Part
from bot.telegram.actions import TOO_OLD, Answer, Call, say

DELETED = (
    "Shall I forget this chat, in all its topics? I stop what runs, drop what waits, and delete for good:\n"
    "• what you wrote and sent, and what Telegram told me with it\n"
    "• my answers, thoughts and summaries\n"
    "• what tools were asked, and what they found\n"
    "• all notes, and what I was to say or do later"
)
STAYS = (
    "What stays: figures without words (when, how long, how many tokens, which tools), your name, that you are let in, "
    "and your settings here. What you see in this Telegram chat stays with Telegram until you delete it there."
)
COPY = "A copy of my database holds all that until {day}; then it is deleted, too."
NO_COPY = "There is no copy of my database that I made; copies made by others are beyond my reach."
YES = "forget:yes"
NO = "forget:no"


async def ask(call: Call) -> Answer:
    """/forget."""
    until = call.reach.copies_until()
    if until is None:
        copy = NO_COPY
    else:
        copy = COPY.format(day=f"{datetime.fromtimestamp(until, UTC):%-d %B %Y}")
    return say("\n\n".join((DELETED, STAYS, copy)), (Button("Forget it all", YES), Button("Keep it", NO)))


async def tapped(call: Call) -> Answer:
    """A button of the question."""
    if call.words == "no":
        return Answer(toast="Nothing is deleted.", redraw=Part("I keep this chat as it is."))
    if call.words != "yes":
        return TOO_OLD
    if await retention.forgetting(call.tx, call.lane):
        return Answer(toast="I am at it.")
    await jobs.remove_all(call.tx, call.person)  # what came due from now on would not be forgotten
    lanes = await retention.lanes_of(call.tx, call.lane.chat)
    woken = list[Lane]()
    for lane in lanes:
        woken += await call.reach.approvals.forget(call.tx, lane, before=call.item.id, now=call.now)
        await stopping.stop(call.tx, lane, before=call.item.id, now=call.now)
        await retention.drop_waiting(call.tx, lane, before=call.item.id, now=call.now)
        body = {"job": "forget", "person": call.person, "asked_at": call.now, "tell": lane == call.lane}
        await inbox.add(call.tx, kind="house", lane=lane, sender=None, body=body, now=call.now)
    cuts = tuple(partial(call.reach.turns.stop, lane, call.item.id) for lane in lanes)
    wakes: tuple[Callable[[], object], ...] = (
        call.reach.wake_worker,
        *(partial(call.reach.wake_sender, lane) for lane in woken),
    )
    return Answer(
        toast="I forget this chat.", redraw=Part("I am forgetting this chat."), then=(*cuts, *wakes)
    )
