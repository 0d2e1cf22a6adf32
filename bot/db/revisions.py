"""Counters that a change increments, so that a running gateway notices it.

A change and its count are one transaction, whichever process makes them. On PostgreSQL the other gateways are
notified once that is committed. Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Collection

from sqlalchemy import func, select

from bot.db.portable_sql import Notification, upsert
from bot.db.tables import revisions
from bot.db.transaction import Transaction

TOOLS = "tools"
"""Sources, tools, grants, rules or secrets have changed."""
FILES = "files"
"""The files of TOOLS_DIR are to be loaded again."""
PEOPLE = "people"
"""Somebody's role or languages have changed."""
GROUPS = "groups"
"""A group has changed."""
LIMITS = "limits"
"""A quota has changed."""

REVISION_SUM = select(func.sum(revisions.c.number)).scalar_subquery().label("revision")
"""The sum of all numbers, as a column of another statement: while it is the same, nothing has changed."""

_SELECT = select(revisions)


async def bump(tx: Transaction, name: str) -> None:
    """Count a change of what this name stands for."""
    first = upsert(revisions).values(name=name, number=1)
    again = first.on_conflict_do_update(index_elements=["name"], set_={"number": revisions.c.number + 1})
    await tx.execute(again.returning(Notification("changed", name)))


async def read(tx: Transaction, names: Collection[str]) -> dict[str, int]:
    """The number of each of these names that was counted."""
    return {row.name: row.number for row in await tx.execute(_SELECT) if row.name in names}
