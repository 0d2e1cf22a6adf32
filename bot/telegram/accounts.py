"""/usage: what the last turn and the person's day took, with the details of the turn behind a button."""

from bot.db import usage
from bot.domain import Button, Part
from bot.telegram import details, spent
from bot.telegram.acts import Answer, Call, part

DAY = 86_400  # a day of /usage begins at midnight UTC


async def show(call: Call) -> Answer:
    """/usage."""
    return Answer(parts=(await _summary(call),))


async def back(call: Call) -> Answer:
    """The button that goes back from the details; what is shown is as of now."""
    return Answer(redraw=await _summary(call))


async def detail(call: Call, turn: int) -> Answer:
    """The button that shows the details of a turn."""
    found = await usage.details(call.tx, call.lane, turn)
    if found is None:
        return Answer(toast="This turn is not known here.")
    return Answer(redraw=part(details.lines(found), (Button("Back", "usage"),)))


async def _summary(call: Call) -> Part:
    newest = await usage.newest(call.tx, call.lane)
    last = None if newest is None else await usage.of_turn(call.tx, newest)
    today = await usage.since(call.tx, call.person, call.now - call.now % DAY)
    rows = () if newest is None else ((Button("Details", f"details:{newest}"),),)
    return part(spent.lines(last, today), *rows)
