"""/grant and /revoke: who may use a tool."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bot.errors import ChangeRefused
from bot.telegram.actions import Answer, Call, say
from bot.telegram.commands.tool_names import act_of, named
from bot.tool_registry import formatting as words
from bot.tool_registry import grant_actions as permitting
from bot.tool_registry import grantees as whom
from bot.tool_registry.admin_actions import Act
from bot.tool_registry.grant_actions import Holder
from bot.tool_registry.tool_info import Card

HOW_TO = f"Use /grant TOOL WHOM, and /revoke TOOL WHOM: {whom.ABOUT}; chat alone is this one."


async def grant(call: Call) -> Answer:
    """/grant TOOL WHOM."""
    return await _changed(call, permitting.grant, words.FROM_WHEN)


async def revoke(call: Call) -> Answer:
    """/revoke TOOL WHOM."""
    return await _changed(call, permitting.revoke)


async def _changed(
    call: Call, change: Callable[[Act, str, Holder], Awaitable[Card]], then: str = ""
) -> Answer:
    tool, _, rest = " ".join(call.words.split()).partition(" ")
    if not rest:
        return say(HOW_TO)
    try:
        after = await change(act_of(call), tool, await whom.read(call.tx, rest, call.lane.chat))
    except ChangeRefused as refused:
        return say(str(refused))
    return replace(
        say(f"{after.name} may be used by: {words.whom(after, await named(call))}.{then}"), renews=True
    )
