"""The models and tools of the newest calls, as suggestions to filter by. Only reads."""

from dataclasses import dataclass

from sqlalchemy import Column, select

from bot.db.tables import model_calls, tool_calls
from bot.db.transaction import Transaction

NEWEST_CALLS = 2_000  # all of a large ledger would take seconds


@dataclass(frozen=True, slots=True)
class RecentNames:
    """Names in the order of the alphabet."""

    models: tuple[str, ...]
    tools: tuple[str, ...]


async def list_recent_names(tx: Transaction) -> RecentNames:
    """The names among the newest calls."""
    models = await _list_distinct(tx, model_calls.c.model, model_calls.c.id)
    return RecentNames(models, await _list_distinct(tx, tool_calls.c.name, tool_calls.c.id))


async def _list_distinct(tx: Transaction, name: Column[str], key: Column[int]) -> tuple[str, ...]:
    newest = select(name.label("name")).order_by(key.desc()).limit(NEWEST_CALLS).subquery()
    rows = await tx.execute(select(newest.c.name).distinct().order_by(newest.c.name))
    return tuple(rows.scalars())
