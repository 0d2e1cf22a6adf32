"""Who may use a tool: a row a grant. Functions work inside the caller's transaction `tx`.

Without a row the house's own tools are everyone's, all others the admins'.
"""

from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import grants

GranteeKind = Literal["everyone", "admins", "person", "chat"]


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant; `number` names a person or a chat. It holds for the definition of this `hash` only."""

    tool: str
    whom: GranteeKind
    number: int = 0
    hash: str = ""
    given_by: int | None = None
    given_at: float = 0.0


async def list_all(tx: AsyncConnection, tool: str | None = None) -> list[Grant]:
    """Every grant, or those of a tool."""
    wanted = select(grants).order_by(grants.c.tool, grants.c.whom, grants.c.number)
    rows = await tx.execute(wanted if tool is None else wanted.where(grants.c.tool == tool))
    return [Grant(row.tool, row.whom, row.number, row.hash, row.given_by, row.given_at) for row in rows]


async def give(tx: AsyncConnection, grant: Grant) -> None:
    """Grant a tool; a grant there was already is renewed."""
    row = asdict(grant)
    key = ["tool", "whom", "number"]
    await tx.execute(insert(grants).values(row).on_conflict_do_update(index_elements=key, set_=row))


async def revoke(tx: AsyncConnection, tool: str, grantee_kind: GranteeKind, number: int = 0) -> bool:
    """Take a grant back; False if there was none."""
    which = (grants.c.tool == tool) & (grants.c.whom == grantee_kind) & (grants.c.number == number)
    return bool((await tx.execute(delete(grants).where(which))).rowcount)


async def rebind(tx: AsyncConnection, tool: str, new_hash: str, *, old_hash: str) -> None:
    """An admin has seen how the tool changed: what was granted of it `before` holds for the definition of
    `hash`.
    """
    mine = (grants.c.tool == tool) & (grants.c.hash == old_hash)
    await tx.execute(update(grants).where(mine).values(hash=new_hash))


async def revoke_all(tx: AsyncConnection, person: int) -> None:
    """Somebody is not let in any more: what was granted to them by name is taken back."""
    await tx.execute(delete(grants).where(grants.c.whom == "person", grants.c.number == person))
