"""Names of tools that the model made up, which are text of the model: replaced once its turn is forgotten.

Functions work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Sequence
from typing import Final

from sqlalchemy import exists, select, update

from bot.db.tables import tool_calls, tools, turns
from bot.db.transaction import Transaction

INVENTED_TOOL_NAME: Final = "(made up)"
"""Replaces the name of a tool that never existed, because the model made the name up."""


async def rename_invented_tools(tx: Transaction, turn_ids: Sequence[int]) -> None:
    """Replace names of tools that were not offered and do not exist: they are text of the model."""
    is_registered = exists().where(tools.c.name == tool_calls.c.name)
    refused = (
        select(tool_calls.c.id, tool_calls.c.name, turns.c.tools)
        .join(turns, turns.c.id == tool_calls.c.turn)
        .where(tool_calls.c.turn.in_(turn_ids), tool_calls.c.outcome == "refused", ~is_registered)
    )
    rows = (await tx.execute(refused)).all()
    invented = [row for row in rows if row.name not in json.loads(row.tools)]
    if invented:
        renamed = update(tool_calls).where(tool_calls.c.id.in_([row.id for row in invented]))
        await tx.execute(renamed.values(name=INVENTED_TOOL_NAME))
    await _rewrite_used_tools(tx, turn_ids)


async def _rewrite_used_tools(tx: Transaction, turn_ids: Sequence[int]) -> None:
    """Have the turns' lists of used tools name only tools that exist or were offered."""
    with_tools = select(turns.c.id).where(turns.c.id.in_(turn_ids), turns.c.used != "[]")
    names: dict[int, list[str]] = {turn: [] for turn in (await tx.execute(with_tools)).scalars()}
    called = (
        select(tool_calls.c.turn, tool_calls.c.name)
        .distinct()
        .where(tool_calls.c.turn.in_(names), tool_calls.c.name != INVENTED_TOOL_NAME)
        .order_by(tool_calls.c.turn, tool_calls.c.name)
    )
    for turn, name in await tx.execute(called):
        names[turn].append(name)
    for turn, used in names.items():
        await tx.execute(update(turns).where(turns.c.id == turn).values(used=json.dumps(used)))
