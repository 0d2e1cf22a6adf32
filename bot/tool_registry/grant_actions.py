"""Who may use a tool: an admin grants it to everyone, a person or a chat, and takes that back.

Admins may always. Without a grant the house's own tools are everyone's; a grant of a registered tool holds
for one definition. What that comes to for a call is granted.py's.
"""

from dataclasses import dataclass

from bot.db.tools import grants
from bot.db.tools.grants import Grant, Whom
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import Act
from bot.tool_registry.tool_info import Card, card


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a grant is for; `number` is a person's or a chat's, 0 for the others."""

    whom: Whom
    number: int = 0

    def __str__(self) -> str:
        if self.number:
            return f"{self.whom} {self.number}"
        return self.whom


EVERYONE = Holder("everyone")
ADMINS = Holder("admins")


def holders(found: Card) -> tuple[Holder, ...]:
    """Who may use a tool now, admins first; or everyone."""
    if found.source is None and not found.grants:
        return (EVERYONE,)
    valid = {
        Holder(one.whom, one.number) for one in found.grants if found.source is None or one.hash == found.hash
    }
    if EVERYONE in valid:
        return (EVERYONE,)
    return (ADMINS, *sorted(valid - {ADMINS}, key=str))


async def grant(act: Act, name: str, holder: Holder) -> Card:
    """Let somebody use a tool; returns how it stands then. Raises ChangeRefused for one that was never
    accepted.
    """
    before = await card(act.tx, act.own, name)
    if not before.hash:
        raise ChangeRefused(f"{name} waits to be accepted; until then nobody can use it.")
    held = holders(before)
    if holder in held or EVERYONE in held:
        return before
    await _give(act, before, holder)
    return await _noted(act, "granted", before)


async def revoke(act: Act, name: str, holder: Holder) -> Card:
    """Take a grant back; returns how the tool stands then. Raises ChangeRefused where it would change
    nothing.
    """
    before = await card(act.tx, act.own, name)
    if holder == ADMINS:
        raise ChangeRefused(f"Admins may always use {name}. To have nobody use it, disable it.")
    held = holders(before)
    if holder not in held:
        if EVERYONE in held:
            also = " Everyone may use it; take that back first."
        else:
            also = ""
        raise ChangeRefused(f"{name} is not granted to {holder}.{also}")
    await grants.take(act.tx, name, holder.whom, holder.number)
    if before.source is None:
        await _give(act, before, ADMINS)  # without a row it would be everyone's
    return await _noted(act, "revoked", before)


async def _give(act: Act, found: Card, holder: Holder) -> None:
    given = Grant(found.name, holder.whom, holder.number, found.hash, act.by.person, act.now)
    await grants.give(act.tx, given)


async def _noted(act: Act, what: str, before: Card) -> Card:
    after = await card(act.tx, act.own, before.name)
    told = [{"may use": [str(one) for one in holders(found)]} for found in (before, after)]
    await act.note(what, f"tool {before.name}", told[0], told[1])
    return after
