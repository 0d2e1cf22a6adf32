"""/grant and /revoke: who may use a tool."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bot.catalogue import permitting, whom, words
from bot.catalogue.cards import Card
from bot.catalogue.permitting import Holder
from bot.catalogue.registering import Act
from bot.errors import ChangeRefused
from bot.telegram.acts import Answer, Call, say
from bot.telegram.toolnames import act_of, named

HOW_TO = f"Use /grant TOOL WHOM, and /revoke TOOL WHOM: {whom.ABOUT}; chat alone is this one."


async def grant(call: Call) -> Answer:
    """/grant TOOL WHOM."""
    return await _changed(call, permitting.grant, words.FROM_WHEN)


async def revoke(call: Call) -> Answer:
    """/revoke TOOL WHOM."""
    return await _changed(call, permitting.revoke)


async def _changed(call: Call, change: Callable[[Act, str, Holder], Awaitable[Card]], then: str = "") -> Answer:
    tool, _, rest = " ".join(call.words.split()).partition(" ")
    if not rest:
        return say(HOW_TO)
    try:
        after = await change(act_of(call), tool, await whom.read(call.tx, rest, call.lane.chat))
    except ChangeRefused as refused:
        return say(str(refused))
    return replace(say(f"{after.name} may be used by: {words.whom(after, await named(call))}.{then}"), renews=True)
