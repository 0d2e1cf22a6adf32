"""What has come to its end since the last look: model calls, tool calls, turns and accounts, each told once.

Looks hold no lock. Beside it, how much waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, Row, Select, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.engine import Database
from bot.db.tables import accounts, inbox, model_calls, outbox, tool_calls, turns

INTERVALS: Final = tuple(
    column.name for column in accounts.columns if column.name not in {"turn", "settled_at"}
)
MAX_SETTLE_SECONDS = 86_400.0  # seconds after its end; a turn without an account by then has none
_PAGE = 5000

_SELECT_CALLS = select(
    model_calls.c.id,
    model_calls.c.purpose,
    model_calls.c.model,
    model_calls.c.outcome,
    model_calls.c.prompt_tokens,
    model_calls.c.cached_tokens,
    model_calls.c.completion_tokens,
    model_calls.c.reasoning_tokens,
    model_calls.c.seat_at,
    model_calls.c.ended_at,
)
_SELECT_TOOLS = select(tool_calls.c.id, tool_calls.c.name, tool_calls.c.outcome)
_SELECT_TURNS = select(turns.c.id, turns.c.ending, turns.c.ended_at)
_SELECT_ACCOUNTS = select(
    turns.c.id, turns.c.ended_at, *(accounts.c[name] for name in INTERVALS)
).select_from(turns.outerjoin(accounts, accounts.c.turn == turns.c.id))

# The first turn that is not over, or whose answer is not delivered.
_SELECT_OLDEST_ACTIVE_TURN = select(func.min(inbox.c.turn)).where(
    or_(
        inbox.c.state.in_(("new", "running", "parked")),
        inbox.c.id.in_(select(outbox.c.item).where(outbox.c.state.in_(("new", "sending", "open")))),
    )
)


@dataclass(frozen=True, slots=True)
class EndedRows:
    """Rows that have ended; their columns are those of the tables. `accounts` have the INTERVALS, in seconds."""

    calls: tuple[Row[Any], ...]
    tools: tuple[Row[Any], ...]
    turns: tuple[Row[Any], ...]
    accounts: tuple[Row[Any], ...]


@dataclass(frozen=True, slots=True)
class QueueDepths:
    """How many inbox items wait to be done, and how many messages to be delivered."""

    inbox: int
    outbox: int


class EndedWatcher:
    """Tells what has ended since `begin`, which comes first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls = _TableWatcher(_SELECT_CALLS, model_calls.c.id, _has_outcome)
        self._tools = _TableWatcher(_SELECT_TOOLS, tool_calls.c.id, _has_outcome)
        self._turns = _TableWatcher(_SELECT_TURNS, turns.c.id, _has_ended)
        self._accounts = _TableWatcher(_SELECT_ACCOUNTS, turns.c.id, _is_settled)

    async def begin(self) -> None:
        """What has ended by now is not told any more; nor are calls whose end a former process has not seen."""
        async with self._database.read_transaction() as tx:
            for watch, key in ((self._calls, model_calls.c.id), (self._tools, tool_calls.c.id)):
                watch.reported_up_to = (await tx.execute(select(func.max(key)))).scalar_one() or 0
            oldest = (await tx.execute(_SELECT_OLDEST_ACTIVE_TURN)).scalar_one_or_none()
            newest = (await tx.execute(select(func.max(turns.c.id)))).scalar_one() or 0
            self._turns.reported_up_to = self._accounts.reported_up_to = (
                newest if oldest is None else oldest - 1
            )
        await self.poll(now=0.0)

    async def poll(self, *, now: float) -> EndedRows:
        """What has ended since the last look. Raises StoreUnavailable."""
        async with self._database.read_transaction() as tx:
            return EndedRows(
                tuple(await self._calls.poll(tx)),
                tuple(await self._tools.poll(tx)),
                tuple(await self._turns.poll(tx)),
                tuple(await self._accounts.poll(tx, before=now - MAX_SETTLE_SECONDS)),
            )

    async def count_waiting(self) -> QueueDepths:
        """What waits at this moment."""
        new = select(func.count()).select_from(inbox).where(inbox.c.state == "new")
        due = (
            select(func.count())
            .select_from(outbox)
            .where(outbox.c.final, outbox.c.state.in_(("new", "open")))
        )
        async with self._database.read_transaction() as tx:
            return QueueDepths(
                int((await tx.execute(new)).scalar_one()), int((await tx.execute(due)).scalar_one())
            )


class _TableWatcher:
    """One table's rows: all up to `low` are told, of those after it some."""

    def __init__(self, query: Select[Any], key: Column[Any], is_over: Callable[[Row[Any]], bool]) -> None:
        self._query = query.order_by(key).limit(_PAGE)
        self._key = key
        self._is_over = is_over
        self.reported_up_to = 0
        self._reported_ids: set[int] = set()

    async def poll(self, tx: AsyncConnection, *, before: float = 0.0) -> list[Row[Any]]:
        """Rows that are over and were not told; of those that ended `before` nothing more is expected."""
        found = list[Row[Any]]()
        after = self.reported_up_to
        is_next = True
        while True:
            page = (await tx.execute(self._query.where(self._key > after))).all()
            for row in page:
                if self._is_over(row) and row.id not in self._reported_ids:
                    self._reported_ids.add(row.id)
                    found.append(row)
                is_next = is_next and (row.id in self._reported_ids or _has_ended_before(row, before))
                if is_next:
                    self.reported_up_to = row.id
                    self._reported_ids.discard(row.id)
            if len(page) < _PAGE:
                return found
            after = page[-1].id


def _has_outcome(row: Row[Any]) -> bool:
    return row.outcome is not None


def _has_ended(row: Row[Any]) -> bool:
    return row.ended_at is not None


def _is_settled(row: Row[Any]) -> bool:
    return row.whole is not None


def _has_ended_before(row: Row[Any], moment: float) -> bool:
    return moment > 0 and row.ended_at is not None and row.ended_at < moment
