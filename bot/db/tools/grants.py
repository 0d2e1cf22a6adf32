"""Grants: who may use which tool.

Without a grant everyone may use built-in tools, and only admins may use others. Functions work inside the
caller's transaction `tx`.
"""

from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy import and_, delete, select, update

from bot.db.portable_sql import replace_row
from bot.db.tables import grants, groups
from bot.db.transaction import Transaction

GranteeKind = Literal["everyone", "admins", "person", "chat"]


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant.

    `number` is a person's or a chat's id; `hash` is of the one definition it holds for. `supergroup`: the
    number of a group's supergroup, by which people know it.
    """

    tool: str
    whom: GranteeKind
    number: int = 0
    hash: str = ""
    given_by: int | None = None
    given_at: float = 0.0
    supergroup: int | None = None


async def list_all(tx: Transaction, tool: str | None = None) -> list[Grant]:
    """Every grant, or those of a tool."""
    has_supergroup = and_(groups.c.chat == grants.c.number, groups.c.other_chat < groups.c.chat)
    query = (
        select(grants, groups.c.other_chat)
        .outerjoin(groups, has_supergroup)
        .order_by(grants.c.tool, grants.c.whom, grants.c.number)
    )
    if tool is not None:
        query = query.where(grants.c.tool == tool)
    return [
        Grant(row.tool, row.whom, row.number, row.hash, row.given_by, row.given_at, row.other_chat)
        for row in await tx.execute(query)
    ]


async def give(tx: Transaction, grant: Grant) -> None:
    """Grant a tool; replaces a grant to the same grantee."""
    row = asdict(grant)
    del row["supergroup"]
    await tx.execute(replace_row(grants, row))


async def revoke(tx: Transaction, tool: str, grantee_kind: GranteeKind, number: int = 0) -> bool:
    """Revoke a grant; False if there was none."""
    grant = delete(grants).where(
        grants.c.tool == tool, grants.c.whom == grantee_kind, grants.c.number == number
    )
    return bool((await tx.execute(grant)).rowcount)


async def rebind(tx: Transaction, tool: str, new_hash: str, *, old_hash: str) -> None:
    """Let the grants of a tool hold for its new definition, which an admin has accepted."""
    bound_to_old = update(grants).where(grants.c.tool == tool, grants.c.hash == old_hash)
    await tx.execute(bound_to_old.values(hash=new_hash))


async def revoke_all(tx: Transaction, person: int) -> None:
    """Revoke all grants to a person, who is no longer let in."""
    await tx.execute(delete(grants).where(grants.c.whom == "person", grants.c.number == person))
