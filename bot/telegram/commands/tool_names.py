"""How things are named in a chat: tools in the few letters of a button, people by name and number."""

import hashlib

from bot.db.people import people
from bot.telegram.actions import ActionContext
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.formatting import NameLookup
from bot.tool_registry.tool_info import ToolInfo, load_tool_infos


def build_admin_action(context: ActionContext) -> AdminAction:
    """What a person does in a chat, as an act on tools."""
    return AdminAction(context.tx, context.actor, context.now, context.deps.builtin_tools)


def hash_name(name: str) -> str:
    """A name in few letters, for a button that may hold 64 bytes at most."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


async def find_tool_by_hash(context: ActionContext, name_hash: str) -> ToolInfo | None:
    """The tool a button is about, if it is still there."""
    return next(
        (
            one
            for one in await load_tool_infos(context.tx, context.deps.builtin_tools)
            if hash_name(one.name) == name_hash
        ),
        None,
    )


async def load_person_names(context: ActionContext) -> NameLookup:
    """What people are called in lists: name and number."""
    known = {one.id: one.name for one in await people.list_people(context.tx)}
    return lambda number: f"{known.get(number, 'person')} ({number})"
