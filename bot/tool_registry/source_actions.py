"""What admins do about all tools of a source at once: grant, revoke, set a rule, accept what waits.

The same as for one tool after the other, in the caller's transaction: each grant binds to the definition of
its own tool, each change has its audit row. What comes to the source later is granted to nobody by that.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.db.tools import tools
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import (
    AdminAction,
    PendingChange,
    accept_change,
    get_pending_change,
    is_source,
)
from bot.tool_registry.tool_info import ToolInfo, load_tool_info

ToolChange = Callable[[str], Awaitable[ToolInfo]]
"""Changes the tool of this name; raises ChangeRefused."""


@dataclass(frozen=True, slots=True)
class ChangedTools:
    """What became of a change: the tools it was made to, and why others stay as they were, by name."""

    changed: tuple[ToolInfo, ...]
    refusals: dict[str, ChangeRefused]


@dataclass(frozen=True, slots=True)
class PendingSource:
    """What of a source waits for an admin.

    `flagged` are names of tools whose words want a second look; they are accepted one by one.
    """

    source: str
    changes: tuple[PendingChange, ...]
    flagged: tuple[str, ...]

    @property
    def hash(self) -> str:
        """Of all definitions that wait, so that nobody accepts what was not shown."""
        lines = "\n".join(f"{change.tool_name} {change.hash}" for change in self.changes)
        return hashlib.sha256(lines.encode()).hexdigest()


async def change_tools(action: AdminAction, name: str, change: ToolChange) -> ChangedTools:
    """Make a change to the tool of this name, or else to all tools of the source of this name.

    Raises ChangeRefused if it can be made to none.
    """
    changed: list[ToolInfo] = []
    refusals: dict[str, ChangeRefused] = {}
    for tool_name in await list_tool_names(action, name):
        try:
            changed.append(await change(tool_name))
        except ChangeRefused as refused:
            refusals[tool_name] = refused
    if not changed:
        raise next(iter(refusals.values()))
    return ChangedTools(tuple(changed), refusals)


async def list_tool_names(action: AdminAction, name: str) -> tuple[str, ...]:
    """Return the names that a name means: the tool's own, or those of a source's tools.

    Raises ChangeRefused if there is neither, or the source has none.
    """
    if not await is_source(action, name):
        return ((await load_tool_info(action.tx, action.builtin_tools, name)).name,)
    names = tuple(sorted(row.name for row in await tools.list_all(action.tx) if row.source == name))
    if not names:
        raise ChangeRefused("{name} has no tools yet.", name=name)
    return names


async def get_pending_source(action: AdminAction, name: str) -> PendingSource:
    """Return what of a source waits for an admin. Raises ChangeRefused if nothing does."""
    changes: list[PendingChange] = []
    flagged: list[str] = []
    for tool_name in await list_tool_names(action, name):
        info = await load_tool_info(action.tx, action.builtin_tools, tool_name)
        if info.pending is None and info.flagged is None:
            continue
        change = await get_pending_change(action, tool_name)
        if change.flags:
            flagged.append(tool_name)
        else:
            changes.append(change)
    if not (changes or flagged):
        raise ChangeRefused("There's nothing to accept for {name}.", name=name)
    return PendingSource(name, tuple(changes), tuple(flagged))


async def accept_source(action: AdminAction, name: str, *, seen_hash: str) -> PendingSource:
    """Accept all that waits of a source, if it is what the admin has seen; but no words that are flagged.

    Returns what was accepted. Raises ChangeRefused if something has changed again.
    """
    pending = await get_pending_source(action, name)
    if pending.hash != seen_hash:
        raise ChangeRefused("{name} has changed again since you saw it. Please look again.", name=name)
    for change in pending.changes:
        await accept_change(action, change.tool_name, seen_hash=change.hash)
    return pending
