"""/usage: what the last turn, the day and 30 days took, with the turn's details and a picture behind buttons.

For admins `/usage all` ranks people and chats.
"""

from functools import partial

from bot.db.usage import spending as usage
from bot.db.usage.usage_sums import DAY, Scope
from bot.domain import Button, Part
from bot.telegram.actions import TOO_OLD, Answer, Call, part, say
from bot.telegram.commands import usage_chart as pictures
from bot.telegram.commands import usage_details as details
from bot.telegram.commands import usage_summary as spent
from bot.usage.queries import answered_in
from bot.usage.report import Question

MONTH = 30 * DAY  # days of /usage begin at midnight UTC
MOST = 10  # people, and chats, that are ranked
_WORDS = "/usage shows yours, /usage chart draws it."
_WORDS_OF_ADMINS = "/usage shows yours, /usage all everybody's; /usage chart and /usage chart all draw it."


async def show(call: Call) -> Answer:
    """/usage, with the words all or chart, or both."""
    words = set(call.words.lower().split())
    is_admin = call.standing == "admin"
    if words - {"all", "chart"}:
        return say(_WORDS_OF_ADMINS if is_admin else _WORDS)
    if "all" in words and not is_admin:
        return say("/usage all is for admins.")
    if "chart" in words:
        return await _chart(call, everybody="all" in words)
    return Answer(parts=(await (_everybody(call) if words else _summary(call)),))


async def back(call: Call) -> Answer:
    """The button that goes back from the details; what is shown is as of now."""
    return Answer(redraw=await _summary(call))


async def detail(call: Call, turn: int) -> Answer:
    """The button that shows the details of a turn."""
    found = await usage.details(call.tx, call.lane, turn)
    if found is None:
        return Answer(toast="This turn is not known here.")
    return Answer(redraw=part(details.lines(found), (Button("Back", "usage"), Button("Picture", "picture"))))


async def picture(call: Call) -> Answer:
    """The button that draws one's own 30 days, or under what admins are told everybody's."""
    everybody = call.words == "all"
    if everybody and call.standing != "admin":
        return TOO_OLD
    answer = await _chart(call, everybody=everybody)
    return Answer(toast="The picture comes." if answer.gestures else "Nothing yet.", gestures=answer.gestures)


async def _summary(call: Call) -> Part:
    newest = await usage.newest(call.tx, call.lane)
    last = None if newest is None else await usage.of_turn(call.tx, newest)
    today = await usage.since(call.tx, call.person, _midnight(call))
    month = await usage.since(call.tx, call.person, _month(call))
    rows: tuple[tuple[Button, ...], ...] = ()
    if newest is not None:
        rows = ((Button("Details", f"details:{newest}"), Button("Picture", "picture")),)
    return part(spent.lines(last, today, month), *rows)


async def _everybody(call: Call) -> Part:
    today = await usage.everybody(call.tx, _midnight(call), 0)
    month = await usage.everybody(call.tx, _month(call), MOST)
    return part(spent.ranking(today.whole, month))


async def _chart(call: Call, *, everybody: bool) -> Answer:
    """The figures as a message that is delivered like any other, and the picture as a gesture that may be
    lost.
    """
    scope = Scope(since=_month(call), user=None if everybody else call.person)
    found = await answered_in(call.tx, Question(scope, "day"))
    if found.is_empty:
        return say("Nothing yet in the last 30 days.")
    title = f"{'Everybody' if everybody else 'You'}, the last 30 days (UTC)"
    said = await (_everybody(call) if everybody else _summary(call))
    return Answer(
        parts=(said,), gestures=(partial(pictures.send, call.reach.gestures, call.lane, found, title),)
    )


def _midnight(call: Call) -> float:
    return call.now - call.now % DAY


def _month(call: Call) -> float:
    return _midnight(call) - MONTH + DAY
