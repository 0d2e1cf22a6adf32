"""Numbers that count up with each change a running gateway has to notice. Functions work inside `tx`.

A change and the count of it are one transaction, whichever process makes them.
"""

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import revisions

TOOLS = "tools"
"""Sources, tools, grants, rules or secrets have changed."""
FILES = "files"
"""Somebody asks for the files of TOOLS_DIR to be loaded anew."""

_SELECT_ALL = select(revisions)


async def bump(tx: AsyncConnection, name: str) -> None:
    """Something behind this name has changed."""
    first = insert(revisions).values(name=name, number=1)
    await tx.execute(
        first.on_conflict_do_update(index_elements=["name"], set_={"number": revisions.c.number + 1})
    )


async def read_all(tx: AsyncConnection) -> dict[str, int]:
    """Where every name stands."""
    return {row.name: row.number for row in await tx.execute(_SELECT_ALL)}
