"""Counters that a change increments, so that a running gateway notices it.

A change and its count are one transaction, whichever process makes them. Functions work inside the caller's
transaction `tx`.
"""

from sqlalchemy import select

from bot.db.portable_sql import upsert
from bot.db.tables import revisions
from bot.db.transaction import Transaction

TOOLS = "tools"
"""Sources, tools, grants, rules or secrets have changed."""
FILES = "files"
"""The files of TOOLS_DIR are to be loaded again."""

_SELECT_ALL = select(revisions)


async def bump(tx: Transaction, name: str) -> None:
    """Count a change of what this name stands for."""
    first = upsert(revisions).values(name=name, number=1)
    await tx.execute(
        first.on_conflict_do_update(index_elements=["name"], set_={"number": revisions.c.number + 1})
    )


async def read_all(tx: Transaction) -> dict[str, int]:
    """The number of every name that was counted."""
    return {row.name: row.number for row in await tx.execute(_SELECT_ALL)}
