"""Who may use which tool: admins grant a tool to everyone, a person or a chat, and revoke grants.

Admins may always use a tool. Without a grant the built-in tools are everyone's and all others the admins'. A
grant of a registered tool holds for the definition it was given for, and for no other.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from bot.db.people import groups, people
from bot.db.tools import grants as grant_rows
from bot.db.tools.grants import Grant, GranteeKind
from bot.db.transaction import Transaction
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.tool_info import ToolInfo, load_tool_info
from bot.translations.translator import Translator, defer, translatable
from tools.base import Tool, hash_tool

GRANTEE_HELP = translatable("everyone, admins, @name or the number of a person, or chat and its number")
_NUMBER = re.compile(r"-?[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Grantee:
    """Who a grant is for; `number` is a person's or a chat's, 0 for the other kinds.

    `supergroup`: the number by which people know such a chat.
    """

    kind: GranteeKind
    number: int = 0
    supergroup: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.number:
            return f"{self.kind} {self.supergroup or self.number}"
        return self.kind


EVERYONE = Grantee("everyone")
ADMINS = Grantee("admins")


class Permissions:
    """The grants of these tools as they stand now. Pure."""

    def __init__(self, tools: Iterable[Tool], grants: Iterable[Grant]) -> None:
        grants_by_tool: dict[str, list[Grant]] = defaultdict(list)
        for grant in grants:
            grants_by_tool[grant.tool].append(grant)
        self._grantees: Mapping[str, frozenset[tuple[str, int]]] = {
            tool.name: _collect_grantees(tool, grants_by_tool[tool.name]) for tool in tools
        }

    def can_use(self, name: str, person: int, chat: int) -> bool:
        """Tell whether somebody who is no admin may use a tool in a chat."""
        grantees = self._grantees.get(name, frozenset())
        return not grantees.isdisjoint({("everyone", 0), ("person", person), ("chat", chat)})


def _collect_grantees(tool: Tool, grants: list[Grant]) -> frozenset[tuple[str, int]]:
    if tool.source:
        hash = hash_tool(tool)
        return frozenset((grant.whom, grant.number) for grant in grants if grant.hash == hash)
    if grants:
        return frozenset((grant.whom, grant.number) for grant in grants)
    return frozenset({("everyone", 0)})


def list_grantees(info: ToolInfo) -> tuple[Grantee, ...]:
    """Return who may use a tool now, admins first; or everyone."""
    if info.source is None and not info.grants:
        return (EVERYONE,)
    valid = {
        Grantee(grant.whom, grant.number, grant.supergroup)
        for grant in info.grants
        if info.source is None or grant.hash == info.hash
    }
    if EVERYONE in valid:
        return (EVERYONE,)
    return (ADMINS, *sorted(valid - {ADMINS}, key=str))


def describe_grantee(translate: Translator, grantee: Grantee) -> str:
    """Name who a grant is for; a person by number."""
    if grantee.kind == "person":
        return translate("person {number}", number=grantee.number)
    if grantee.kind == "chat":
        return translate("chat {number}", number=grantee.supergroup or grantee.number)
    return translate(grantee.kind)


async def resolve_grantee(tx: Transaction, text: str, current_chat: int | None = None) -> Grantee:
    """Return the grantee an admin's text means; `current_chat` is the one that `chat` alone means.

    Raises ChangeRefused when it is nobody, or several.
    """
    text = " ".join(text.split())
    word, _, rest = text.partition(" ")
    word = word.lower()
    if word == "everyone" and not rest:
        return EVERYONE
    if word == "admins" and not rest:
        return ADMINS
    if word == "chat" and not rest and current_chat is not None:
        return Grantee("chat", current_chat)
    number = rest if word == "chat" else text
    if _NUMBER.fullmatch(number):
        value = int(number)
        if word == "chat" or value < 0:
            return Grantee("chat", await groups.find_chat(tx, value))
        return Grantee("person", value)
    if word in {"", "chat"}:
        raise ChangeRefused("For whom? Say {people}.", people=defer(GRANTEE_HELP))
    return Grantee("person", await people.find_id(tx, text))


async def grant_tool(action: AdminAction, name: str, grantee: Grantee) -> ToolInfo:
    """Grant a tool; return its info afterwards. Raises ChangeRefused for one that was never accepted."""
    before = await load_tool_info(action.tx, action.builtin_tools, name)
    if not before.hash:
        raise ChangeRefused("{name} is waiting for approval; until then, nobody can use it.", name=name)
    grantees = list_grantees(before)
    if grantee in grantees or EVERYONE in grantees:
        return before
    await _store_grant(action, before, grantee)
    return await _record_change(action, "granted", before)


async def revoke_grant(action: AdminAction, name: str, grantee: Grantee) -> ToolInfo:
    """Revoke a grant; return the tool's info afterwards.

    Raises ChangeRefused where it would change nothing.
    """
    before = await load_tool_info(action.tx, action.builtin_tools, name)
    if grantee == ADMINS:
        raise ChangeRefused(
            "Admins may always use {name}. To stop everyone from using it, disable it.", name=name
        )
    grantees = list_grantees(before)
    if grantee not in grantees:
        if EVERYONE in grantees:
            raise ChangeRefused("Everyone may use {name}; revoke that first.", name=name)
        raise ChangeRefused(
            "{name} is not granted to {grantee}.",
            name=name,
            grantee=partial(describe_grantee, grantee=grantee),
        )
    await grant_rows.revoke(action.tx, name, grantee.kind, grantee.number)
    if before.source is None:
        await _store_grant(action, before, ADMINS)  # without a row it would be everyone's
    return await _record_change(action, "revoked", before)


async def _store_grant(action: AdminAction, info: ToolInfo, grantee: Grantee) -> None:
    grant = Grant(info.name, grantee.kind, grantee.number, info.hash, action.actor.person, action.now)
    await grant_rows.give(action.tx, grant)


async def _record_change(action: AdminAction, event: str, before: ToolInfo) -> ToolInfo:
    after = await load_tool_info(action.tx, action.builtin_tools, before.name)
    await action.record_change(
        event, f"tool {before.name}", _to_audit_record(before), _to_audit_record(after)
    )
    return after


def _to_audit_record(info: ToolInfo) -> dict[str, list[str]]:
    return {"may use": [str(grantee) for grantee in list_grantees(info)]}
