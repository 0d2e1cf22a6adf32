"""How things are named in a chat: tools in the few letters of a button, people by name and number."""

import hashlib

from bot.db.people import people
from bot.telegram.actions import Call
from bot.tool_registry.admin_actions import Act
from bot.tool_registry.formatting import Name
from bot.tool_registry.tool_info import Card, cards


def act_of(call: Call) -> Act:
    """What a person does in a chat, as an act on tools."""
    return Act(call.tx, call.by, call.now, call.reach.own)


def seal(name: str) -> str:
    """A name in few letters, for a button that may hold 64 bytes at most."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


async def sealed_tool(call: Call, sealed: str) -> Card | None:
    """The tool a button is about, if it is still there."""
    return next((one for one in await cards(call.tx, call.reach.own) if seal(one.name) == sealed), None)


async def named(call: Call) -> Name:
    """What people are called in lists: name and number."""
    known = {one.id: one.name for one in await people.everyone(call.tx)}
    return lambda number: f"{known.get(number, 'person')} ({number})"
