"""Who may use a tool: an admin grants it to everyone, a person or a chat, and takes that back.

Admins may always. Without a grant the house's own tools are everyone's; a grant of a registered tool holds
for one definition. What that comes to for a call is granted.py's.
"""

from dataclasses import dataclass

from bot.db.tools import grants
from bot.db.tools.grants import Grant, GranteeKind
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.tool_info import ToolInfo, load_tool_info


@dataclass(frozen=True, slots=True)
class Grantee:
    """Whom a grant is for; `number` is a person's or a chat's, 0 for the others."""

    kind: GranteeKind
    number: int = 0

    def __str__(self) -> str:
        if self.number:
            return f"{self.kind} {self.number}"
        return self.kind


EVERYONE = Grantee("everyone")
ADMINS = Grantee("admins")


def list_grantees(info: ToolInfo) -> tuple[Grantee, ...]:
    """Who may use a tool now, admins first; or everyone."""
    if info.source is None and not info.grants:
        return (EVERYONE,)
    valid = {
        Grantee(one.whom, one.number) for one in info.grants if info.source is None or one.hash == info.hash
    }
    if EVERYONE in valid:
        return (EVERYONE,)
    return (ADMINS, *sorted(valid - {ADMINS}, key=str))


async def grant_tool(action: AdminAction, name: str, grantee: Grantee) -> ToolInfo:
    """Let somebody use a tool; returns how it stands then. Raises ChangeRefused for one that was never
    accepted.
    """
    before = await load_tool_info(action.tx, action.builtin_tools, name)
    if not before.hash:
        raise ChangeRefused(f"{name} waits to be accepted; until then nobody can use it.")
    held = list_grantees(before)
    if grantee in held or EVERYONE in held:
        return before
    await _store_grant(action, before, grantee)
    return await _record_change(action, "granted", before)


async def revoke_grant(action: AdminAction, name: str, grantee: Grantee) -> ToolInfo:
    """Take a grant back; returns how the tool stands then. Raises ChangeRefused where it would change
    nothing.
    """
    before = await load_tool_info(action.tx, action.builtin_tools, name)
    if grantee == ADMINS:
        raise ChangeRefused(f"Admins may always use {name}. To have nobody use it, disable it.")
    held = list_grantees(before)
    if grantee not in held:
        if EVERYONE in held:
            also = " Everyone may use it; take that back first."
        else:
            also = ""
        raise ChangeRefused(f"{name} is not granted to {grantee}.{also}")
    await grants.revoke(action.tx, name, grantee.kind, grantee.number)
    if before.source is None:
        await _store_grant(action, before, ADMINS)  # without a row it would be everyone's
    return await _record_change(action, "revoked", before)


async def _store_grant(action: AdminAction, info: ToolInfo, grantee: Grantee) -> None:
    given = Grant(info.name, grantee.kind, grantee.number, info.hash, action.actor.person, action.now)
    await grants.give(action.tx, given)


async def _record_change(action: AdminAction, event: str, before: ToolInfo) -> ToolInfo:
    after = await load_tool_info(action.tx, action.builtin_tools, before.name)
    told = [{"may use": [str(one) for one in list_grantees(found)]} for found in (before, after)]
    await action.record_change(event, f"tool {before.name}", told[0], told[1])
    return after
