"""What admins change about people: limits, and links that let somebody in; each with its row in the audit.

The same for chat and page. Functions work inside the caller's transaction `tx`.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bot.canvases import count_canvases
from bot.db.people import groups, limits, people
from bot.db.people.limits import EVERYBODY, QuotaRule
from bot.db.people.people import COMMAND_LINE_INVITER, Role
from bot.db.tools import audit
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction
from bot.db.usage import counter_readings
from bot.errors import ChangeRefused
from bot.translations.translator import DeferredText

LINK_HOURS = 24
LIMIT_VALUE = re.compile(r"none|default|[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AdminChange:
    """A change that was made inside the caller's transaction, and what follows once that is committed.

    `text` says what holds then. `after_commit` is called first; then the `calls` to Telegram are made, which
    return False if they were lost.
    """

    text: DeferredText
    after_commit: tuple[Callable[[], object], ...] = ()
    calls: tuple[Callable[[], Awaitable[bool]], ...] = ()

    async def complete(self) -> bool:
        """Do what follows the commit; False if a call to Telegram was lost."""
        for callback in self.after_commit:
            callback()
        answers = [await call() for call in self.calls]
        return all(answers)


async def set_limit(
    tx: Transaction, actor: Actor, holder: int, value: str, *, now: float
) -> QuotaRule | None:
    """Set the limit of a person, a group (by its chat) or EVERYBODY; returns it, None: it was removed.

    `value` fits LIMIT_VALUE: a number of canvases, or of tokens where the model server writes no canvases,
    `none`, or `default` to remove it. Raises ChangeRefused for a group that needs one.
    """
    if value in {"none", "default"} and await _needs_limit(tx, holder):
        raise ChangeRefused(
            "Everybody may ask in this group, so it needs a daily limit. /groups changes that."
        )
    before, _ = await limits.find_rules(tx, holder)
    after: QuotaRule | None = None
    if value == "default":
        await limits.remove(tx, holder)
    else:
        after = QuotaRule(holder, None if value == "none" else await _count_canvases(tx, int(value)))
        await limits.put(tx, holder, after.canvases, set_by=actor.person or COMMAND_LINE_INVITER, now=now)
    change = (_to_audit_record(before), _to_audit_record(after))
    await audit.record(tx, actor, "set a limit", _describe_holder(holder), change=change, now=now)
    return after


async def _count_canvases(tx: Transaction, amount: int) -> int:
    unit = await counter_readings.find_output_unit(tx)
    return amount if unit.has_canvases else count_canvases(amount)


async def _needs_limit(tx: Transaction, holder: int) -> bool:
    """What strangers take counts for their group alone."""
    found = [group for group in await groups.list_groups(tx) if group.chat == holder]
    return any(group.speakers == "everyone" for group in found)


def _describe_holder(number: int) -> str:
    if number == EVERYBODY:
        return "every member"
    return f"person {number}" if number > 0 else f"group {number}"


def _to_audit_record(rule: QuotaRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    return {"canvases a day": rule.canvases}


async def revoke_invite(tx: Transaction, actor: Actor, code_hash: str, *, now: float) -> None:
    """Void an unused link. Raises ChangeRefused if there is none."""
    role = await people.revoke_invite(tx, code_hash)
    if role is None:
        raise ChangeRefused("This link has already been used or has expired.")
    await audit.record(tx, actor, "revoked a link", f"for one {role}", change=({"role": role}, None), now=now)


async def make_invite(tx: Transaction, actor: Actor, role: Role, *, now: float) -> str:
    """Make the code of a link that lets one person in, once, within LINK_HOURS."""
    made_by = actor.person or COMMAND_LINE_INVITER
    code = await people.insert_invite(tx, role, LINK_HOURS * 60, made_by=made_by, now=now)
    change = (None, {"role": role, "hours": LINK_HOURS})
    await audit.record(tx, actor, "made a link", f"for one {role}", change=change, now=now)
    return code
